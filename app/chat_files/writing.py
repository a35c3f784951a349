"""Write chats: as JSON, which has all of them and is read again, or the branch that is shown as Markdown or HTML."""

import base64
import html
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from app import __version__
from app.core.attachments import Attachment, AttachmentKind
from app.core.chats import Chat, ChatFolder, Message, MessageStatus, Role, Timings
from app.core.tool_calls import AnswerToolCall, ToolCallState
from app.markdown.formulas import SCALE

if TYPE_CHECKING:
    from app.markdown.rendering import PageRenderer

FORMAT: Final = "roundhouse-chats"
_VERSION = 1


class ChatFile(msgspec.Struct, frozen=True, kw_only=True):
    """An export in JSON: whole chats with every branch."""

    format: str = FORMAT
    version: int = _VERSION
    written_by: str = f"Roundhouse {__version__}"
    chats: list[Chat]
    folders: list[ChatFolder] = []
    files: dict[str, bytes] = {}
    """Files of chats and folders by their hashes, in base64."""
    left_out: list[str] = []
    """Names of those that were not there any more."""


def encode_chats(chats: Sequence[Chat], files: Mapping[str, bytes], folders: Sequence[ChatFolder] = ()) -> bytes:
    """Return the chats as `read_export` takes them, with these folders, and by hash the files of both."""
    of_chats = attachments_of(message for chat in chats for message in chat.messages)
    of_folders = (file for folder in folders for file in folder.files)
    missing_files = {file.name: None for file in (*of_chats, *of_folders) if file.hash not in files}
    export = ChatFile(
        chats=[_end_answers(chat) for chat in chats],
        folders=list(folders),
        files=dict(files),
        left_out=list(missing_files),
    )
    return msgspec.json.format(msgspec.json.encode(export), indent=1) + b"\n"


def attachments_of(messages: Iterable[Message]) -> Iterator[Attachment]:
    """Yield the files of some messages."""
    return (attachment for message in messages for attachment in message.attachments)


def _end_answers(chat: Chat) -> Chat:
    """Return a chat in which no answer is still being written: nobody writes it where the file is read."""
    messages = [
        msgspec.structs.replace(message, status=MessageStatus.INTERRUPTED)
        if message.status is MessageStatus.GENERATING
        else message
        for message in chat.messages
    ]
    return msgspec.structs.replace(chat, messages=messages)


def visible_path(chat: Chat) -> list[Message]:
    """Return the messages of the branch that is shown, from the first on."""
    by_id = {message.id: message for message in chat.messages}
    path: list[Message] = []
    at = by_id.get(chat.head or "")
    while at is not None and len(path) < len(by_id):
        path.append(at)
        at = by_id.get(at.parent or "")
    return path[::-1]


def write_markdown(chat: Chat, links: Mapping[str, str] | None = None) -> bytes:
    """Return the branch that is shown as Markdown. `links` say by an attachment's id where its file was exported to."""
    return ("\n\n".join(_markdown_parts(chat, links)) + "\n").encode("utf-8", "replace")


def _markdown_parts(chat: Chat, links: Mapping[str, str] | None) -> Iterator[str]:
    yield f"# {title_of(chat)}"
    yield f"*{_about(chat)}*"
    if chat.system_prompt.strip():
        yield "## System prompt"
        yield chat.system_prompt.strip()
    for message in visible_path(chat):
        yield f"## {_speaker(message)}"
        if notes := _notes(message):
            yield f"*{notes}*"
        if message.reasoning.strip():
            yield f"<details><summary>Thinking</summary>\n\n{message.reasoning.strip()}\n\n</details>"
        for call in message.calls:
            parts = "\n\n".join(_fence(part) for part in (call.arguments, call.result) if part.strip())
            yield f"<details><summary>{html.escape(_describe_call(call))}</summary>\n\n{parts}\n\n</details>"
        yield from (_link_to(attachment, links) for attachment in message.attachments)
        yield message.content.strip() or ("" if message.attachments else "*No text.*")
        if message.error:
            yield f"*{message.error}*"


_STATES = {
    ToolCallState.FAILED: "failed",
    ToolCallState.REFUSED: "not allowed",
    ToolCallState.CANCELLED: "cancelled",
}


def _describe_call(call: AnswerToolCall) -> str:
    """Return which tool was called, and how that ended if not well."""
    name = ": ".join(filter(None, (call.server, call.tool)))
    state = _STATES.get(call.state)
    return f"Tool {name}" + (f" ({state})" if state else "")


def _fence(text: str) -> str:
    """Return a text as a block of code, whatever backticks are in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _link_to(attachment: Attachment, links: Mapping[str, str] | None) -> str:
    name = attachment.name.replace("[", "(").replace("]", ")")
    if links is None:
        return f"*Attached: {name}*"
    link = links.get(attachment.id)
    if link is None:
        return f"*Attached: {name}, which is not in this export*"
    return f"{'!' if attachment.kind is AttachmentKind.PICTURE else ''}[{name}](<{link}>)"


def title_of(chat: Chat) -> str:
    """Return a chat's title, or what stands for one."""
    return chat.title or "Chat"


