"""What an engine is sent for a request, and how its answer is to be read.

An engine that parses its models' answers itself is sent the request as it is. One that hands on raw text is asked so
that what it lacks can be had: tools told of where the template does not, calls that must be made held to a schema or
insisted upon, stop sequences kept back, since they would end reasoning too.

Tool calls as a JSON schema, for engines that can be held to one and know nothing of tools.

Tools for models whose chat template knows none: described in the system's words, and called between tags.

The tags are those most models have seen. Earlier calls and their results are put the same way, since such a template
has no turns for them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from app.core.thinking import ThinkingLevel
from app.gateway.canonical.families.answer import ReadingOptions
from app.gateway.canonical.families.arguments import decode_schema
from app.gateway.canonical.families.family import PLAIN_JSON, TAGGED, ModelFamily
from app.gateway.canonical.request import (
    CompletionRequest,
    ConversationMessage,
    ConversationRequest,
    MessageRole,
    Part,
    Request,
    ResponseFormat,
    ResponseShape,
    Text,
    ToolCall,
    ToolDefinition,
    ToolMode,
    ToolResult,
)
from app.gateway.exchange.engine.capability import Fulfilment, RequestNeed, check_needs, fulfilment_of
from app.gateway.exchange.engine.request import body_of, callable_tools
from engines.api import Descriptor, Feature

_CONSTRAINED = ModelFamily(forms=(PLAIN_JSON,))
"""An answer held to a schema from its first token: it cannot hold reasoning, nor marks."""


class AnswerRepairs(msgspec.Struct, frozen=True, kw_only=True):
    """What is done about an answer that cannot be used. `request` is what the engine was asked, as it was put to it.

    With `checks_calls` a call that its tool would refuse, and an answer of nothing, are asked for once more.
    """

    request: ConversationRequest
    write: Callable[[Request], bytes]
    """Writes a body for the same engine."""
    family: ModelFamily
    tools: tuple[ToolDefinition, ...] = ()
    is_open: bool = False
    """The prompt opens the reasoning."""
    checks_calls: bool = False

    @property
    def raw_body(self) -> bytes:
        """What has the engine write on after a prompt, without reading it; the prompt is filled in by who sends it."""
        request = self.request
        return self.write(CompletionRequest(prompt="", sampling=request.sampling, limits=request.limits))

    @property
    def raw_reading(self) -> ReadingOptions:
        """How what the model writes then is read."""
        return ReadingOptions(
            family=self.family,
            tools=self.tools,
            is_open=self.is_open,
            one_at_a_time=self.request.tool_choice.one_at_a_time,
        )

    def correction_body(self, calls: Sequence[ToolCall], faults: Sequence[Sequence[str]]) -> bytes:
        """Return what asks again for calls that are wrong, each with what is wrong with it; none where nothing is."""
        refused_calls = [_call_to_show(call, sentences) for call, sentences in zip(calls, faults, strict=True)]
        results = [
            ToolResult(
                call_id=call.id, name=call.name, text=CALL_AGAIN.format(faults=" ".join(sentences)), is_error=True
            )
            if sentences
            else ToolResult(call_id=call.id, name=call.name, text=NOT_RUN, is_error=True)
            for call, sentences in zip(refused_calls, faults, strict=True)
        ]
        turns = [
            ConversationMessage(MessageRole.ASSISTANT, tuple(refused_calls)),
            *(ConversationMessage(MessageRole.TOOL, (result,)) for result in results),
        ]
        if not self.family.renders_tools:
            turns = [_plain_message(turn) for turn in turns]
        return self.write(msgspec.structs.replace(self.request, messages=(*self.request.messages, *turns)))

    @property
    def retry_body(self) -> bytes:
        """What asks again for an answer that was empty."""
        *before, last = self.request.messages
        if last.role is MessageRole.USER:
            turns = (*before, ConversationMessage(MessageRole.USER, (*last.parts, Text(f"\n\n{NOT_EMPTY}"))))
        else:
            turns = (*before, last, ConversationMessage(MessageRole.USER, (Text(NOT_EMPTY),)))
        return self.write(msgspec.structs.replace(self.request, messages=turns, thinking=ThinkingLevel.OFF))


def _call_to_show(call: ToolCall, faults: Sequence[str]) -> ToolCall:
    """Return a call as templates can show it: arguments that are no JSON are said in the result instead."""
    try:
        is_object = isinstance(msgspec.json.decode(call.arguments or "{}"), dict)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        is_object = False
    return call if is_object or not faults else msgspec.structs.replace(call, arguments="{}")


class UpstreamPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The body to send. `reading` is None where the engine tells everything apart itself.

    `again` is what to send, once, if an answer that had to call a tool did not.
    """

    body: bytes
    reading: ReadingOptions | None = None
    again: bytes | None = None
    repairs: AnswerRepairs | None = None
    """Set for chats of which something may have to be put right."""
    counts_tokens: bool = False
    """Whether the engine's tokenizer is asked for counts that its stream lacks."""
    question: str = ""
    """What the Guide is asked, which looks its answers up: then no engine is."""


