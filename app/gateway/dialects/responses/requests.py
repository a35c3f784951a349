"""`POST /v1/responses`, read and checked. Unknown fields and kinds of item are passed over, as the dialect has it.

What would change the answer and cannot be done is refused. What is only advice to OpenAI's own servers (the service
tier, cache keys, verbosity, compaction thresholds, obfuscation) has no effect.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

import msgspec

from app.core.errors import BadRequest, quote_value
from app.core.thinking import ThinkingLevel
from app.gateway.canonical.request import (
    ConversationMessage,
    ConversationRequest,
    GenerationLimits,
    MessageRole,
    ResponseFormat,
    ResponseShape,
    SamplingParams,
    Text,
)
from app.gateway.dialects.keep_alive import ModelLoadFields
from app.gateway.dialects.raw_fields import ABSENT
from app.gateway.dialects.responses.tools import ToolOffer

_NOTHING = (ABSENT, msgspec.Raw(b"null"), msgspec.Raw(b"false"))
_Count = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
"""Engines keep these in a C int."""
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]
_ENCRYPTED, _LOGPROBS = "reasoning.encrypted_content", "message.output_text.logprobs"
SEARCH_RESULTS = "file_search_call.results"
_LEVELS = {
    "none": ThinkingLevel.OFF,
    "minimal": ThinkingLevel.MINIMAL,
    "low": ThinkingLevel.LOW,
    "medium": ThinkingLevel.MEDIUM,
    "high": ThinkingLevel.HIGH,
    "xhigh": ThinkingLevel.MAX,
    "max": ThinkingLevel.MAX,
    "ultra": ThinkingLevel.MAX,
}
_EMPTY_CONVERSATION = (ConversationMessage(MessageRole.USER, (Text(""),)),)
_MOST_METADATA, _LONGEST_KEY, _LONGEST_VALUE = 16, 64, 512
"""OpenAI's own limits."""


class ResponseReasoning(msgspec.Struct, frozen=True, kw_only=True):
    """How much to think, and whether to tell of it as a summary."""

    effort: str | None = None
    summary: Literal["auto", "concise", "detailed", "none"] | None = None
    generate_summary: str | None = None


class ResponseTextFormat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The form an answer must have."""

    type: Literal["text", "json_object", "json_schema"]
    name: str = ""
    description: str | None = None
    schema: msgspec.Raw = ABSENT
    strict: bool | None = None


class ResponseTextOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `text` says."""

    format: ResponseTextFormat | None = None
    verbosity: str | None = None


class ResponsesRequest(ModelLoadFields, frozen=True, kw_only=True):
    """A request."""

    model: str | None = None
    input: str | list[msgspec.Raw] | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    stream: bool | None = None
    background: bool | None = None
    include: list[str] | None = None
    max_output_tokens: _Count | None = None
    max_tool_calls: _Count | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: _Share | None = None
    top_logprobs: Annotated[int, msgspec.Meta(ge=0, le=20)] | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    tools: list[msgspec.Raw] | None = None
    tool_choice: msgspec.Raw = ABSENT
    parallel_tool_calls: bool | None = None
    reasoning: ResponseReasoning | None = None
    text: ResponseTextOptions | None = None
    truncation: Literal["auto", "disabled"] | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    conversation: msgspec.Raw = ABSENT
    prompt: msgspec.Raw = ABSENT
    moderation: msgspec.Raw = ABSENT

    @property
    def trims(self) -> bool:
        """Tell whether the oldest of a conversation that is too long may be left out."""
        return self.truncation == "auto"

    @property
    def is_one_at_a_time(self) -> bool:
        """Tell whether an answer may hold one tool call at most."""
        return self.parallel_tool_calls is False

    @property
    def wants_summary(self) -> bool:
        """Tell whether the reasoning is to be told as its summary, which is where most clients look for it."""
        summary = self.reasoning and (self.reasoning.summary or self.reasoning.generate_summary)
        return bool(summary) and summary != "none"

    @property
    def wants_encrypted(self) -> bool:
        """Tell whether the client wants the reasoning in a form that it only hands back."""
        return _ENCRYPTED in (self.include or ())

    @property
    def wants_search_results(self) -> bool:
        """Tell whether the client wants the passages that searches come to."""
        return SEARCH_RESULTS in (self.include or ())


