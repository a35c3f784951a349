"""A list of messages with `role` and `content`, as the OpenAI API has it; many small programs keep chats so."""

from app.chat_files.forms import JsonObject, objects_of, text_of, time_of
from app.chat_files.source import SourceChat, SourceMessage

NAME = "messages of the OpenAI form"


def is_chat(value: JsonObject) -> bool:
    """Tell whether this is such a list."""
    messages = objects_of(value.get("messages"))
    return bool(messages) and all("role" in message and "content" in message for message in messages)


def read_chat(value: JsonObject) -> SourceChat:
    """Return the conversation."""
    messages = objects_of(value.get("messages"))
    chat = SourceChat(
        program="messages",
        id=text_of(value.get("id")),
        title=text_of(value.get("title")),
        model=text_of(value.get("model")),
        created_at=time_of(value.get("created_at")),
    )
    for place, message in enumerate(messages):
        parts = objects_of(message.get("content"))
        chat.left_out += sum("text" not in part for part in parts)
        chat.messages.append(
            SourceMessage(
                id=str(place),
                parent=str(place - 1) if place else None,
                role=text_of(message.get("role")),
                content=text_of(message.get("content")) or "\n\n".join(text_of(part.get("text")) for part in parts),
                reasoning=text_of(message.get("reasoning_content")),
            )
        )
    return chat