def reads_itself(descriptor: Descriptor) -> bool:
    """Whether an engine tells reasoning and calls from text itself, so that its bytes may pass untouched."""
    return {Feature.TOOLS, Feature.REASONING} <= descriptor.features


def plan_request(
    request: Request, descriptor: Descriptor, family: ModelFamily, *, model: str, is_readable: bool = False
) -> UpstreamPlan:
    """Return the plan for a chat or a bare prompt. Raises BadRequest (engine_cannot).

    `is_readable`: nothing will have to be put right of what an engine reads itself.
    """
    check_needs(request, descriptor.features, engine=descriptor.name)
    if descriptor.loosens_calls:
        descriptor = _without_loose_calls(request, descriptor)
    if not isinstance(request, ConversationRequest) or (is_readable and reads_itself(descriptor)):
        return UpstreamPlan(body=_body_for(request, model, descriptor, descriptor.features))
    if reads_itself(descriptor):
        return _plan_second_reading(request, descriptor, family, model=model)
    fitted_request, reading_options = _fitted_request(request, descriptor, family)
    again = None
    if reading_options.must_call:
        insisting_messages = with_system(fitted_request.messages, AGAIN)
        again = _request_body(msgspec.structs.replace(fitted_request, messages=insisting_messages), model, descriptor)
    repairs = AnswerRepairs(
        request=fitted_request,
        write=partial(_request_body, model=model, descriptor=descriptor),
        family=family,
        tools=reading_options.tools,
    )
    return UpstreamPlan(
        body=repairs.write(fitted_request), reading=reading_options, again=again, repairs=repairs, counts_tokens=True
    )


def _without_loose_calls(request: Request, descriptor: Descriptor) -> Descriptor:
    """Return an engine that does not hold calls to their schema as one without tools, where a call must be made."""
    is_required = isinstance(request, ConversationRequest) and bool(request.tools) and request.tool_choice.is_required
    if not is_required:
        return descriptor
    return msgspec.structs.replace(descriptor, features=descriptor.features - {Feature.TOOLS})


def _plan_second_reading(
    request: ConversationRequest, descriptor: Descriptor, family: ModelFamily, *, model: str
) -> UpstreamPlan:
    """Return the plan for an engine that reads calls itself: those that it took for text are read here."""
    tools = _offered_tools(request)
    repairs = AnswerRepairs(
        request=request,
        write=lambda each: _body_for(each, model, descriptor, descriptor.features),
        family=family,
        tools=tools,
        is_open=_is_open(family, request.thinking),
    )
    reading_options = None
    if tools and request.response_format.shape is ResponseShape.TEXT:
        one_at_a_time = request.tool_choice.one_at_a_time
        reading_options = ReadingOptions(family=family, tools=tools, reads_thoughts=False, one_at_a_time=one_at_a_time)
    return UpstreamPlan(body=repairs.write(request), reading=reading_options, repairs=repairs)


def _request_body(request: Request, model: str, descriptor: Descriptor) -> bytes:
    return _body_for(request, model, descriptor, descriptor.features | {Feature.TOOLS})


def _body_for(request: Request, model: str, descriptor: Descriptor, features: frozenset[Feature]) -> bytes:
    return body_of(
        request,
        model=model,
        features=features,
        grammar_field=descriptor.grammar_field,
        prefill_fields=descriptor.prefill_fields,
    )


