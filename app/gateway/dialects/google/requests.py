"""From Google's requests to the canonical form."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from app.core.errors import BadRequest, quote_value
from app.core.thinking import ThinkingLevel
from app.gateway.canonical.request import (
    ConversationMessage,
    ConversationRequest,
    GenerationLimits,
    Image,
    MessageRole,
    Part,
    ResponseFormat,
    ResponseShape,
    SamplingParams,
    Text,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolDefinition,
    ToolMode,
    ToolResult,
    sound_of,
    text_of,
)
from app.gateway.dialects.google.schemas import schema_from
from app.gateway.dialects.google.wire import (
    CountTokensRequest,
    EmbedContentRequest,
    GenerateContentRequest,
    GoogleBlob,
    GoogleContent,
    GoogleFunction,
    GoogleFunctionCall,
    GoogleFunctionResponse,
    GoogleGenerationConfig,
    GooglePart,
    GoogleThinkingConfig,
    GoogleTool,
    GoogleToolConfig,
)
from app.gateway.dialects.raw_fields import is_set, value_of

_ROLES = {"": MessageRole.USER, "user": MessageRole.USER, "model": MessageRole.ASSISTANT, "function": MessageRole.USER}
_MODES = {
    "": ToolMode.AUTO,
    "MODE_UNSPECIFIED": ToolMode.AUTO,
    "AUTO": ToolMode.AUTO,
    "VALIDATED": ToolMode.AUTO,
    "ANY": ToolMode.REQUIRED,
    "NONE": ToolMode.NONE,
}
_LEVELS = {
    "MINIMAL": ThinkingLevel.MINIMAL,
    "LOW": ThinkingLevel.LOW,
    "MEDIUM": ThinkingLevel.MEDIUM,
    "HIGH": ThinkingLevel.HIGH,
}
_JSON, _PLAIN = "application/json", frozenset({"", "text/plain"})
_LEFT_TO_THE_MODEL = -1
_OWN_TOOLS = {
    "google_search": "googleSearch",
    "google_search_retrieval": "googleSearchRetrieval",
    "code_execution": "codeExecution",
    "url_context": "urlContext",
}


def to_canonical_request(request: GenerateContentRequest) -> ConversationRequest:
    """Return what a request asks for. Raises BadRequest."""
    if request.cached_content:
        raise BadRequest("`cachedContent` is not kept here.", hint="Send the contents themselves.", code="not_kept")
    if not request.contents:
        raise BadRequest("`contents` must not be empty.", code="invalid_value")
    settings = request.generation_config
    if settings.candidate_count is not None and settings.candidate_count != 1:
        raise BadRequest(
            "`generationConfig.candidateCount`: one candidate is written at a time.", code="unsupported_parameter"
        )
    tools = tuple(_to_tools(request.tools))
    choice, offered_tools = _to_tool_choice(request.tool_config, tools)
    return ConversationRequest(
        messages=(*_system_messages(request.system_instruction), *_TurnReader().read_turns(request.contents)),
        tools=offered_tools,
        tool_choice=choice,
        response_format=_to_response_format(settings),
        thinking=_thinking_level(settings.thinking_config),
        sampling=_to_sampling(settings),
        limits=GenerationLimits(
            max_tokens=settings.max_output_tokens,
            stops=tuple(settings.stop_sequences),
            logprobs=(settings.logprobs or 0) if settings.response_logprobs else None,
        ),
    )


def to_counted_request(request: CountTokensRequest) -> ConversationRequest:
    """Return the request whose tokens are to be counted. Raises BadRequest."""
    whole = request.generate_content_request
    if whole is None:
        whole = GenerateContentRequest(contents=request.contents)
    elif not whole.contents:
        whole = msgspec.structs.replace(whole, contents=request.contents)
    return to_canonical_request(whole)


def text_to_embed(request: EmbedContentRequest) -> str:
    """Return the text whose vector is wanted. Raises BadRequest for anything but text."""
    texts = [part.text for part in request.content.parts]
    if not texts or any(text is None for text in texts):
        raise BadRequest("`content` must have parts, and texts only.", code="invalid_value")
    return "\n".join(text for text in texts if text is not None)


def _system_messages(content: GoogleContent | None) -> Iterator[ConversationMessage]:
    if content is None:
        return
    if any(part.text is None for part in content.parts):
        raise BadRequest("`systemInstruction` may have texts only.", code="invalid_value")
    text = "\n".join(part.text or "" for part in content.parts)
    if text:
        yield ConversationMessage(MessageRole.SYSTEM, (Text(text),))


class _PendingCall(NamedTuple):
    """A call that no function has answered yet."""

    id: str
    name: str


class _TurnReader:
    """Reads the turns in their order. A call without an id gets one, and the first answer to its name is its answer."""

    def __init__(self) -> None:
        self._pending_calls: list[_PendingCall] = []
        self._count = 0

    def read_turns(self, contents: Sequence[GoogleContent]) -> Iterator[ConversationMessage]:
        """Yield the messages. Raises BadRequest for what cannot be read."""
        for at, content in enumerate(contents):
            if content.role not in _ROLES:
                raise BadRequest(
                    f"`contents[{at}].role`: {quote_value(content.role)} is neither user nor model.",
                    code="invalid_value",
                )
            yield from self._read_turn(content, _ROLES[content.role], f"contents[{at}]")

    def _read_turn(self, content: GoogleContent, role: MessageRole, field: str) -> Iterator[ConversationMessage]:
        """Yield what functions answered as a turn of its own, which comes first, and the rest."""
        parts = [self._read_part(part, role, f"{field}.parts[{at}]") for at, part in enumerate(content.parts)]
        results = tuple(part for part in parts if isinstance(part, ToolResult))
        rest = tuple(part for part in parts if not isinstance(part, ToolResult))
        if results:
            yield ConversationMessage(MessageRole.TOOL, results)
        if rest or not results:
            yield ConversationMessage(role, rest)

    def _read_part(self, part: GooglePart, role: MessageRole, field: str) -> Part:
        if part.function_call is not None:
            return self._read_call(part.function_call, field)
        if part.function_response is not None:
            return self._read_response(part.function_response)
        if part.inline_data is not None:
            return _read_blob(part.inline_data, f"{field}.inlineData")
        if is_set(part.file_data):
            raise BadRequest(
                f"`{field}.fileData`: files are not downloaded.",
                hint="Send the file itself, as `inlineData`.",
                code="image_source",
            )
        if is_set(part.executable_code) or is_set(part.code_execution_result):
            return Text(_code_text(part))
        if part.text is None:
            raise BadRequest(f"`{field}` has no content that can be read.", code="invalid_value")
        return Thinking(part.text) if part.thought and role is MessageRole.ASSISTANT else Text(part.text)

    def _read_call(self, call: GoogleFunctionCall, field: str) -> ToolCall:
        self._count += 1
        call_id = call.id or f"call_{self._count}"
        self._pending_calls.append(_PendingCall(call_id, call.name))
        return ToolCall(id=call_id, name=call.name, arguments=_object_text(call.args, f"{field}.functionCall.args"))

    def _read_response(self, response: GoogleFunctionResponse) -> ToolResult:
        pending_calls = self._take_pending(response)
        return ToolResult(
            call_id=response.id or f"call_{self._count}" if pending_calls is None else pending_calls.id,
            text=_result_text(response.response),
            name=response.name,
            is_error=_is_error(response.response),
        )

    def _take_pending(self, response: GoogleFunctionResponse) -> _PendingCall | None:
        """Return the call that this is the answer to, which is then no longer pending."""
        for call in self._pending_calls:
            if call.id == response.id or (not response.id and call.name == response.name):
                self._pending_calls.remove(call)
                return call
        return None


_STANDARD_BASE64 = str.maketrans("-_", "+/")
"""Google's Python client sends the alphabet for addresses, which engines do not read."""
_AUDIO = "audio/"
_SOUND_KINDS = {
    **dict.fromkeys(("audio/x-wav", "audio/wave", "audio/vnd.wave"), "wav"),
    **dict.fromkeys(("audio/mpeg", "audio/mpga", "audio/x-mp3"), "mp3"),
}


