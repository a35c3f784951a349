"""What an engine says instead of an answer, understood: whose mistake it is, and which.

llama-server sends `{"error": {"code": 400, "message", "type"}}`, MLX-LM `{"error": "text"}`, FastAPI engines
`{"detail": ...}`, and a server in trouble plain text. llama-server answers several mistakes of the caller with 500 or
501, which clients repeat in vain; each is known by its words, as the pinned build writes them. So is a context that is
too short, for which every engine has a body of its own.

What an engine says instead of an answer, as an error of ours that every dialect can put into its own shape.

What an engine says in its programming language's words, said in ours. Pure.

llama-server hands on what its JSON library and its containers throw: "[json.exception.type_error.302] type must be
number, but is string". What they tell of the request is kept, and the rest left out.
"""

import re
from typing import Literal, NamedTuple

import msgspec

from app.core.errors import BadRequest, EngineFailed, RoundhouseError, TooManyRequests, Unavailable
from app.gateway.canonical.events import ContextOverflow, Overflow

_CONTEXT_TYPE = "exceed_context_size_error"
"""llama-server's word for OpenAI's `context_length_exceeded`, which editors look for."""
NO_REASON = "The engine refused the request and did not say why."
_LONGEST_TEXT = 2000
_BAD_REQUEST = 400
_SERVER_ERROR = 500


class _Mistake(NamedTuple):
    code: str
    param: str | None


_MISTAKES = (
    (
        re.compile(r"(image|audio) input is not supported|unsupported content\[\]\.type"),
        _Mistake("unsupported_content", "messages"),
    ),
    (re.compile(r"Failed to parse tools"), _Mistake("invalid_tools", "tools")),
    (
        re.compile(r"Failed to parse messages|'messages' is required|Failed to parse tool call arguments"),
        _Mistake("invalid_messages", "messages"),
    ),
    (re.compile(r"not supported by this model|does not support"), _Mistake("model_cannot", "model")),
    (re.compile(r"Unknown reasoning format"), _Mistake("invalid_value", "reasoning_format")),
    (re.compile(r"\[json\.exception\."), _Mistake("invalid_value", None)),
)


UNPARSED = "unparsed_answer"
"""The code of an error that is the engine's alone: the model wrote, and the engine could not read it."""
UNPARSED_WORDS = r"(?:The model produced output that does not match|Failed to parse input at pos \d)"
"""llama.cpp's, as its versions have them."""
_UNPARSED = re.compile(UNPARSED_WORDS)
_FIELD = re.compile(r"^Field '(\w+)': ")
"""How llama-server begins a sentence about one field."""


class EngineRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """An engine's refusal. `overflow` is there when the prompt was too long, with what the engine told of it."""

    status: int
    message: str
    code: str | int | None = None
    param: str | None = None
    overflow: Overflow | None = None
    most_answer: int | None = None
    """Tokens that an answer may have, where the limit asked for was above that, whatever the prompt takes."""
    kind: str = ""
    """Its own word for the type of error, where that is kept."""
    extra: dict[str, msgspec.Raw] = {}
    """Whatever else it said."""

    @property
    def text(self) -> str:
        """The message, or that there is none."""
        return self.message or NO_REASON


_NOTHING = msgspec.Raw()


class _EngineError(msgspec.Struct, frozen=True):
    error: dict[str, msgspec.Raw] | str | None = None
    detail: msgspec.Raw = _NOTHING
    message: str = ""
    details: msgspec.Raw = _NOTHING


class _ContextLimit(msgspec.Struct, frozen=True):
    """What Dynamo's frontend says beside "Invalid request" of a prompt that is too long."""

    type: Literal["context_length"]
    limit: int
    actual: int


