"""ChatGPT's export: `conversations.json`, or `conversations-000.json` and so on, in the archive that it mails.

A conversation is a `mapping` of nodes; what a tool is told goes to another `recipient` than "all". Pictures lie in the
archive under names that begin with what their part points to: `file-service://file-AbC` is `file-AbC-evening.png`.
"""

from app.chat_files.forms import JsonObject, list_of, object_of, objects_of, text_of, time_of
from app.chat_files.source import FileReference, SourceChat, SourceMessage

NAME = "ChatGPT"


def is_chat(value: JsonObject) -> bool:
    """Tell whether this is one of its conversations."""
    return isinstance(value.get("mapping"), dict)


def read_chat(value: JsonObject) -> SourceChat:
    """Return the conversation."""
    chat = SourceChat(
        program="chatgpt",
        id=text_of(value.get("conversation_id")) or text_of(value.get("id")),
        title=text_of(value.get("title")),
        current=text_of(value.get("current_node")) or None,
        created_at=time_of(value.get("create_time")),
        updated_at=time_of(value.get("update_time")),
        is_archived=value.get("is_archived") is True,
    )
    for id_, node in object_of(value.get("mapping")).items():
        chat.messages.append(_read_node(id_, object_of(node), chat))
    return chat


def _read_node(id_: str, node: JsonObject, chat: SourceChat) -> SourceMessage:
    message = object_of(node.get("message"))
    content, metadata = object_of(message.get("content")), object_of(message.get("metadata"))
    role = text_of(object_of(message.get("author")).get("role"))
    is_hidden = bool(metadata.get("is_visually_hidden_from_conversation"))
    is_for_all = text_of(message.get("recipient")) in {"", "all"}
    kind = text_of(content.get("content_type"))
    parts = content.get("parts") if kind in {"text", "multimodal_text"} and is_for_all and not is_hidden else []
    words = [part for part in list_of(parts) if isinstance(part, str)]
    references = [_reference_of(part, metadata) for part in objects_of(parts)]
    chat.left_out += references.count(None)
    thoughts = objects_of(content.get("thoughts")) if kind == "thoughts" else []
    return SourceMessage(
        id=id_,
        parent=text_of(node.get("parent")) or None,
        role=role,
        content="\n\n".join(word for word in words if word.strip()),
        reasoning="\n\n".join(text_of(thought.get("content")) for thought in thoughts),
        model=text_of(metadata.get("model_slug")),
        created_at=time_of(message.get("create_time")),
        references=tuple(reference for reference in references if reference is not None),
    )


def _reference_of(part: JsonObject, metadata: JsonObject) -> FileReference | None:
    """Return the file that a part of a message points to; None for one that points to none."""
    _, _, id_ = text_of(part.get("asset_pointer")).partition("://")
    if not id_:
        return None
    names = {text_of(item.get("id")): text_of(item.get("name")) for item in objects_of(metadata.get("attachments"))}
    return FileReference(id_, names.get(id_, ""))