def _read_blob(blob: GoogleBlob, field: str) -> Part:
    kind, data = blob.mime_type.lower().partition(";")[0].strip(), blob.data.translate(_STANDARD_BASE64)
    if kind.startswith("image/"):
        return Image(media_type=kind, data=data)
    if kind.startswith(_AUDIO):
        return sound_of(_SOUND_KINDS.get(kind, kind.removeprefix(_AUDIO)), data, field=field)
    if kind.startswith("text/") or kind == _JSON:
        return Text(text_of(f"data:{kind};base64,{data}", field=field))
    raise BadRequest(
        f"`{field}`: a file of the type {quote_value(blob.mime_type or 'unknown')} cannot be read.",
        hint="Send its text, or pictures of its pages.",
        code="unsupported_content",
    )


def _code_text(part: GooglePart) -> str:
    """Return code that Google's own tool ran in an earlier turn, or what came of it, as text."""
    document = value_of(part.executable_code if is_set(part.executable_code) else part.code_execution_result)
    fields = document if isinstance(document, dict) else {}
    return str(fields.get("code") or fields.get("output") or "")


def _object_text(raw: msgspec.Raw, field: str) -> str:
    if not is_set(raw):
        return "{}"
    if not bytes(raw).lstrip().startswith(b"{"):
        raise BadRequest(f"`{field}` is an object.", code="invalid_value")
    return bytes(raw).decode()


