"""Open WebUI's export: a list of chats, each with its tree under `chat.history`. Answers hold the thinking."""

from app.chat_files.forms import JsonObject, decode_base64, object_of, objects_of, text_of, time_of
from app.chat_files.source import FileContent, SourceChat, SourceMessage

NAME = "Open WebUI"
_THOUGHTS, _END = '<details type="reasoning"', "</details>"


def is_chat(value: JsonObject) -> bool:
    """Tell whether this is one of its chats, with or without what its server knows about it."""
    chat = object_of(value.get("chat")) or value
    return isinstance(object_of(chat.get("history")).get("messages"), dict)


def read_chat(value: JsonObject) -> SourceChat:
    """Return the conversation."""
    inner = object_of(value.get("chat")) or value
    history, models = object_of(inner.get("history")), inner.get("models")
    chat = SourceChat(
        program="open-webui",
        id=text_of(value.get("id")) or text_of(inner.get("id")),
        title=text_of(value.get("title")) or text_of(inner.get("title")),
        model=text_of(models[0]) if isinstance(models, list) and models else "",
        system_prompt=text_of(object_of(inner.get("params")).get("system")),
        current=text_of(history.get("currentId")) or None,
        created_at=time_of(value.get("created_at") or inner.get("timestamp")),
        updated_at=time_of(value.get("updated_at")),
        is_pinned=value.get("pinned") is True,
        is_archived=value.get("archived") is True,
    )
    for id_, message in object_of(history.get("messages")).items():
        chat.messages.append(_read_message(id_, object_of(message)))
        chat.left_out += len(objects_of(object_of(message).get("files"))) - len(chat.messages[-1].files)
    return chat


def _read_message(id_: str, message: JsonObject) -> SourceMessage:
    content = message.get("content")
    words = [text_of(part.get("text")) for part in objects_of(content)]
    answer_text, reasoning = split_thoughts("\n\n".join(words) or text_of(content))
    return SourceMessage(
        id=id_,
        parent=text_of(message.get("parentId")) or None,
        role=text_of(message.get("role")),
        content=answer_text,
        reasoning=reasoning,
        model=text_of(message.get("model")),
        created_at=time_of(message.get("timestamp")),
        files=tuple(
            FileContent(text_of(file.get("name")) or "picture", content)
            for file in objects_of(message.get("files"))
            if (content := decode_base64(file.get("url")))
        ),
    )


def split_thoughts(text: str) -> tuple[str, str]:
    """Return an answer without the folded thoughts in it, and those."""
    answer_parts, thoughts, at = [], [], 0
    while (start := text.find(_THOUGHTS, at)) >= 0 and (end := text.find(_END, start)) >= 0:
        answer_parts.append(text[at:start])
        thoughts.append(_read_thoughts(text[start:end]))
        at = end + len(_END)
    answer_parts.append(text[at:])
    return "".join(answer_parts).strip() if thoughts else text, "\n\n".join(filter(None, thoughts))


def _read_thoughts(details: str) -> str:
    _, _, inner = details.partition(">")
    _, _, after = inner.partition("</summary>")
    lines = (after or inner).strip().splitlines()
    return "\n".join(line.removeprefix("> ").removeprefix("&gt; ") for line in lines).strip()
