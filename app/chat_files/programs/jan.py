"""Jan's threads: a folder for each, with `thread.json` and `messages.jsonl`, which are joined before they come here."""

from app.chat_files.forms import JsonObject, decode_base64, object_of, objects_of, text_of, time_of
from app.chat_files.source import FileContent, SourceChat, SourceMessage

NAME = "Jan"
THREAD_FILE, MESSAGES_FILE = "thread.json", "messages.jsonl"


def is_chat(value: JsonObject) -> bool:
    """Tell whether this is one of its threads."""
    return value.get("object") == "thread"


def read_chat(value: JsonObject) -> SourceChat:
    """Return the conversation. `messages` holds what its second file has."""
    assistant = next(iter(objects_of(value.get("assistants"))), {})
    chat = SourceChat(
        program="jan",
        id=text_of(value.get("id")),
        title=text_of(value.get("title")),
        model=text_of(object_of(assistant.get("model")).get("id")),
        system_prompt=text_of(assistant.get("instructions")),
        created_at=time_of(value.get("created")),
        updated_at=time_of(value.get("updated")),
    )
    before: str | None = None
    for place, message in enumerate(objects_of(value.get("messages"))):
        id_ = text_of(message.get("id")) or str(place)
        parts = objects_of(message.get("content"))
        pictures = [_read_picture(part) for part in parts if part.get("type") == "image_url"]
        chat.left_out += sum(not picture.content for picture in pictures)
        chat.messages.append(
            SourceMessage(
                id=id_,
                parent=before,
                role=text_of(message.get("role")),
                content=_join_parts(parts, "text"),
                reasoning=_join_parts(parts, "reasoning"),
                created_at=time_of(message.get("created_at")),
                files=tuple(picture for picture in pictures if picture.content),
            )
        )
        before = id_
    return chat


def _join_parts(parts: list[JsonObject], kind: str) -> str:
    words = [text_of(object_of(part.get("text")).get("value")) for part in parts if part.get("type") == kind]
    return "\n\n".join(word for word in words if word.strip())


def _read_picture(part: JsonObject) -> FileContent:
    return FileContent("picture", decode_base64(object_of(part.get("image_url")).get("url")))
