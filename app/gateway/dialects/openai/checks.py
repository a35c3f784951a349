"""What of a chat or a completion is checked before an engine sees it: llama.cpp answers over what it does not know.

It is read in the pass that finds the model, and the bytes go on untouched but for words that other servers have, and
pieces of messages that engines do not know: refusals, and text files, which become text. What is neither goes on as it
is: an endpoint that somebody else runs may read it, and an engine says that it cannot. Ranges are those of OpenAI's
document.
"""

from typing import Annotated, Any, Literal

import msgspec

from app.core.errors import BadRequest
from app.gateway.canonical.assistant_prefill import NOTHING, AssistantPrefill
from app.gateway.canonical.request import text_of
from app.gateway.dialects.keep_alive import ModelLoadFields
from app.gateway.dialects.openai.chat_request import (
    FORMATS,
    LEVELS,
    NO_MESSAGES,
    OpenAIFile,
    OpenAIMessage,
    OpenAIReasoning,
    OpenAIResponseFormat,
    invalid_value,
    read_tool_choice,
    with_selection,
)
from app.gateway.dialects.raw_fields import ABSENT, is_set
from app.gateway.exchange.engine.request import EFFORTS, nest_grammar
from engines.api import Descriptor, Feature

Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]
Temperature = Annotated[float, msgspec.Meta(ge=0, le=2)]
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]
ChoiceCount = Annotated[float, msgspec.Meta(ge=1)]
TokenLimit = Annotated[float, msgspec.Meta(ge=-1)]
"""LM Studio's manual writes -1 for no limit, and some clients write 512.0."""
LogitBias = dict[str, Annotated[float, msgspec.Meta(ge=-100, le=100)] | bool] | list[tuple[int | str, float | bool]]
"""By token; llama.cpp's own form is a list of pairs, and `false` there is never."""


def without_empty(stop: str | list[str] | None) -> list[str] | None:
    """Return the stop sequences that can end an answer, None where there are no others: llama.cpp finds "" at once."""
    if stop == "" or (isinstance(stop, list) and "" in stop):
        return [text for text in stop if text]
    return None


_REFUSAL, _FILE = b'"refusal"', b'"file"'

_Fields = dict[str, msgspec.Raw]


class _RewritablePart(msgspec.Struct, frozen=True):
    type: str = ""
    refusal: str | None = None
    file: OpenAIFile | None = None


def _with_text(body: bytes) -> bytes:
    """Return a chat's body in which refusals and text files are text; the same bytes if there are none."""
    fields = msgspec.json.decode(body, type=_Fields)
    try:
        turns = msgspec.json.decode(fields.get("messages", b"[]"), type=list[_Fields])
    except msgspec.ValidationError:  # the engine says what is wrong with them
        return body
    new_turns = [_rewrite_turn(turn) for turn in turns]
    return body if new_turns == turns else msgspec.json.encode({**fields, "messages": new_turns})


def _rewrite_turn(turn: _Fields) -> _Fields:
    content = turn.get("content", msgspec.Raw())
    if _REFUSAL not in bytes(content) and _FILE not in bytes(content):
        return turn
    try:
        parts = [_rewrite_part(part) for part in msgspec.json.decode(content, type=list[msgspec.Raw])]
    except msgspec.ValidationError:
        return turn
    return {**turn, "content": msgspec.Raw(msgspec.json.encode(parts))}


def _rewrite_part(raw: msgspec.Raw) -> msgspec.Raw:
    part = msgspec.json.decode(raw, type=_RewritablePart)
    text = part.refusal if part.type == "refusal" else _text_in(part.file) if part.type == "file" else None
    return raw if text is None else msgspec.Raw(msgspec.json.encode({"type": "text", "text": text}))


def _text_in(file: OpenAIFile | None) -> str | None:
    try:
        return None if file is None or file.file_data is None else text_of(file.file_data, field="file_data")
    except BadRequest:
        return None


_EMPTY = (b"", b"null", b"[]")
_FREE_CHOICES = (b'"auto"', b'"none"')
_UNSUPPORTED_FIELDS = {
    "functions": "`functions` are not called here; use `tools`.",
    "function_call": "`function_call` is not heeded here; use `tool_choice`.",
    "audio": "`audio` is not made here.",
    "web_search_options": "`web_search_options`: nothing here searches the web.",
}
"""Fields that mean something and that no engine heeds."""