def _about(chat: Chat) -> str:
    day = time.strftime("%d %B %Y", time.localtime(chat.created_at)).lstrip("0")
    others = len(chat.messages) - len(visible_path(chat))
    more = f" · {others} messages of other branches are not shown" if others > 1 else ""
    marks = ("pinned" if chat.is_pinned else "", "archived" if chat.is_archived else "")
    tags = " ".join(f"#{tag}" for tag in chat.tags)
    return " · ".join(filter(None, (chat.model, day, *marks, tags))) + more


def _speaker(message: Message) -> str:
    return "You" if message.role is Role.USER else message.model or "Assistant"


def _notes(message: Message) -> str:
    """Return how fast an answer was written, and whether a person changed it."""
    timings = message.timings or Timings()
    rate, first_s = timings.decode_tokens_per_s, timings.ttft_s
    parts = (
        "edited" if message.is_edited else "",
        f"{rate:.1f} tokens per second" if rate else "",
        "" if first_s is None else f"{max(0.0, first_s - (timings.load_s or 0.0)):.2f} s to the first token",
    )
    return " · ".join(filter(None, parts))


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 16px/1.55 system-ui, sans-serif; max-width: 46em; margin: 2.5em auto; padding: 0 1.2em; color: #1d1f21; }}
h1 {{ font-size: 24px; margin-bottom: 0.1em; }}
h2 {{ font-size: 13px; color: #5a6068; margin: 2em 0 0.3em; font-weight: 600; }}
.about {{ color: #5a6068; font-size: 14px; }}
.you {{ background: #f1f2f4; border-radius: 10px; padding: 0.1em 1em; }}
pre {{ background: #f6f7f8; border: 1px solid #e3e5e8; border-radius: 8px; padding: 0.8em; overflow-x: auto; }}
img {{ max-width: 100%; border-radius: 8px; }}
svg {{ font-size: {formula_scale}em; overflow: visible; }}
.formula {{ text-align: center; overflow-x: auto; margin: 0.8em 0; padding: 0.2em 0; }}
pre, code {{ font: 0.9em/1.45 ui-monospace, monospace; }}
table {{ border-collapse: collapse; }}
th, td {{ border: 1px solid #d5d8dc; padding: 0.3em 0.7em; text-align: left; }}
blockquote {{ border-left: 3px solid #d5d8dc; margin-left: 0; padding-left: 1em; color: #5a6068; }}
details {{ color: #5a6068; font-size: 14px; }}
@media (prefers-color-scheme: dark) {{
  body {{ background: #17181a; color: #e6e7e9; }}
  h2, .about, details, blockquote {{ color: #9aa1a9; }}
  .you {{ background: #24262a; }}
  pre {{ background: #1e2023; border-color: #34373c; }}
  th, td, blockquote {{ border-color: #3d4147; }}
}}
</style>
</head>
<body>
{body}
</body>
</html>
"""
"""It loads nothing: what a model wrote may name a picture anywhere."""


def write_html(chat: Chat, pictures: Mapping[str, tuple[str, bytes]]) -> bytes:
    """Return the branch that is shown as a page that stands alone.

    `pictures` have by an attachment's id the media type and the bytes of what is shown for it.
    """
    from app.markdown.rendering import PageRenderer  # noqa: PLC0415 -- only pages need a parser of Markdown

    body = "\n".join(_html_parts(chat, pictures, PageRenderer()))
    return _PAGE.format(title=html.escape(title_of(chat)), formula_scale=SCALE, body=body).encode("utf-8", "replace")


def _html_parts(chat: Chat, pictures: Mapping[str, tuple[str, bytes]], renderer: "PageRenderer") -> Iterator[str]:
    yield f"<h1>{html.escape(title_of(chat))}</h1>"
    yield f'<p class="about">{html.escape(_about(chat))}</p>'
    if chat.system_prompt.strip():
        yield f"<h2>System prompt</h2>\n<div>{renderer.render_text(chat.system_prompt)}</div>"
    for message in visible_path(chat):
        yield f"<h2>{html.escape(_speaker(message))}</h2>"
        if notes := _notes(message):
            yield f'<p class="about">{html.escape(notes)}</p>'
        if message.reasoning.strip():
            yield f"<details><summary>Thinking</summary>{renderer.render_text(message.reasoning)}</details>"
        for call in message.calls:
            parts = "".join(f"<pre>{html.escape(part)}</pre>" for part in (call.arguments, call.result) if part.strip())
            yield f"<details><summary>{html.escape(_describe_call(call))}</summary>{parts}</details>"
        kind = ' class="you"' if message.role is Role.USER else ""
        attachments_html = "".join(_show_attachment(attachment, pictures) for attachment in message.attachments)
        text = message.content or ("" if message.attachments else "*No text.*")
        yield f"<div{kind}>{attachments_html}{renderer.render_text(text)}</div>"
        if message.error:
            yield f'<p class="about">{html.escape(message.error)}</p>'


def _show_attachment(attachment: Attachment, pictures: Mapping[str, tuple[str, bytes]]) -> str:
    name = html.escape(attachment.name)
    if attachment.id not in pictures:
        return f'<p class="about">Attached: {name}, which is not in this export</p>'
    media_type, content = pictures[attachment.id]
    data = base64.b64encode(content).decode()
    return f'<p><img alt="{name}" src="data:{html.escape(media_type)};base64,{data}"></p>'
