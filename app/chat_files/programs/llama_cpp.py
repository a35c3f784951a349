"""The export of llama.cpp's own web page: a conversation `conv` and its tree of `messages`."""

from app.chat_files.forms import JsonObject, decode_base64, object_of, objects_of, text_of, time_of
from app.chat_files.source import FileContent, SourceChat, SourceMessage

NAME = "llama.cpp"


def is_chat(value: JsonObject) -> bool:
    """Tell whether this is one of its conversations."""
    return isinstance(value.get("conv"), dict) and isinstance(value.get("messages"), list)


def read_chat(value: JsonObject) -> SourceChat:
    """Return the conversation."""
    about = object_of(value.get("conv"))
    chat = SourceChat(
        program="llama.cpp",
        id=text_of(about.get("id")),
        title=text_of(about.get("name")),
        current=text_of(about.get("currNode")) or None,
        updated_at=time_of(about.get("lastModified")),
    )
    for message in objects_of(value.get("messages")):
        files = [_read_file(file) for file in objects_of(message.get("extra"))]
        chat.left_out += sum(not file.content for file in files)
        chat.messages.append(
            SourceMessage(
                id=str(message.get("id")),
                parent=text_of(message.get("parent")) or None,
                role="" if message.get("type") == "root" else text_of(message.get("role")),
                content=text_of(message.get("content")),
                reasoning=text_of(message.get("thinking")) or text_of(message.get("reasoningContent")),
                model=text_of(message.get("model")),
                created_at=time_of(message.get("timestamp")),
                files=tuple(file for file in files if file.content),
            )
        )
    return chat


def _read_file(file: JsonObject) -> FileContent:
    """Return a file that came with a message: of documents there is the text that was taken out of them."""
    name, text = text_of(file.get("name")), text_of(file.get("content"))
    if text:
        is_text = file.get("type") == "textFile"
        return FileContent(name if is_text else f"{name}.txt", text.encode("utf-8", "replace"))
    return FileContent(name, decode_base64(file.get("base64Url") or file.get("base64Data")))