class OpenAITurn(msgspec.Struct, frozen=True):
    """Whose turn it is. What is said the engine reads."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]


class OpenAIChatOptions(ModelLoadFields, frozen=True, kw_only=True):
    """The part of a chat that concerns the gateway, and what has limits."""

    model: str | None = None
    stream: bool | None = None
    messages: list[OpenAITurn] | None = None
    tools: msgspec.Raw = ABSENT
    parallel_tool_calls: bool | None = None
    tool_choice: msgspec.Raw = ABSENT
    response_format: OpenAIResponseFormat | None = None
    stop: str | list[str] | None = None
    n: ChoiceCount | None = None
    max_tokens: TokenLimit | None = None
    max_completion_tokens: TokenLimit | None = None
    temperature: Temperature | None = None
    top_p: Fraction | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: LogitBias | None = None
    top_logprobs: Annotated[float, msgspec.Meta(ge=0, le=20)] | None = None
    reasoning_effort: str | None = None
    reasoning: OpenAIReasoning | None = None
    think: bool | str | None = None
    thinking_budget_tokens: int | None = None
    grammar: msgspec.Raw = ABSENT
    modalities: list[str] | None = None
    chat_template_kwargs: dict[str, msgspec.Raw] | None = None
    repeat_penalty: float | None = None
    repetition_penalty: float | None = None
    functions: msgspec.Raw = ABSENT
    function_call: msgspec.Raw = ABSENT
    audio: msgspec.Raw = ABSENT
    web_search_options: msgspec.Raw = ABSENT

    @property
    def has_tools(self) -> bool:
        """Whether there are tools to call."""
        return self.tools is not ABSENT and bytes(self.tools) not in _EMPTY

    @property
    def effort(self) -> str | None:
        """How much is to be thought, by any of its names."""
        level = self.think if isinstance(self.think, str) else None
        return self.reasoning_effort or (self.reasoning.effort if self.reasoning else None) or level or None


def check_chat(body: bytes, options: OpenAIChatOptions) -> bytes:
    """Return the body an engine is sent, the same bytes nearly always. Raises BadRequest for what none would heed."""
    effort = options.effort
    _check_options(options, effort)
    if _REFUSAL in body or _FILE in body:
        body = _with_text(body)
    if options.tool_choice is not ABSENT and (selection := read_tool_choice(options.tool_choice)):
        body = with_selection(body, selection)
    changes = _other_words(options, effort)
    if not changes:
        return body
    return msgspec.json.encode({**msgspec.json.decode(body, type=dict[str, msgspec.Raw]), **changes})


class _RawMessages(msgspec.Struct, frozen=True):
    messages: list[msgspec.Raw]


def prefill_of(body: bytes, options: OpenAIChatOptions) -> AssistantPrefill:
    """Return what a whole answer to a request will repeat of it, from an engine that does so."""
    if options.stream or not options.messages or options.messages[-1].role != "assistant":
        return NOTHING
    try:
        last = msgspec.json.decode(msgspec.json.decode(body, type=_RawMessages).messages[-1], type=OpenAIMessage)
    except msgspec.MsgspecError:  # the engine says what is wrong with it
        return NOTHING
    parts = last.content if isinstance(last.content, list) else []
    texts = (
        (last.content,)
        if isinstance(last.content, str)
        else tuple(filter(None, (part.text_or_refusal for part in parts)))
    )
    return AssistantPrefill(texts=texts, thinking=last.reasoning_content or "")


def _other_words(options: OpenAIChatOptions, level: str | None) -> dict[str, object]:
    """Return the fields that llama.cpp knows by other names or takes otherwise than meant."""
    changes: dict[str, object] = {}
    if options.stop is not None and (stops := without_empty(options.stop)) is not None:
        changes["stop"] = stops
    if options.repetition_penalty is not None and options.repeat_penalty is None:
        changes["repeat_penalty"] = options.repetition_penalty
    effort = None if level is None else EFFORTS.get(LEVELS[level], "none")
    if effort != options.reasoning_effort:
        changes["reasoning_effort"] = effort
    elif effort is None and isinstance(options.think, bool):
        thinking_arguments = {"enable_thinking": options.think, "thinking": options.think}
        changes["chat_template_kwargs"] = {**thinking_arguments, **(options.chat_template_kwargs or {})}
    return changes


def with_grammar_field(body: bytes, engine: Descriptor) -> bytes:
    """Return the body with its grammar where the engine looks for one."""
    if engine.grammar_field == "grammar" or Feature.GRAMMAR not in engine.features:
        return body
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    grammar = msgspec.json.decode(fields.pop("grammar"))
    return msgspec.json.encode({**fields, **nest_grammar(grammar, engine.grammar_field)})


def _check_options(options: OpenAIChatOptions, effort: str | None) -> None:
    """Refuse what is wrong. A request without the field `messages` the engine refuses itself."""
    if options.messages is not None and not options.messages:
        raise invalid_value(NO_MESSAGES)
    if options.max_tokens == 0 or options.max_completion_tokens == 0:
        field = "max_tokens" if options.max_tokens == 0 else "max_completion_tokens"
        raise invalid_value(f"`{field}` must be at least 1.")
    if effort is not None and effort not in LEVELS:
        raise invalid_value(f"`reasoning_effort` must be one of {', '.join(LEVELS)}.")
    if options.response_format is not None:
        _check_format(options.response_format)
    if options.tool_choice is not ABSENT and _must_call(options.tool_choice) and not options.has_tools:
        raise invalid_value("`tool_choice` is only allowed when `tools` are specified.")
    if "audio" in (options.modalities or ()):
        raise BadRequest("`modalities`: audio is not made here.", code="unsupported_parameter")
    if not options.functions is options.function_call is options.audio is options.web_search_options is ABSENT:
        _refuse_unsupported(options)


def _refuse_unsupported(options: OpenAIChatOptions) -> None:
    for field, sentence in _UNSUPPORTED_FIELDS.items():
        if bytes(getattr(options, field)) not in _EMPTY:
            raise BadRequest(sentence, code="unsupported_parameter")


def _must_call(raw: msgspec.Raw) -> bool:
    return is_set(raw) and bytes(raw) not in _FREE_CHOICES


def _check_format(response_format: OpenAIResponseFormat) -> None:
    schema = response_format.json_schema.schema if response_format.json_schema is not None else response_format.schema
    lacks_schema = response_format.type == "json_schema" and not bytes(schema).startswith(b"{")
    if lacks_schema or response_format.type not in {"text", "json_object", "json_schema"}:
        raise invalid_value(FORMATS)


class OpenAICompletionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a completion that has limits, or means something that no engine heeds."""

    n: ChoiceCount | None = None
    max_tokens: TokenLimit | None = None
    temperature: Temperature | None = None
    top_p: Fraction | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logprobs: Annotated[int, msgspec.Meta(ge=0, le=5)] | bool | None = None
    logit_bias: LogitBias | None = None
    stop: str | list[str] | None = None
    stream_options: dict[str, Any] | None = None
    echo: bool | None = None
    best_of: int | None = None

    @property
    def includes_usage(self) -> bool:
        """Tell whether a stream is to end with its counts."""
        return bool((self.stream_options or {}).get("include_usage"))

    @property
    def is_only_chosen(self) -> bool:
        """Whether log probabilities are wanted of the tokens that were written, and of no others."""
        return self.logprobs is not None and not isinstance(self.logprobs, bool) and self.logprobs == 0


def check_completion(body: bytes, options: OpenAICompletionOptions) -> bytes:
    """Return the body an engine is sent, the same bytes nearly always. Raises BadRequest for what none would heed."""
    if options.echo or (options.best_of or 1) > 1:
        name = "echo" if options.echo else "best_of"
        raise BadRequest(f"`{name}` is not possible here.", code="unsupported_parameter")
    if options.max_tokens == 0:
        raise invalid_value("`max_tokens` must be at least 1.")
    changes: dict[str, object] = {}
    if (stops := without_empty(options.stop)) is not None:
        changes["stop"] = stops
    if options.is_only_chosen:
        changes["logprobs"] = 1  # with none llama.cpp tells nothing
    if not changes:
        return body
    return msgspec.json.encode({**msgspec.json.decode(body, type=dict[str, msgspec.Raw]), **changes})
