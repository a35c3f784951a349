"""Which requests of the built-in model the Guide looks up, in every dialect: plain questions.

A client that gives it tools, a form, a system prompt, samplers or a short limit wants a model that writes tokens, and
gets the tiny one.
"""

import msgspec

from app.core.guide import LONGEST_QUESTION
from app.core.models import ModelInfo
from app.gateway.canonical.request import (
    ConversationRequest,
    GenerationLimits,
    MessageRole,
    Request,
    Text,
    Thinking,
)

LEAST_LIMIT = 1024
"""Tokens: whoever allows fewer counts them. Anthropic's clients have to name a limit."""
_SPEAKERS = frozenset({MessageRole.USER, MessageRole.ASSISTANT})


def guide_question(model: ModelInfo, request: Request) -> str:
    """Return what the Guide is to look up for a request; nothing for one that a model answers."""
    if not model.is_builtin or model.preset is not None or not isinstance(request, ConversationRequest):
        return ""
    plain = ConversationRequest(messages=request.messages, wants_progress=request.wants_progress)
    limit = request.limits.max_tokens
    if msgspec.structs.replace(request, limits=GenerationLimits()) != plain or (
        request.limits != GenerationLimits(max_tokens=limit) or (limit is not None and limit < LEAST_LIMIT)
    ):
        return ""
    are_words = all(
        message.role in _SPEAKERS and all(isinstance(part, Text | Thinking) for part in message.parts)
        for message in request.messages
    )
    last = request.messages[-1] if are_words and request.messages else None
    if last is None or last.role is not MessageRole.USER or len(last.parts) != 1:  # more of them: files
        return ""
    question = last.text.strip()
    return question if len(question) <= LONGEST_QUESTION else ""
