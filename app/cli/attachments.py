"""Files for a question in the terminal: uploaded to be read, put into the question, and forgotten again."""

import base64
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple
from urllib.parse import quote

from app.cli.output import print_note
from app.client.endpoint import ContentPart, ImagePart, ImageUrl, SoundData, SoundPart, TextPart
from app.client.http import GatewayClient, quote_segment
from app.config.paths import expand_path
from app.core.attachments import (
    MOST_ATTACHMENTS,
    SENSES,
    Attachment,
    AttachmentKind,
    AttachmentPart,
    decode_pages,
    describe_pages,
    picture_type,
    quote_file,
)
from app.core.capabilities import Capability
from app.core.errors import BadRequest, EnvironmentFault, RoundhouseError
from app.core.models import ModelInfo
from app.core.words import format_duration, format_tokens

_UPLOAD_S = 120.0
"""Reading a file may take a minute, and wait for two others."""


class QuestionFiles(NamedTuple):
    """What stands before a question that has files, and about how many tokens its pictures and sounds are."""

    parts: list[ContentPart]
    media_tokens: int


@contextmanager
def question_files(
    client: GatewayClient, model: str, files: Sequence[str], images: Sequence[str]
) -> Iterator[QuestionFiles]:
    """Yield what stands before a question with these files. Raises what the service says of them, and BadRequest."""
    if len(files) + len(images) > MOST_ATTACHMENTS:
        raise BadRequest(f"A question takes {MOST_ATTACHMENTS} files at most.")
    if images:
        _check_sense(client, model, Capability.VISION)
    uploads: list[Attachment] = []
    try:
        for path in (*images, *files):
            attachment = upload_file(client, path)
            uploads.append(attachment)
            _check_kind(client, model, attachment, must_be_picture=path in images)
            print_note(describe_attachment(attachment))
        parts = [part for attachment in uploads for part in _parts_of(client, attachment)]
        yield QuestionFiles(parts, sum(attachment.tokens for attachment in uploads if attachment.kind in SENSES))
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
    if must_be_picture and attachment.kind is not AttachmentKind.PICTURE:
        raise BadRequest(f"{attachment.name} is no picture.", hint="Use --file for it.", code="not_a_picture")
    if attachment.kind in SENSES:
        _check_sense(client, model, SENSES[attachment.kind])


_CANNOT = {
    Capability.VISION: (
        "cannot see pictures",
        "model_cannot_see",
        "`roundhouse search --task vision` finds models that can.",
    ),
    Capability.AUDIO: (
        "cannot hear sounds",
        "model_cannot_hear",
        "Add a model with a projector (mmproj) for sound, or attach what is said as text.",
    ),
}


def _check_sense(client: GatewayClient, model: str, sense: Capability) -> None:
    """Return if the model sees or hears, as far as anybody knows. Raises BadRequest that names one that does."""
    models = client.get("/models", list[ModelInfo])
    info = next((candidate for candidate in models if candidate.name == model), None)
    if info is None or info.attached or sense in info.capabilities:
        return
    words, code, hint = _CANNOT[sense]
    others = [item.name for item in models if sense in item.capabilities and not item.problem]
    raise BadRequest(
        f"{info.title} {words}.",
        hint=f"`roundhouse run {others[0]}` can." if others else hint,
        code=code,
    )


def describe_attachment(attachment: Attachment) -> str:
    """Return what a file came to, in a line."""
    facts = [
        f"{attachment.width} x {attachment.height} pixels" if attachment.width else "",
        _count_pages(attachment),
        "as pictures" if attachment.kind is AttachmentKind.PAGES else "",
        format_duration(attachment.seconds) if attachment.seconds else "",
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


_PARTS = {
    AttachmentKind.PICTURE: AttachmentPart.PICTURE,
    AttachmentKind.PAGES: AttachmentPart.PAGES,
    AttachmentKind.SOUND: AttachmentPart.SOUND,
}


def _parts_of(client: GatewayClient, attachment: Attachment) -> list[ContentPart]:
    part = _PARTS.get(attachment.kind, AttachmentPart.TEXT)
    content = client.get(f"/attachments/{quote_segment(attachment.id)}/content?part={part}", bytes)
    if part is AttachmentPart.TEXT:
        return [TextPart(text=quote_file(attachment, content.decode()) + "\n\n")]
    if part is AttachmentPart.SOUND:
        return [SoundPart(input_audio=SoundData(data=base64.b64encode(content).decode(), format="wav"))]
    if part is AttachmentPart.PAGES:
        pages = decode_pages(content)
        return [TextPart(text=describe_pages(attachment, len(pages))), *map(_image_part, pages)]
    return [_image_part(content)]


def _image_part(picture: bytes) -> ImagePart:
    data = base64.b64encode(picture).decode()
    return ImagePart(image_url=ImageUrl(url=f"data:{picture_type(picture)};base64,{data}"))