def _fitted_request(
    request: ConversationRequest, descriptor: Descriptor, family: ModelFamily
) -> tuple[ConversationRequest, ReadingOptions]:
    """Return what a model that is not read by its engine is asked, and how it is read."""
    reads_calls = Feature.TOOLS not in descriptor.features
    tools = _offered_tools(request) if reads_calls else ()
    stops = request.limits.stops if reads_calls else ()
    fitted_request = request
    if reads_calls:
        limits = msgspec.structs.replace(request.limits, stops=())
        fitted_request = msgspec.structs.replace(request, limits=limits, tools=tools)
    fitted_request, must_be = _with_format(fitted_request, tools, descriptor)
    if reads_calls:
        fitted_request = _with_tool_turns(fitted_request, family)
    is_held = must_be.shape is not ResponseShape.TEXT
    reading_options = ReadingOptions(
        family=_CONSTRAINED if is_held else _readable_family(family),
        tools=tools,
        reads_thoughts=Feature.REASONING not in descriptor.features,
        is_open=_is_open(family, request.thinking),
        one_at_a_time=request.tool_choice.one_at_a_time,
        must_call=bool(tools) and request.tool_choice.is_required,
        stops=stops,
    )
    return fitted_request, reading_options


def _offered_tools(request: ConversationRequest) -> tuple[ToolDefinition, ...]:
    """Return the tools that may be called."""
    choice = request.tool_choice
    return () if choice.choose is ToolMode.NONE else callable_tools(request.tools, choice)


def _with_format(
    request: ConversationRequest, tools: tuple[ToolDefinition, ...], descriptor: Descriptor
) -> tuple[ConversationRequest, ResponseFormat]:
    """Return the request with the format its answer is held to; in a format there is no room for reasoning."""
    response_format = request.response_format
    if tools and request.tool_choice.is_required:
        is_held = fulfilment_of(RequestNeed.TOOL_CHOICE, descriptor.features) is Fulfilment.CONSTRAINED
        response_format = must_call(tools) if is_held else ResponseFormat()
    elif tools and response_format.shape is not ResponseShape.TEXT:
        response_format = may_call(tools, response_format)
    if response_format.shape is ResponseShape.TEXT:
        return msgspec.structs.replace(request, response_format=response_format), response_format
    return msgspec.structs.replace(
        request, response_format=response_format, thinking=ThinkingLevel.OFF
    ), response_format


def _with_tool_turns(request: ConversationRequest, family: ModelFamily) -> ConversationRequest:
    """Return the request with its tools told of, and insisted upon, where the template and the engine do not."""
    messages, tools, choice = request.messages, request.tools, request.tool_choice
    if not family.renders_tools:
        messages, tools = with_tool_prompt(messages, tools), ()
    if request.tools and choice.is_required:
        must = MUST_NAMED.format(name=choice.name) if choice.name else MUST
        messages = with_system(messages, must)
    automatic = msgspec.structs.replace(choice, choose=ToolMode.AUTO, name="", one_at_a_time=False)
    return msgspec.structs.replace(request, messages=messages, tools=tools, tool_choice=automatic)


def _readable_family(family: ModelFamily) -> ModelFamily:
    """Return the family with the tags that tools were told of with, where its own template tells of none."""
    if family.renders_tools or TAGGED in family.forms:
        return family
    return msgspec.structs.replace(family, forms=(TAGGED, *family.forms))


def _is_open(family: ModelFamily, level: ThinkingLevel) -> bool:
    if level is ThinkingLevel.DEFAULT:
        return family.opens
    return family.opens_when_on if level is not ThinkingLevel.OFF else family.opens and not family.can_switch


_DEFINITIONS = ("$defs", "definitions")
_ANY_OBJECT: Mapping[str, object] = {"type": "object"}


def must_call(tools: Sequence[ToolDefinition]) -> ResponseFormat:
    """Return the format of an answer that is one call of one of these."""
    return _call_format([], tools)


def may_call(tools: Sequence[ToolDefinition], otherwise: ResponseFormat) -> ResponseFormat:
    """Return the format of an answer that is a call of one of these, or else of the form that was asked for."""
    schema = decode_schema(otherwise.schema) if otherwise.shape is ResponseShape.SCHEMA else _ANY_OBJECT
    return _call_format([("", schema)], tools)


