"""What an answer of a chat is asked for with: the system prompt and the one path that leads to the question.

Neither reasoning nor the other branches are sent back: the first is meant for one answer, the second were left behind.
Calls of tools are, with what came of them; while an answer is written, so is the reasoning that led to its calls.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType

import msgspec

from app.core.chats import Chat, Message, MessageStatus, Role, Sampling
from app.core.mcp import function_name
from app.core.thinking import ThinkingLevel
from app.core.tool_calls import REFUSED_CALL, AnswerToolCall, ToolCallState
from app.gateway.canonical import request as canonical
from app.gateway.mcp.model_tools import LEAST_RESULT, cut_result, longest_result

AttachmentParts = Mapping[str, tuple[canonical.Part, ...]]
_ROLES = {Role.USER: canonical.MessageRole.USER, Role.ASSISTANT: canonical.MessageRole.ASSISTANT}


_UNKNOWN_CONTEXT = 4096
_UNANSWERED = {
    ToolCallState.REFUSED: REFUSED_CALL,
    ToolCallState.CANCELLED: "The call was cancelled before there was a result.",
}


def chat_request(
    chat: Chat,
    path: Sequence[Message],
    parts: AttachmentParts = MappingProxyType({}),
    *,
    continues: bool = False,
    context: int = _UNKNOWN_CONTEXT,
) -> canonical.ConversationRequest:
    """Return what an answer is asked for with. `parts` are the attachments of messages, by message.

    One that `continues` thinks no more and keeps to no form: both begin with the first word. A tool's result is cut to
    a part of the `context` in tokens.
    """
    sampling = chat.sampling
    return canonical.ConversationRequest(
        messages=messages_for(chat.system_prompt, path, parts, longest=longest_result(context)),
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
    system_prompt: str,
    path: Iterable[Message],
    parts: AttachmentParts = MappingProxyType({}),
    *,
    longest: int = LEAST_RESULT,
) -> tuple[canonical.ConversationMessage, ...]:
    """Return the turns in order, roles alternating: chat templates refuse anything else.

    An answer that came to nothing is left out, and the questions around it become one. Files come before the words.
    """
    turns: list[tuple[canonical.MessageRole, list[canonical.Part]]] = []
    if system_prompt.strip():
        turns.append((canonical.MessageRole.SYSTEM, [canonical.Text(system_prompt)]))
    for message in path:
        for role, content in _turns_of(message, parts.get(message.id, ()), longest):
            if turns and turns[-1][0] is role and role is not canonical.MessageRole.TOOL:
                turns[-1][1].extend(content)
            else:
                turns.append((role, [*content]))
    return tuple(canonical.ConversationMessage(role, _join_texts(content)) for role, content in turns)


def turn_roles(message: Message) -> list[canonical.MessageRole]:
    """Return who speaks in the turns that a message is in a request."""
    return [role for role, _ in _turns_of(message, (), LEAST_RESULT)]


_Turn = tuple[canonical.MessageRole, Sequence[canonical.Part]]


def _turns_of(message: Message, files: Sequence[canonical.Part], longest: int) -> Iterator[_Turn]:
    """Yield what a message is in a request: with calls of tools more than one turn."""
    calls = [call for call in message.calls if call.tool]
    if message.role is Role.ASSISTANT and not message.content.strip() and not calls:
        return
    at = 0
    if calls:
        yield from _turns_of_calls(message, calls, longest)
        at = calls[-1].at
    rest = message.content[at:].lstrip("\n") if at else message.content
    words = [canonical.Text(rest)] if rest.strip() or not (files or calls) else []
    if files or words:
        yield _ROLES[message.role], [*files, *words]


def _turns_of_calls(message: Message, calls: Iterable[AnswerToolCall], longest: int) -> Iterator[_Turn]:
    at = reasoning_at = 0
    for _, group in groupby(calls, lambda call: call.round):
        together = list(group)
        words = message.content[at : together[0].at].strip()
        at = together[0].at
        content: list[canonical.Part] = []
        if message.status is MessageStatus.GENERATING and message.reasoning[reasoning_at : together[0].reasoning_at]:
            content.append(canonical.Thinking(message.reasoning[reasoning_at : together[0].reasoning_at].strip()))
            reasoning_at = together[0].reasoning_at
        content += [canonical.Text(words)] if words else []
        named_calls = [(call, function_name(call.server, call.tool) if call.server else call.tool) for call in together]
        content += [
            canonical.ToolCall(id=call.id, name=name, arguments=call.arguments or "{}") for call, name in named_calls
        ]
        yield canonical.MessageRole.ASSISTANT, content
        for call, name in named_calls:
            yield canonical.MessageRole.TOOL, [_result_of(call, name, longest)]


def _result_of(call: AnswerToolCall, name: str, longest: int) -> canonical.ToolResult:
    text = _UNANSWERED.get(call.state) or call.result or "The tool returned nothing."
    is_error = call.state is ToolCallState.FAILED
    return canonical.ToolResult(call_id=call.id, text=cut_result(text, longest), name=name, is_error=is_error)


def _join_texts(parts: Iterable[canonical.Part]) -> tuple[canonical.Part, ...]:
    """Return the parts with texts that follow each other made one, a blank line between them: templates put none."""
    joined_parts: list[canonical.Part] = []
    for part in parts:
        if joined_parts and isinstance(part, canonical.Text) and isinstance(last := joined_parts[-1], canonical.Text):
            joined_parts[-1] = canonical.Text(f"{last.text}\n\n{part.text}")
        else:
            joined_parts.append(part)
    return tuple(joined_parts)
