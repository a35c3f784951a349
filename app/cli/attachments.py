"""Files for a question in the terminal: uploaded to be read, put into the question, and forgotten again."""

import base64
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from urllib.parse import quote

from app.cli.output import print_note
from app.client.endpoint import ContentPart, ImagePart, ImageUrl, TextPart
from app.client.http import GatewayClient, quote_segment
from app.config.paths import expand_path
from app.core.attachments import MOST_ATTACHMENTS, Attachment, AttachmentKind, AttachmentPart, picture_type, quote_file
from app.core.capabilities import Capability
from app.core.errors import BadRequest, EnvironmentFault, RoundhouseError
from app.core.models import ModelInfo
from app.core.words import format_tokens

_UPLOAD_S = 120.0
"""Reading a file may take a minute, and wait for two others."""


@contextmanager
def question_parts(
    client: GatewayClient, model: str, files: Sequence[str], images: Sequence[str]
) -> Iterator[list[ContentPart]]:
    """Yield what stands before a question with these files. Raises what the service says of them, and BadRequest."""
    if len(files) + len(images) > MOST_ATTACHMENTS:
        raise BadRequest(f"A question takes {MOST_ATTACHMENTS} files at most.")
    if images:
        _check_sight(client, model)
    uploads: list[Attachment] = []
    try:
        for path in (*images, *files):
            attachment = upload_file(client, path)
            uploads.append(attachment)
            _check_kind(client, model, attachment, must_be_picture=path in images)
            print_note(describe_attachment(attachment))
        yield [_part_of(client, attachment) for attachment in uploads]
    finally:
        for attachment in uploads:
            with suppress(RoundhouseError):  # it is forgotten after a day
                client.delete(f"/attachments/{quote_segment(attachment.id)}")


def upload_file(client: GatewayClient, path: str) -> Attachment:
    """Have the service keep and read a file. Raises EnvironmentFault, and what the service says of it."""
    file = expand_path(path)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise EnvironmentFault(
            f"{path} cannot be read: {error.strerror or error}.", hint="Check the path.", code="file_unreadable"
        ) from error
    try:
        return client.post(f"/attachments?name={quote(file.name, safe='')}", content, Attachment, timeout_s=_UPLOAD_S)
    except BadRequest as error:
        raise BadRequest(f"{path}: {error}", hint=error.hint, code=error.code) from error


def _check_kind(client: GatewayClient, model: str, attachment: Attachment, *, must_be_picture: bool) -> None:
    is_picture = attachment.kind is AttachmentKind.PICTURE
    if must_be_picture and not is_picture:
        raise BadRequest(f"{attachment.name} is no picture.", hint="Use --file for it.", code="not_a_picture")
    if is_picture:
        _check_sight(client, model)


def _check_sight(client: GatewayClient, model: str) -> None:
    """Return if the model takes pictures, as far as anybody knows. Raises BadRequest that names one that does."""
    models = client.get("/models", list[ModelInfo])
    info = next((candidate for candidate in models if candidate.name == model), None)
    if info is None or info.attached or Capability.VISION in info.capabilities:
        return
    seeing = [item.name for item in models if Capability.VISION in item.capabilities and not item.problem]
    raise BadRequest(
        f"{info.title} cannot see pictures.",
        hint=f"`roundhouse run {seeing[0]}` can."
        if seeing
        else "`roundhouse search --task vision` finds models that can.",
        code="model_cannot_see",
    )


def describe_attachment(attachment: Attachment) -> str:
    """Return what a file came to, in a line."""
    facts = [
        f"{attachment.width} x {attachment.height} pixels" if attachment.width else "",
        _count_pages(attachment),
        f"about {format_tokens(attachment.tokens)} tokens",
        "its end is left out" if attachment.is_cut else "",
    ]
    return f"{attachment.name}: {', '.join(fact for fact in facts if fact)}"


def _count_pages(attachment: Attachment) -> str:
    if not attachment.pages:
        return ""
    noun = next((noun for mark, noun in _PAGE_NOUNS.items() if mark in attachment.media_type), "page")
    return f"{attachment.pages} {noun}{'' if attachment.pages == 1 else 's'}"


_PAGE_NOUNS = {"spreadsheet": "sheet", "presentation": "slide"}
"""What pages are called in files of a type with this in its name."""


def _part_of(client: GatewayClient, attachment: Attachment) -> ContentPart:
    is_picture = attachment.kind is AttachmentKind.PICTURE
    part = AttachmentPart.PICTURE if is_picture else AttachmentPart.TEXT
    content = client.get(f"/attachments/{quote_segment(attachment.id)}/content?part={part}", bytes)
    if not is_picture:
        return TextPart(text=quote_file(attachment, content.decode()) + "\n\n")
    data = base64.b64encode(content).decode()
    return ImagePart(image_url=ImageUrl(url=f"data:{picture_type(content)};base64,{data}"))