def parse_refusal(body: bytes, status: int) -> EngineRefusal:
    """Return what an engine's error document means."""
    document = _decode_document(body)
    error = document.error if document is not None and isinstance(document.error, dict) else None
    if error is None or "message" not in error:
        refusal = EngineRefusal(status=status, message=_error_sentence(document, body), code="engine_error")
        limit = None if document is None else _read_context_limit(document.details)
        if limit is not None:
            return _overflow_refusal(refusal, Overflow(context=limit.limit, prompt=limit.actual))
        return _classify_refusal(refusal)
    message, kind = _text_in(error["message"]), _text_in(error.get("type"))
    if kind == _CONTEXT_TYPE or _text_in(error.get("code")) == ContextOverflow.default_code:
        counts = overflow_in(message) or Overflow()
        prompt, context = _integer_in(error.get("n_prompt_tokens")), _integer_in(error.get("n_ctx"))
        counts = msgspec.structs.replace(counts, prompt=prompt or counts.prompt, context=context or counts.context)
        return _overflow_refusal(EngineRefusal(status=status, message=message, extra=error), counts)
    param = _text_in(error.get("param")) or _field_of(message)
    return _classify_refusal(
        EngineRefusal(status=status, message=message, code=_error_code(error), param=param, kind=kind, extra=error)
    )


def _read_context_limit(details: msgspec.Raw) -> _ContextLimit | None:
    try:
        return msgspec.json.decode(details, type=_ContextLimit) if details else None
    except msgspec.MsgspecError:
        return None


def _field_of(message: str) -> str | None:
    match = _FIELD.match(message)
    return match[1] if match else None


def _classify_refusal(refusal: EngineRefusal) -> EngineRefusal:
    """Return the refusal with the mistake found that its words tell of, if they tell of one of the caller's."""
    overflow = overflow_in(refusal.message)
    if overflow is not None:
        return _overflow_refusal(refusal, overflow)
    if (most := answer_limit_in(refusal.message)) is not None:
        refusal = msgspec.structs.replace(refusal, most_answer=most)
    if refusal.status >= _SERVER_ERROR and _UNPARSED.search(refusal.message):
        refusal = msgspec.structs.replace(refusal, code=UNPARSED)
    elif refusal.status >= _SERVER_ERROR:
        for pattern, mistake in _MISTAKES:
            if pattern.search(refusal.message):
                changed_fields = {"status": _BAD_REQUEST, "code": mistake.code, "param": mistake.param, "kind": ""}
                refusal = msgspec.structs.replace(refusal, **changed_fields)
                break
    return msgspec.structs.replace(refusal, message=plain_sentence(refusal.message))


def _overflow_refusal(refusal: EngineRefusal, overflow: Overflow) -> EngineRefusal:
    code = ContextOverflow.default_code
    return msgspec.structs.replace(refusal, status=_BAD_REQUEST, code=code, param=None, kind="", overflow=overflow)


def _decode_document(body: bytes) -> _EngineError | None:
    try:
        return msgspec.json.decode(body, type=_EngineError)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _error_code(document: dict[str, msgspec.Raw]) -> str | int | None:
    number = _integer_in(document.get("code"))
    return number if number is not None else _text_in(document.get("code")) or None


def _integer_in(raw: msgspec.Raw | None) -> int | None:
    try:
        return msgspec.json.decode(raw, type=int) if raw else None
    except msgspec.MsgspecError:
        return None


def _text_in(raw: msgspec.Raw | None) -> str:
    """Return a JSON string's text, any other value's JSON, or nothing."""
    if not raw or bytes(raw) == b"null":
        return ""
    try:
        return msgspec.json.decode(raw, type=str)
    except msgspec.MsgspecError:
        return bytes(raw).decode()


def _error_sentence(engine_error: _EngineError | None, body: bytes) -> str:
    """Return what an engine says that does not say it as OpenAI's do; "" for nothing at all."""
    if engine_error is None:
        text = body.decode(errors="replace").strip()
    else:
        text = (
            engine_error.error
            if isinstance(engine_error.error, str)
            else engine_error.message or _text_in(engine_error.detail)
        )
    return text[:_LONGEST_TEXT]


_UNAVAILABLE = 503
_NOT_IMPLEMENTED = 501


