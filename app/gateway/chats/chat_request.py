"""What an answer of a chat is asked for with: the system prompt and the one path that leads to the question.

Neither reasoning nor the other branches are sent back: the first is meant for one answer, the second were left behind.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

from app.core.chats import Chat, Message, Role, Sampling
from app.core.thinking import ThinkingLevel
from app.gateway.canonical import request as canonical

AttachmentParts = Mapping[str, tuple[canonical.Part, ...]]
_ROLES = {Role.USER: canonical.MessageRole.USER, Role.ASSISTANT: canonical.MessageRole.ASSISTANT}


def chat_request(
    chat: Chat, path: Iterable[Message], parts: AttachmentParts = MappingProxyType({}), *, continues: bool = False
) -> canonical.ConversationRequest:
    """Return what an answer is asked for with. `parts` are the attachments of messages, by message.

    One that `continues` thinks no more and keeps to no form: both begin with the first word.
    """
    sampling = chat.sampling
    return canonical.ConversationRequest(
        messages=messages_for(chat.system_prompt, path, parts),
        sampling=canonical.SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            repeat_penalty=sampling.repeat_penalty,
            seed=sampling.seed,
        ),
        response_format=canonical.ResponseFormat() if continues else _response_format(sampling),
        # A grammar begins with the first word, and thoughts keep to none.
        thinking=ThinkingLevel.OFF if sampling.grammar or continues else sampling.thinking,
        thinking_budget=sampling.thinking_budget,
        limits=canonical.GenerationLimits(max_tokens=sampling.max_tokens, stops=tuple(sampling.stops)),
        continues=continues,
        wants_progress=True,
    )


def _response_format(sampling: Sampling) -> canonical.ResponseFormat:
    if sampling.grammar:
        return canonical.ResponseFormat(shape=canonical.ResponseShape.GRAMMAR, grammar=sampling.grammar)
    if sampling.json_schema:
        schema = msgspec.Raw(sampling.json_schema.strip().encode())
        return canonical.ResponseFormat(shape=canonical.ResponseShape.SCHEMA, schema=schema)
    return canonical.ResponseFormat()


def messages_for(
    system_prompt: str, path: Iterable[Message], parts: AttachmentParts = MappingProxyType({})
) -> tuple[canonical.ConversationMessage, ...]:
    """Return the turns in order, roles alternating: chat templates refuse anything else.

    An answer that came to nothing is left out, and the questions around it become one. Files come before the words.
    """
    turns: list[tuple[canonical.MessageRole, list[canonical.Part]]] = []
    if system_prompt.strip():
        turns.append((canonical.MessageRole.SYSTEM, [canonical.Text(system_prompt)]))
    for message in path:
        if message.role is Role.ASSISTANT and not message.content.strip():
            continue
        role = _ROLES[message.role]
        files = parts.get(message.id, ())
        words = [canonical.Text(message.content)] if message.content.strip() or not files else []
        if turns and turns[-1][0] is role:
            turns[-1][1].extend([*files, *words])
        else:
            turns.append((role, [*files, *words]))
    return tuple(canonical.ConversationMessage(role, _join_texts(content)) for role, content in turns)


def _join_texts(parts: Iterable[canonical.Part]) -> tuple[canonical.Part, ...]:
    """Return the parts with texts that follow each other made one, a blank line between them: templates put none."""
    joined: list[canonical.Part] = []
    for part in parts:
        if joined and isinstance(part, canonical.Text) and isinstance(last := joined[-1], canonical.Text):
            joined[-1] = canonical.Text(f"{last.text}\n\n{part.text}")
        else:
            joined.append(part)
    return tuple(joined)
