"""`truncation: auto`: leave out the oldest of a conversation that does not fit, and say how much.

Whole turns go, the oldest first, never the system's words and never the last turn of the user. Where that turn itself
is too long, as an agent's is, its oldest calls go together with their results. How many tokens a message has only the
engine knows, so its share of the letters stands in, and the engine's next count corrects it.
"""

from collections.abc import Iterator, Sequence

import msgspec

from app.gateway.canonical.request import (
    ConversationMessage,
    ConversationRequest,
    Image,
    MessageRole,
    Part,
    Sound,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

_IMAGE_LETTERS = 4000
"""A picture is about a thousand tokens."""
_USUAL_ANSWER = 1024
_LARGEST_ANSWER_SHARE = 4
"""At most one part in so many of the context is kept free for the answer."""


class TruncatedRequest(msgspec.Struct, frozen=True):
    """A shorter request, and how many messages it lacks."""

    request: ConversationRequest
    dropped: int


def truncate_request(request: ConversationRequest, *, prompt_tokens: int, context: int) -> TruncatedRequest | None:
    """Return the request with less to read; None if nothing more can be left out."""
    first = next((at for at, turn in enumerate(request.messages) if turn.role is not MessageRole.SYSTEM), 0)
    system, rest = request.messages[:first], request.messages[first:]
    answer = min(request.limits.max_tokens or _USUAL_ANSWER, context // _LARGEST_ANSWER_SHARE)
    total = sum(map(_letters, request.messages))
    surplus = total * max(0, prompt_tokens - context + answer) / max(1, prompt_tokens)
    letters_to_keep, kept_letters = sum(map(_letters, rest)) - surplus, None
    for kept_letters in _shorter_turns(rest):
        if sum(map(_letters, kept_letters)) <= letters_to_keep:
            break
    if kept_letters is None:
        return None
    messages = (*system, *kept_letters)
    return TruncatedRequest(msgspec.structs.replace(request, messages=messages), len(request.messages) - len(messages))


def _shorter_turns(turns: Sequence[ConversationMessage]) -> Iterator[Sequence[ConversationMessage]]:
    """Yield what can be kept instead, the most first."""
    question_positions = [at for at, turn in enumerate(turns) if turn.role is MessageRole.USER]
    yield from (turns[at:] for at in question_positions[1:])
    last = question_positions[-1] if question_positions else -1
    answers = [at for at, turn in enumerate(turns) if turn.role is MessageRole.ASSISTANT and at > last]
    yield from ([*turns[last : last + 1], *turns[at:]] if question_positions else turns[at:] for at in answers[1:])


def _letters(turn: ConversationMessage) -> int:
    return sum(map(_size, turn.parts))


def _size(part: Part) -> int:
    match part:
        case Text() | Thinking() | ToolResult():
            return len(part.text)
        case ToolCall():
            return len(part.name) + len(part.arguments)
        case Sound():
            return len(part.data)
        case Image():
            return _IMAGE_LETTERS