def error_from_refusal(body: bytes, status: int = _SERVER_ERROR, *, retry_after: str = "") -> RoundhouseError:
    """Return the error for an engine's error document, or for an error event in its stream (without a status).

    `retry_after` is what its header of that name said.
    """
    refusal = parse_refusal(body, status)
    if refusal.overflow is not None:
        return ContextOverflow(refusal.overflow)
    sentence = refusal.text.strip()[:_LONGEST_TEXT]
    status = refusal.code if isinstance(refusal.code, int) else refusal.status
    if status == _UNAVAILABLE:
        return Unavailable(sentence, code="engine_busy")
    if status == TooManyRequests.status:
        return TooManyRequests(sentence, code="engine_busy", retry_after=retry_after)
    if status < _SERVER_ERROR or status == _NOT_IMPLEMENTED:
        return BadRequest(sentence, code=str(refusal.code) if refusal.param and refusal.code else "engine_refused")
    return EngineFailed(sentence, code=UNPARSED if refusal.code == UNPARSED else "engine_error")


_JSON = re.compile(r"(?:Field '(?P<field>\w+)': )?\[json\.exception\.\w+\.\d+\] (?P<said>.*)", re.DOTALL)
_TYPE = re.compile(r"type must be (?P<wanted>\w+), but is (?P<found>\w+)")
_MISSING = re.compile(r"key '(?P<key>[^']*)' not found")
_PART = "unsupported content[].type"
_CONTAINER = re.compile(r"_M_\w|std::\w|basic_string|invalid vector subscript")


def plain_sentence(message: str) -> str:
    """Return the message with what no caller can read put into a sentence; any other as it is."""
    match = _JSON.search(message)
    if match is not None:
        return message[: match.start()] + _of_json(match["field"], match["said"])
    if _PART in message:
        return "A part of a message is of a type that the engine cannot read."
    if _CONTAINER.search(message):
        return "The engine could not understand the request."
    return message


def _of_json(field: str | None, detail: str) -> str:
    if kinds := _TYPE.search(detail):
        return f"{_field_name(field)} must be of type {kinds['wanted']}, and is of type {kinds['found']}."
    if missing_match := _MISSING.search(detail):
        return f"`{missing_match['key']}` is missing."
    return f"{_field_name(field)} is not as expected: {detail}"


def _field_name(field: str | None) -> str:
    return f"`{field}`" if field else "A value of the request"


# Whether an engine's sentence says that the context is too short, and by how much, as each engine words it. Pure.
#
# Each answers with another status and another body, but the sentences are their own. A limit on the answer alone is not
# the context's, and is left as it is.

_LONGEST = 2000
"""Characters of a sentence that are looked at: whoever quotes the request does so after the counts."""


def _number_pattern(name: str) -> str:
    """Return the pattern of a count; some write commas into it, or a decimal that is none."""
    return rf"(?P<{name}>\d{{1,3}}(?:,\d{{3}})+|\d+)(?:\.0)?"


