"""The request an engine gets for a chat answer: the system prompt and the one path that leads to the question.

Neither reasoning nor the other branches are sent back: the first is meant for one answer, the second were left behind.
"""

from collections.abc import Iterable

from app.core.chats import Chat, Message, Role
from app.gateway.canonical import request as canonical

_ROLES = {Role.USER: canonical.Role.USER, Role.ASSISTANT: canonical.Role.ASSISTANT}


def chat_request(chat: Chat, path: Iterable[Message]) -> canonical.Generate:
    """Return what an answer is asked for with."""
    sampling = chat.sampling
    return canonical.Generate(
        messages=messages_for(chat.system_prompt, path),
        sampling=canonical.Sampling(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            repeat_penalty=sampling.repeat_penalty,
            seed=sampling.seed,
        ),
        limits=canonical.Limits(max_tokens=sampling.max_tokens),
        wants_progress=True,
    )


def messages_for(system_prompt: str, path: Iterable[Message]) -> tuple[canonical.Message, ...]:
    """Return the turns in order, roles alternating: chat templates refuse anything else.

    An answer that came to nothing is left out, and the questions around it become one.
    """
    turns = [(canonical.Role.SYSTEM, system_prompt)] if system_prompt.strip() else []
    for message in path:
        if message.role is Role.ASSISTANT and not message.content.strip():
            continue
        role = _ROLES[message.role]
        if turns and turns[-1][0] is role:
            turns[-1] = (role, f"{turns[-1][1]}\n\n{message.content}")
        else:
            turns.append((role, message.content))
    return tuple(canonical.Message(role, (canonical.Text(text),)) for role, text in turns)