def _result_text(raw: msgspec.Raw) -> str:
    """Return what a function answered; of the usual object with one text, that text."""
    value = value_of(raw)
    if isinstance(value, dict) and len(value) == 1:
        (inner,) = value.values()
        if isinstance(inner, str):
            return inner
    return "{}" if value is None else bytes(raw).decode()


def _is_error(raw: msgspec.Raw) -> bool:
    value = value_of(raw)
    return isinstance(value, dict) and set(value) == {"error"}


def _to_tools(tools: Sequence[GoogleTool]) -> Iterator[ToolDefinition]:
    for tool in tools:
        own = next((name for field, name in _OWN_TOOLS.items() if is_set(getattr(tool, field))), None)
        if own is not None:
            raise BadRequest(
                f"`tools`: {own} is a tool of Google's own service.",
                hint="Leave it out, or offer functions of your own.",
                code="unsupported_tool",
            )
        yield from map(_to_tool, tool.function_declarations)


def _to_tool(function: GoogleFunction) -> ToolDefinition:
    if not function.name:
        raise BadRequest("`tools`: every function has a name.", code="invalid_tools")
    field = f"tools.functionDeclarations.{function.name[:64]}.parameters"
    return ToolDefinition(
        name=function.name,
        description=function.description,
        parameters=schema_from(function.parameters, function.parameters_json_schema, field=field),
    )


def _to_tool_choice(
    config: GoogleToolConfig, tools: tuple[ToolDefinition, ...]
) -> tuple[ToolChoice, tuple[ToolDefinition, ...]]:
    """Return whether a function is called, and those that may be."""
    calling_config = config.function_calling_config
    mode = _MODES.get(calling_config.mode.upper())
    if mode is None:
        raise BadRequest(
            f"`toolConfig.functionCallingConfig.mode`: there is no mode {quote_value(calling_config.mode)}.",
            code="invalid_value",
        )
    names = calling_config.allowed_function_names
    unknown = next((name for name in names if name not in {tool.name for tool in tools}), None)
    if unknown is not None:
        raise BadRequest(
            f"`allowedFunctionNames`: there is no function {quote_value(unknown)} among the tools.",
            code="invalid_tools",
        )
    if mode is ToolMode.REQUIRED and not tools:
        raise BadRequest("A function call is required, but there are no functions.", code="invalid_tools")
    offered_tools = tuple(tool for tool in tools if tool.name in names) if names else tools
    name = names[0] if mode is ToolMode.REQUIRED and len(names) == 1 else ""
    return ToolChoice(choose=mode, name=name), offered_tools


def _to_response_format(settings: GoogleGenerationConfig) -> ResponseFormat:
    kind = settings.response_mime_type.lower()
    schema = schema_from(
        settings.response_schema, settings.response_json_schema, field="generationConfig.responseSchema"
    )
    if kind in _PLAIN and schema is None:
        return ResponseFormat()
    if kind != _JSON:
        raise BadRequest(
            f"`generationConfig.responseMimeType`: {quote_value(kind or 'text/plain')} is not possible here.",
            hint=f"An answer is text/plain, or {_JSON}, which alone can have a schema.",
            code="invalid_value",
        )
    return ResponseFormat(shape=ResponseShape.JSON if schema is None else ResponseShape.SCHEMA, schema=schema)


def _thinking_level(config: GoogleThinkingConfig) -> ThinkingLevel:
    level = config.thinking_level.upper()
    if level in _LEVELS:
        return _LEVELS[level]
    if level not in {"", "THINKING_LEVEL_UNSPECIFIED"}:
        raise BadRequest(
            f"`thinkingConfig.thinkingLevel`: there is no level {quote_value(config.thinking_level)}.",
            code="invalid_value",
        )
    budget = config.thinking_budget
    if budget is None or budget == _LEFT_TO_THE_MODEL:
        return ThinkingLevel.DEFAULT
    return ThinkingLevel.ON if budget else ThinkingLevel.OFF


def _to_sampling(settings: GoogleGenerationConfig) -> SamplingParams:
    return SamplingParams(
        temperature=settings.temperature,
        top_p=settings.top_p,
        top_k=None if settings.top_k is None else int(settings.top_k),
        seed=settings.seed,
        presence_penalty=settings.presence_penalty,
        frequency_penalty=settings.frequency_penalty,
    )