_CONTEXT, _PROMPT, _ANSWER = _number_pattern("context"), _number_pattern("prompt"), _number_pattern("answer")
_MAXIMUM = rf"maximum context length is {_CONTEXT} tokens"
_SENTENCES = tuple(
    re.compile(words, re.IGNORECASE | re.DOTALL)
    for words in (
        # llama.cpp, and our workers after it; for an embedding model the physical batch is the context
        rf"request \({_PROMPT} tokens\) exceeds the available context size \({_CONTEXT} tokens\)",
        rf"input \({_PROMPT} tokens\) is too large to process\..{{0,300}}?batch size: {_CONTEXT}",
        # MLX-LM, whose server has no words of its own, as our handler puts it
        rf"request has {_PROMPT} tokens, and the context holds {_CONTEXT}",
        # TGI, of its two limits
        (
            rf"`inputs` tokens \+ `max_new_tokens` must be <= {_CONTEXT}\. Given: {_PROMPT} `inputs` tokens"
            rf" and {_ANSWER} `max_new_tokens`"
        ),
        rf"`inputs` must have less than {_CONTEXT} tokens\. Given: {_PROMPT}",
        # vLLM, as its versions said it; then its input processor
        rf"is too large: {_ANSWER}\. This model's {_MAXIMUM} and your request has {_PROMPT} input tokens",
        (
            rf"{_MAXIMUM}\. However, you requested {_ANSWER} output tokens and your prompt contains"
            rf" (?:at least )?{_PROMPT} input tokens"
        ),
        rf"{_MAXIMUM}\. However, your request has {_PROMPT} input tokens",
        rf"{_MAXIMUM}, but the prompt contains {_PROMPT} input tokens",
        rf"prompt \(length {_PROMPT}\) is longer than the maximum model length of {_CONTEXT}",
        rf"prompt \(total length {_PROMPT}\) is too long to fit into the model \(context length {_CONTEXT}",
        # OpenAI, for chats and for completions; Dynamo and Roundhouse say it so too, and OpenRouter "about"
        (
            rf"{_MAXIMUM}[.,] however,? you requested (?:about )?[\d,]+ tokens"
            rf" \({_PROMPT} (?:in|of) [\w ]+[,;] {_ANSWER} (?:in|for) the"
        ),
        rf"{_MAXIMUM}[.,] however,? your [\w ]+ resulted in {_PROMPT} tokens",
        _MAXIMUM,
        # SGLang: its tokenizer's check, and its scheduler's
        rf"input \({_PROMPT} tokens\) is longer than the model's context length \({_CONTEXT}",
        (
            rf"exceeds the model's maximum context length of {_CONTEXT} tokens\. You requested a total of [\d,]+"
            rf" tokens: {_PROMPT} tokens from the input messages and {_ANSWER} tokens for the completion"
        ),
        rf"input length \({_PROMPT} tokens\) exceeds the maximum allowed length \({_CONTEXT}",
        # TensorRT-LLM: PyTorch's way, then the compiled engine's
        rf"sum of prompt length \({_PROMPT}\), query length \(\d+\) should not exceed max_num_tokens \({_CONTEXT}\)",
        rf"max_seq_len \({_CONTEXT}\) - `splited_prompt_len` \({_PROMPT}\)",
        rf"prompt length \({_PROMPT}\) exceeds maximum (?:input|sequence) length \({_CONTEXT}\)",
        # MLC LLM
        rf"prompt has {_PROMPT} tokens in total, larger than the model input length limit {_CONTEXT}",
        # OpenVINO Model Server
        rf"number of prompt tokens: {_PROMPT} exceeds model max length: {_CONTEXT}",
        # LM Studio, as its versions said it
        (
            rf"keep the first {_PROMPT} tokens when context the overflows\..{{0,99}}?"
            rf"context length of only {_CONTEXT} tokens"
        ),
        rf"greater than the context length \(n_keep: {_PROMPT}\s*>=\s*n_ctx: {_CONTEXT}\)",
        # without all counts: llama.cpp before it told its batch, and of 2025; LM Studio, Ollama
        rf"input \({_PROMPT} tokens\) is too large to process",
        r"exceeds? the (?:available |model's )?context (?:size|length|window)",
        r"greater than the context length",
    )
)


def overflow_in(sentence: str) -> Overflow | None:
    """Return what a sentence tells of a context that is too short; None where it tells of something else."""
    start = sentence[:_LONGEST]
    match = next((match for pattern in _SENTENCES if (match := pattern.search(start))), None)
    if match is None:
        return None
    counts = {name: int(digits.replace(",", "")) for name, digits in match.groupdict().items() if digits is not None}
    if counts.get("prompt", 0) > counts.get("context", 0):
        counts.pop("answer", None)  # no shorter answer would help
    return Overflow(**counts)


_ANSWER_LIMITS = tuple(
    re.compile(words, re.IGNORECASE | re.DOTALL)
    for words in (  # as the vendors' own services word it; none was asked here
        rf"max_(?:completion_)?tokens is too large: \d+\. This model supports at most {_ANSWER}",  # OpenAI
        rf"max_tokens: \d+ > {_ANSWER}, which is the maximum allowed number of output tokens",  # Anthropic
        rf"the valid range of max_tokens is \[1, {_ANSWER}\]",  # DeepSeek
        rf"max_(?:completion_)?tokens`? must be less than or equal to `?{_ANSWER}",  # Groq
    )
)


def answer_limit_in(sentence: str) -> int | None:
    """Return how many tokens an answer may have, where a sentence says that too many were asked for."""
    start = sentence[:_LONGEST]
    match = next((match for pattern in _ANSWER_LIMITS if (match := pattern.search(start))), None)
    return None if match is None else int(match["answer"].replace(",", ""))