def _call_format(others: list[tuple[str, Mapping[str, object]]], tools: Sequence[ToolDefinition]) -> ResponseFormat:
    definitions: dict[str, object] = {}
    choices = [_hoist_definitions(schema, prefix, definitions) for prefix, schema in others]
    for at, tool in enumerate(tools):
        arguments = _hoist_definitions(decode_schema(tool.parameters) or _ANY_OBJECT, f"tool{at}.", definitions)
        choices.append(
            {
                "type": "object",
                "properties": {"name": {"const": tool.name}, "arguments": arguments},
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
        )
    schema: dict[str, object] = choices[0] if len(choices) == 1 else {"anyOf": choices}
    if definitions:
        schema = {**schema, "$defs": definitions}
    return ResponseFormat(shape=ResponseShape.SCHEMA, schema=msgspec.Raw(msgspec.json.encode(schema)), name="call")


def _hoist_definitions(schema: Mapping[str, object], prefix: str, definitions: dict[str, object]) -> dict[str, object]:
    """Return a schema whose definitions lie in the document around it: references are from the document's root."""
    for place in _DEFINITIONS:
        nested_schema = schema.get(place)
        for name, definition in nested_schema.items() if isinstance(nested_schema, Mapping) else ():
            definitions[prefix + name] = _rename_references(definition, prefix)
    kept_fields = {name: value for name, value in schema.items() if name not in {*_DEFINITIONS, "$schema"}}
    return {name: _rename_references(value, prefix) for name, value in kept_fields.items()}


def _rename_references(value: object, prefix: str) -> object:
    if isinstance(value, list):
        return [_rename_references(item, prefix) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {
        name: _rename_reference(item, prefix) if name == "$ref" else _rename_references(item, prefix)
        for name, item in value.items()
    }


def _rename_reference(value: object, prefix: str) -> object:
    for place in _DEFINITIONS:
        begins = f"#/{place}/"
        if isinstance(value, str) and value.startswith(begins):
            return f"#/$defs/{prefix}{value.removeprefix(begins)}"
    return value


_OFFER = (
    "You can call these tools. Their signatures are JSON:\n<tools>\n{tools}\n</tools>\n"
    "To call one, write a JSON object with its name and arguments between these tags, and nothing after it:\n"
    '<tool_call>\n{{"name": "<the tool\'s name>", "arguments": {{<its arguments>}}}}\n</tool_call>'
)
MUST = "Answer with a tool call now, and with nothing else."
MUST_NAMED = "Call the tool {name} now, and answer with nothing else."
CALL_AGAIN = "This call was not run. {faults} Call the tool again with arguments that are right."
NOT_RUN = "This call was not run, because another of the same answer was wrong. Call it again."
NOT_EMPTY = "The last answer was empty. Answer in words, or call a tool."
AGAIN = "The last answer held no tool call. Do not explain anything: write the call itself."


def with_tool_prompt(
    messages: Sequence[ConversationMessage], tools: Sequence[ToolDefinition]
) -> tuple[ConversationMessage, ...]:
    """Return a conversation that tells of the tools itself."""
    turns = [_plain_message(message) for message in messages]
    if not tools:
        return tuple(turns)
    signatures = "\n".join(_tool_signature(tool) for tool in tools)
    return with_system(turns, _OFFER.format(tools=signatures))


def with_system(messages: Sequence[ConversationMessage], text: str) -> tuple[ConversationMessage, ...]:
    """Return the conversation with one more thing said by the system, before it begins."""
    first = next((at for at, message in enumerate(messages) if message.role is not MessageRole.SYSTEM), len(messages))
    return (*messages[:first], ConversationMessage(MessageRole.SYSTEM, (Text(text),)), *messages[first:])


def _tool_signature(tool: ToolDefinition) -> str:
    parameters = tool.parameters if tool.parameters is not None else msgspec.Raw(b"{}")
    fields = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return msgspec.json.encode(fields).decode()


def _plain_message(message: ConversationMessage) -> ConversationMessage:
    has_results = any(isinstance(part, ToolResult) for part in message.parts)
    role = MessageRole.USER if has_results or message.role is MessageRole.TOOL else message.role
    return ConversationMessage(role, tuple(_plain_part(part) for part in message.parts))


def _plain_part(part: Part) -> Part:
    match part:
        case ToolCall(name=name, arguments=arguments):
            call = f'{{"name": {_quote_lines(name)}, "arguments": {arguments or "{}"}}}'
            return Text(f"\n<tool_call>\n{call}\n</tool_call>")
        case ToolResult(text=text, is_error=is_error):
            return Text(f"<tool_response>\n{'Error: ' if is_error else ''}{text}\n</tool_response>\n")
    return part


def _quote_lines(text: str) -> str:
    return msgspec.json.encode(text).decode()