def check_request(request: ResponsesRequest) -> None:
    """Raise BadRequest for what is missing, or cannot be done here."""
    if request.input is None and request.previous_response_id is None:
        raise BadRequest("The request lacks `input`.", hint="It is text or a list of items.", code="input_required")
    if request.background:
        raise _not_here("`background`: responses are not made in the background here.", "Stream the response.")
    if request.conversation not in _NOTHING:
        raise _not_here("`conversation`: conversations are not kept here.", "Use previous_response_id.")
    if request.prompt not in _NOTHING:
        raise _not_here("`prompt`: templates of prompts are not kept here.", "Send the prompt as `input`.")
    if request.moderation not in _NOTHING:
        raise _not_here("`moderation`: nothing is moderated here.", "Leave it out.")
    _check_metadata(request.metadata or {})


def to_canonical_request(
    request: ResponsesRequest, conversation: Sequence[ConversationMessage], offer: ToolOffer
) -> ConversationRequest:
    """Return what the engine is to do. Raises BadRequest."""
    instructions = (
        (ConversationMessage(MessageRole.SYSTEM, (Text(request.instructions),)),) if request.instructions else ()
    )
    return ConversationRequest(
        messages=(*instructions, *(conversation or _EMPTY_CONVERSATION)),
        tools=offer.tools,
        tool_choice=offer.choice,
        response_format=_to_response_format(request.text.format if request.text else None),
        thinking=_thinking_level(request.reasoning),
        sampling=SamplingParams(
            temperature=request.temperature,
            top_p=request.top_p,
            presence_penalty=request.presence_penalty,
            frequency_penalty=request.frequency_penalty,
        ),
        limits=GenerationLimits(max_tokens=request.max_output_tokens, logprobs=_logprob_count(request)),
    )


def _logprob_count(request: ResponsesRequest) -> int | None:
    if request.top_logprobs or _LOGPROBS in (request.include or ()):
        return request.top_logprobs or 0
    return None


def _thinking_level(reasoning: ResponseReasoning | None) -> ThinkingLevel:
    effort = reasoning.effort if reasoning else None
    if effort is None:
        return ThinkingLevel.DEFAULT
    if effort not in _LEVELS:
        raise BadRequest(
            f"`reasoning.effort` has no {quote_value(effort)}.",
            hint=f"It takes {', '.join(_LEVELS)}.",
            code="invalid_value",
        )
    return _LEVELS[effort]


def _to_response_format(text_format: ResponseTextFormat | None) -> ResponseFormat:
    if text_format is None or text_format.type == "text":
        return ResponseFormat()
    if text_format.type == "json_object":
        return ResponseFormat(shape=ResponseShape.JSON)
    if not bytes(text_format.schema).startswith(b"{"):
        raise BadRequest("`text.format.schema` is a JSON schema.", code="invalid_value")
    return ResponseFormat(shape=ResponseShape.SCHEMA, schema=text_format.schema, name=text_format.name or "answer")


def _check_metadata(metadata: dict[str, str]) -> None:
    if len(metadata) > _MOST_METADATA or _is_too_long(metadata.items()):
        raise BadRequest(
            f"`metadata` holds at most {_MOST_METADATA} pairs, with keys of {_LONGEST_KEY} letters and values of "
            f"{_LONGEST_VALUE}.",
            code="invalid_value",
        )


def _is_too_long(pairs: Iterable[tuple[str, str]]) -> bool:
    return any(len(key) > _LONGEST_KEY or len(value) > _LONGEST_VALUE for key, value in pairs)


def _not_here(sentence: str, hint: str) -> BadRequest:
    return BadRequest(sentence, hint=hint, code="unsupported_parameter")
