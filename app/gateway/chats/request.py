"""The request an engine gets for a chat answer: the system prompt and the one path that leads to the question.

Neither reasoning nor the other branches are sent back: the first is meant for one answer, the second were left behind.
"""

from collections.abc import Collection, Iterable

import msgspec

from app.core.chats import Chat, Message, Role
from engines.api import Feature


class _Said(msgspec.Struct, frozen=True):
    role: str
    content: str


def chat_request(chat: Chat, path: Iterable[Message], *, model: str, features: Collection[Feature]) -> bytes:
    """Return the body for the engine's chat route. What only some engines take is sent to those alone."""
    body: dict[str, object] = {"model": model, "messages": messages_for(chat.system_prompt, path), "stream": True}
    body |= msgspec.to_builtins(chat.sampling)
    if Feature.STREAM_USAGE in features:
        body["stream_options"] = {"include_usage": True}
    if Feature.PROGRESS in features:
        # llama-server's own fields: events while it reads the prompt, timings once at the end.
        body |= {"return_progress": True, "timings_per_token": False}
    return msgspec.json.encode(body)


def messages_for(system_prompt: str, path: Iterable[Message]) -> list[_Said]:
    """Return the turns in order, roles alternating: chat templates refuse anything else.

    An answer that came to nothing is left out, and the questions around it become one.
    """
    said = [_Said("system", system_prompt)] if system_prompt.strip() else []
    for message in path:
        if message.role is Role.ASSISTANT and not message.content.strip():
            continue
        if said and said[-1].role == message.role:
            said[-1] = _Said(message.role, f"{said[-1].content}\n\n{message.content}")
        else:
            said.append(_Said(message.role, message.content))
    return said
