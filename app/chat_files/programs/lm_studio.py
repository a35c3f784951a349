"""LM Studio's `NAME.conversation.json`: messages one after another, each with the versions that were tried.

Files lie in a folder beside that of the conversations, under the names by which messages refer to them.
"""

from app.chat_files.forms import JsonObject, object_of, objects_of, text_of, time_of
from app.chat_files.source import FileReference, SourceChat, SourceMessage

NAME = "LM Studio"
FOLDER, FILES_FOLDER = "conversations", "user-files"


def is_chat(value: JsonObject) -> bool:
    """Tell whether this is one of its conversations."""
    messages = objects_of(value.get("messages"))
    return bool(messages) and isinstance(messages[0].get("versions"), list)


def read_chat(value: JsonObject) -> SourceChat:
    """Return the conversation: what follows a message follows the version that is shown of it."""
    chat = SourceChat(
        program="lm-studio",
        id=str(value.get("createdAt") or ""),
        title=text_of(value.get("name")),
        model=text_of(object_of(value.get("lastUsedModel")).get("identifier")),
        system_prompt=text_of(value.get("systemPrompt")),
        created_at=time_of(value.get("createdAt")),
        is_pinned=value.get("pinned") is True,
        updated_at=time_of(value.get("assistantLastMessagedAt") or value.get("userLastMessagedAt")),
    )
    before: str | None = None
    for place, message in enumerate(objects_of(value.get("messages"))):
        versions = objects_of(message.get("versions"))
        chat.messages += [_read_version(version, f"{place}.{at}", before, chat) for at, version in enumerate(versions)]
        selected_version = message.get("currentlySelected")
        if versions:
            is_listed = isinstance(selected_version, int) and 0 <= selected_version < len(versions)
            before = f"{place}.{selected_version if is_listed else 0}"
    chat.current = before
    return chat


def _read_version(version: JsonObject, id_: str, parent: str | None, chat: SourceChat) -> SourceMessage:
    words: list[str] = []
    thoughts: list[str] = []
    references: list[FileReference] = []
    steps = objects_of(version.get("steps")) or [version]
    for step in steps:
        is_thought = object_of(step.get("style")).get("type") == "thinking"
        for part in objects_of(step.get("content")):
            if part.get("type") == "text":
                (thoughts if is_thought else words).append(text_of(part.get("text")))
            elif part.get("type") == "file" and (file := text_of(part.get("fileIdentifier"))):
                references.append(FileReference(file, text_of(part.get("name"))))
            elif part.get("type") == "file":
                chat.left_out += 1
    return SourceMessage(
        id=id_,
        parent=parent,
        role=text_of(version.get("role")),
        content="\n\n".join(word for word in words if word.strip()),
        reasoning="\n\n".join(thought for thought in thoughts if thought.strip()),
        model=text_of(object_of(version.get("senderInfo")).get("senderName")),
        references=tuple(references),
    )
