"""Claude's export: `conversations.json` in the archive that it mails. Of files there is the text."""

from app.chat_files.forms import JsonObject, objects_of, text_of, time_of
from app.chat_files.source import FileContent, SourceChat, SourceMessage

NAME = "Claude"
_ROLES = {"human": "user", "assistant": "assistant"}


def is_chat(value: JsonObject) -> bool:
    """Tell whether this is one of its conversations."""
    return isinstance(value.get("chat_messages"), list)


def read_chat(value: JsonObject) -> SourceChat:
    """Return the conversation. Messages that do not say what they follow, follow each other."""
    chat = SourceChat(
        program="claude",
        id=text_of(value.get("uuid")),
        title=text_of(value.get("name")),
        model=text_of(value.get("model")),
        current=text_of(value.get("current_leaf_message_uuid")) or None,
        created_at=time_of(value.get("created_at")),
        updated_at=time_of(value.get("updated_at")),
    )
    before: str | None = None
    for place, message in enumerate(objects_of(value.get("chat_messages"))):
        id_ = text_of(message.get("uuid")) or str(place)
        parent = text_of(message.get("parent_message_uuid")) or before
        chat.messages.append(_read_message(message, id_, parent))
        chat.left_out += len(objects_of(message.get("files")))
        before = id_
    return chat


def _read_message(message: JsonObject, id_: str, parent: str | None) -> SourceMessage:
    blocks = objects_of(message.get("content"))
    words = [text_of(block.get("text")) for block in blocks if block.get("type") == "text"]
    thoughts = [text_of(block.get("thinking")) for block in blocks if block.get("type") == "thinking"]
    files = [
        FileContent(text_of(file.get("file_name")) or "file.txt", text_of(file.get("extracted_content")).encode())
        for file in objects_of(message.get("attachments"))
        if text_of(file.get("extracted_content")).strip()
    ]
    message_text = "\n\n".join(word for word in words if word.strip()) or text_of(message.get("text"))
    return SourceMessage(
        id=id_,
        parent=parent,
        role=_ROLES.get(text_of(message.get("sender")), ""),
        content=message_text,
        reasoning="\n\n".join(thought for thought in thoughts if thought.strip()),
        created_at=time_of(message.get("created_at")),
        files=tuple(files),
    )
