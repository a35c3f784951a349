"""`POST /v1/responses`, read and checked. Unknown fields and kinds of item are passed over, as the dialect has it.

What would change the answer and cannot be done is refused. What is only advice to OpenAI's own servers (the service
tier, cache keys, verbosity, compaction thresholds, obfuscation) has no effect.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

import msgspec

from app.core.errors import BadRequest
from app.gateway.canonical.request import Generate, Level, Limits, Message, ResponseFormat, Role, Sampling, Shape, Text
from app.gateway.dialects.keep_alive import Staying
from app.gateway.dialects.raw_fields import ABSENT
from app.gateway.dialects.responses.tools import Offer

_NOTHING = (ABSENT, msgspec.Raw(b"null"), msgspec.Raw(b"false"))
_Count = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
"""Engines keep these in a C int."""
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]
_ENCRYPTED, _LOGPROBS = "reasoning.encrypted_content", "message.output_text.logprobs"
_LEVELS = {
    "none": Level.OFF,
    "minimal": Level.MINIMAL,
    "low": Level.LOW,
    "medium": Level.MEDIUM,
    "high": Level.HIGH,
    "xhigh": Level.MAX,
    "max": Level.MAX,
    "ultra": Level.MAX,
}
_NOBODY_SPOKE = (Message(Role.USER, (Text(""),)),)
_MOST_METADATA, _LONGEST_KEY, _LONGEST_VALUE = 16, 64, 512
"""OpenAI's own limits."""


class Reasoning(msgspec.Struct, frozen=True, kw_only=True):
    """How much to think, and whether to tell of it as a summary."""

    effort: str | None = None
    summary: Literal["auto", "concise", "detailed", "none"] | None = None
    generate_summary: str | None = None


class Format(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The form an answer must have."""

    type: Literal["text", "json_object", "json_schema"]
    name: str = ""
    description: str | None = None
    schema: msgspec.Raw = ABSENT
    strict: bool | None = None


class TextOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `text` says."""

    format: Format | None = None
    verbosity: str | None = None


class Asked(Staying, frozen=True, kw_only=True):
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
    max_tool_calls: int | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: _Share | None = None
    top_logprobs: Annotated[int, msgspec.Meta(ge=0, le=20)] | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    tools: list[msgspec.Raw] | None = None
    tool_choice: msgspec.Raw = ABSENT
    parallel_tool_calls: bool | None = None
    reasoning: Reasoning | None = None
    text: TextOptions | None = None
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
        told = self.reasoning and (self.reasoning.summary or self.reasoning.generate_summary)
        return bool(told) and told != "none"

    @property
    def wants_encrypted(self) -> bool:
        """Tell whether the client wants the reasoning in a form that it only hands back."""
        return _ENCRYPTED in (self.include or ())


def check(asked: Asked) -> None:
    """Raise BadRequest for what is missing, or cannot be done here."""
    if asked.input is None and asked.previous_response_id is None:
        raise BadRequest("The request lacks `input`.", hint="It is text or a list of items.", code="input_required")
    if asked.background:
        raise _not_here("`background`: responses are not made in the background here.", "Stream the response.")
    if asked.conversation not in _NOTHING:
        raise _not_here("`conversation`: conversations are not kept here.", "Use previous_response_id.")
    if asked.prompt not in _NOTHING:
        raise _not_here("`prompt`: templates of prompts are not kept here.", "Send the prompt as `input`.")
    if asked.moderation not in _NOTHING:
        raise _not_here("`moderation`: nothing is moderated here.", "Leave it out.")
    _check_metadata(asked.metadata or {})


def generate(asked: Asked, conversation: Sequence[Message], offer: Offer) -> Generate:
    """Return what the engine is to do. Raises BadRequest."""
    instructions = (Message(Role.SYSTEM, (Text(asked.instructions),)),) if asked.instructions else ()
    return Generate(
        messages=(*instructions, *(conversation or _NOBODY_SPOKE)),
        tools=offer.tools,
        tool_choice=offer.choice,
        response_format=_format(asked.text.format if asked.text else None),
        thinking=_level(asked.reasoning),
        sampling=Sampling(
            temperature=asked.temperature,
            top_p=asked.top_p,
            presence_penalty=asked.presence_penalty,
            frequency_penalty=asked.frequency_penalty,
        ),
        limits=Limits(max_tokens=asked.max_output_tokens, logprobs=_logprobs(asked)),
    )


def _logprobs(asked: Asked) -> int | None:
    if asked.top_logprobs or _LOGPROBS in (asked.include or ()):
        return asked.top_logprobs or 0
    return None


def _level(reasoning: Reasoning | None) -> Level:
    effort = reasoning.effort if reasoning else None
    if effort is None:
        return Level.DEFAULT
    if effort not in _LEVELS:
        raise BadRequest(
            f"`reasoning.effort` has no {effort[:40]!r}.", hint=f"It takes {', '.join(_LEVELS)}.", code="invalid_value"
        )
    return _LEVELS[effort]


def _format(wanted: Format | None) -> ResponseFormat:
    if wanted is None or wanted.type == "text":
        return ResponseFormat()
    if wanted.type == "json_object":
        return ResponseFormat(shape=Shape.JSON)
    if not bytes(wanted.schema).startswith(b"{"):
        raise BadRequest("`text.format.schema` is a JSON schema.", code="invalid_value")
    return ResponseFormat(shape=Shape.SCHEMA, schema=wanted.schema, name=wanted.name or "answer")


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
