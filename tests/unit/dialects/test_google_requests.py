"""Google's requests -> the canonical form, in both cases of its fields, and what is refused."""

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BadRequest
from app.core.thinking import ThinkingLevel
from app.gateway.canonical.request import (
    ConversationRequest,
    Image,
    MessageRole,
    ResponseShape,
    Text,
    Thinking,
    ToolCall,
    ToolMode,
    ToolResult,
)
from app.gateway.dialects.google.requests import text_to_embed, to_canonical_request, to_counted_request
from app.gateway.dialects.google.schemas import schema_from
from app.gateway.dialects.google.wire import (
    CountTokensRequest,
    EmbedContentRequest,
    GenerateContentRequest,
    read_document,
)
from app.gateway.dialects.raw_fields import ABSENT

HELLO = [{"role": "user", "parts": [{"text": "Hi"}]}]
WEATHER = {"name": "weather", "parameters": {"type": "OBJECT", "properties": {"town": {"type": "STRING"}}}}


def read(**fields: object) -> ConversationRequest:
    document = json.dumps({"contents": HELLO, **fields}).encode()
    return to_canonical_request(read_document(document, GenerateContentRequest))


def schema_of(schema: object) -> dict[str, Any]:
    raw = schema_from(msgspec.Raw(msgspec.json.encode(schema)), ABSENT, field="parameters")
    assert raw is not None
    return msgspec.json.decode(raw, type=dict[str, Any])


def test_a_plain_question() -> None:
    (message,) = read().messages
    assert (message.role, message.parts) == (MessageRole.USER, (Text("Hi"),))


def test_a_turn_without_a_role_is_the_users() -> None:
    (message,) = read(contents=[{"parts": [{"text": "Hi"}]}]).messages
    assert message.role is MessageRole.USER


@pytest.mark.parametrize("field", ["systemInstruction", "system_instruction"])
def test_the_system_comes_first(field: str) -> None:
    first, second = read(**{field: {"parts": [{"text": "Be short."}, {"text": "Be kind."}]}}).messages
    assert (first.role, first.text) == (MessageRole.SYSTEM, "Be short.\nBe kind.")
    assert second.text == "Hi"


def test_fields_in_the_other_case_say_the_same() -> None:
    camel = {
        "generationConfig": {
            "maxOutputTokens": 7,
            "stopSequences": ["."],
            "topK": 3.0,
            "responseMimeType": "text/plain",
        },
        "tools": [{"functionDeclarations": [WEATHER]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["weather"]}},
    }
    snake = {
        "generation_config": {
            "max_output_tokens": 7,
            "stop_sequences": ["."],
            "top_k": 3.0,
            "response_mime_type": "text/plain",
        },
        "tools": [{"function_declarations": [WEATHER]}],
        "tool_config": {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["weather"]}},
    }
    assert read(**camel) == read(**snake)
    assert (read(**snake).limits.max_tokens, read(**snake).limits.stops, read(**snake).sampling.top_k) == (7, (".",), 3)


def test_a_functions_own_names_stay_as_they_are() -> None:
    turn = {"role": "model", "parts": [{"function_call": {"name": "f", "args": {"inline_data": {"mime_type": 1}}}}]}
    parameters = {"type": "OBJECT", "properties": {"mime_type": {"type": "STRING"}}}
    request = read(
        contents=[*HELLO, turn], tools=[{"function_declarations": [{"name": "f", "parameters": parameters}]}]
    )
    (call,) = request.messages[1].parts
    assert isinstance(call, ToolCall)
    assert json.loads(call.arguments) == {"inline_data": {"mime_type": 1}}
    assert b"mime_type" in bytes(request.tools[0].parameters or b"")


def test_a_call_without_an_id_is_answered_by_its_name() -> None:
    calls = {"role": "model", "parts": [{"functionCall": {"name": name}} for name in ("a", "b", "a")]}
    results = {
        "role": "function",
        "parts": [{"functionResponse": {"name": name, "response": {"result": name}}} for name in ("b", "a", "a")],
    }
    _, asked_for, answer_message = read(contents=[*HELLO, calls, results]).messages
    ids = [call.id for call in asked_for.parts if isinstance(call, ToolCall)]
    assert len(set(ids)) == 3
    assert answer_message.role is MessageRole.TOOL
    replies = [part for part in answer_message.parts if isinstance(part, ToolResult)]
    assert [(reply.call_id, reply.text) for reply in replies] == [(ids[1], "b"), (ids[0], "a"), (ids[2], "a")]


def test_ids_go_before_names_and_results_before_text() -> None:
    call = {"role": "model", "parts": [{"functionCall": {"id": "x9", "name": "f", "args": {"n": 1}}}]}
    answer = {
        "role": "user",
        "parts": [{"text": "Go on"}, {"functionResponse": {"id": "x9", "name": "f", "response": {"error": "no"}}}],
    }
    *_, result, rest = read(contents=[*HELLO, call, answer]).messages
    assert result.parts == (ToolResult(call_id="x9", text="no", name="f", is_error=True),)
    assert (rest.role, rest.text) == (MessageRole.USER, "Go on")


def test_a_result_of_several_fields_is_told_as_json() -> None:
    turn = {"parts": [{"functionResponse": {"name": "f", "response": {"a": 1, "b": [2]}}}]}
    (reply,) = read(contents=[turn]).messages[0].parts
    assert isinstance(reply, ToolResult)
    assert json.loads(reply.text) == {"a": 1, "b": [2]}


def test_pictures_texts_and_earlier_thoughts() -> None:
    text = base64.b64encode("é".encode()).decode()
    user = {
        "parts": [
            {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
            {"inlineData": {"mimeType": "text/plain", "data": text}},
        ]
    }
    model = {"role": "model", "parts": [{"text": "Hm", "thought": True}, {"text": "Yes"}]}
    first, second = read(contents=[user, model]).messages
    assert first.parts == (Image(media_type="image/png", data="AAAA"), Text("é"))
    assert second.parts == (Thinking("Hm"), Text("Yes"))


@pytest.mark.parametrize(
    ("config", "level"),
    [
        ({}, ThinkingLevel.DEFAULT),
        ({"thinkingBudget": -1}, ThinkingLevel.DEFAULT),
        ({"thinkingBudget": 0}, ThinkingLevel.OFF),
        ({"thinkingBudget": 4096}, ThinkingLevel.ON),
        ({"thinkingLevel": "low"}, ThinkingLevel.LOW),
        ({"thinkingLevel": "HIGH", "thinkingBudget": 0}, ThinkingLevel.HIGH),
    ],
)
def test_how_much_to_think(config: dict[str, object], level: ThinkingLevel) -> None:
    assert read(generationConfig={"thinkingConfig": config}).thinking is level


def test_a_json_answer() -> None:
    assert read(generationConfig={"responseMimeType": "application/json"}).response_format.shape is ResponseShape.JSON
    config = {"responseMimeType": "application/json", "responseSchema": {"type": "ARRAY", "items": {"type": "STRING"}}}
    response_format = read(generationConfig=config).response_format
    assert response_format.shape is ResponseShape.SCHEMA
    assert json.loads(bytes(response_format.schema or b"")) == {"type": "array", "items": {"type": "string"}}


def test_only_allowed_functions_are_offered() -> None:
    tools = [{"functionDeclarations": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}]
    config = {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["a", "c"]}}
    request = read(tools=tools, toolConfig=config)
    assert [tool.name for tool in request.tools] == ["a", "c"]
    assert (request.tool_choice.choose, request.tool_choice.name) == (ToolMode.REQUIRED, "")


def test_a_schema_in_googles_form() -> None:
    schema = {
        "type": "OBJECT",
        "description": "d",
        "nullable": True,
        "propertyOrdering": ["b"],
        "required": ["b"],
        "minProperties": "1",
        "properties": {
            "type": {"type": "STRING", "enum": ["x"], "format": "enum", "nullable": True},
            "b": {"any_of": [{"type": "INTEGER", "format": "int32"}, {"type": "TYPE_UNSPECIFIED"}]},
            "c": {"type": "ARRAY", "items": {"type": "NUMBER", "minimum": 0}, "max_items": "3"},
        },
    }
    assert schema_of(schema) == {
        "type": ["object", "null"],
        "description": "d",
        "required": ["b"],
        "minProperties": 1,
        "properties": {
            "type": {"type": ["string", "null"], "enum": ["x", None]},
            "b": {"anyOf": [{"type": "integer", "format": "int32"}, {}]},
            "c": {"type": "array", "items": {"type": "number", "minimum": 0}, "maxItems": 3},
        },
    }


@given(
    st.recursive(
        st.sampled_from(["STRING", "INTEGER", "BOOLEAN", "NUMBER"]).map(lambda kind: {"type": kind}),
        lambda inner: (
            st.dictionaries(st.text(max_size=8), inner, max_size=3).map(
                lambda properties: {"type": "OBJECT", "properties": properties}
            )
            | inner.map(lambda items: {"type": "ARRAY", "items": items})
        ),
        max_leaves=8,
    )
)
def test_types_are_the_same_words_in_small_letters_at_every_depth(schema: dict[str, object]) -> None:
    lower_schema = json.loads(json.dumps(schema))

    def lower(part: dict[str, Any]) -> None:
        part["type"] = part["type"].lower()
        for inner in [*part.get("properties", {}).values(), *([part["items"]] if "items" in part else [])]:
            lower(inner)

    lower(lower_schema)
    assert schema_of(schema) == lower_schema


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"contents": []}, "contents"),
        ({"contents": [{"role": "wizard", "parts": []}]}, "wizard"),
        ({"contents": [{"parts": [{}]}]}, "contents[0].parts[0]"),
        ({"contents": [{"parts": [{"fileData": {"fileUri": "gs://x"}}]}]}, "fileData"),
        ({"contents": [{"parts": [{"inlineData": {"mimeType": "application/pdf", "data": ""}}]}]}, "application/pdf"),
        ({"contents": [{"parts": [{"functionCall": {"name": "f", "args": [1]}}]}]}, "args"),
        ({"cachedContent": "cachedContents/1"}, "cachedContent"),
        ({"generationConfig": {"candidateCount": 2}}, "candidateCount"),
        ({"generationConfig": {"responseMimeType": "text/x.enum"}}, "text/x.enum"),
        ({"generationConfig": {"responseSchema": {"type": "STRING"}}}, "text/plain"),
        ({"generationConfig": {"thinkingConfig": {"thinkingLevel": "WILD"}}}, "WILD"),
        ({"tools": [{"googleSearch": {}}]}, "googleSearch"),
        ({"tools": [{"functionDeclarations": [{"name": "f", "parameters": {"type": "COW"}}]}]}, "COW"),
        ({"tools": [{"functionDeclarations": [{"name": "f", "parameters": 3}]}]}, "parameters"),
        ({"tools": [{"functionDeclarations": [{"name": "f", "parameters": {"minItems": "x"}}]}]}, "count"),
        ({"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}, "required"),
        ({"toolConfig": {"functionCallingConfig": {"mode": "SOME"}}}, "SOME"),
        ({"toolConfig": {"functionCallingConfig": {"allowedFunctionNames": ["g"]}}}, "'g'"),
        ({"systemInstruction": {"parts": [{"inlineData": {}}]}}, "systemInstruction"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_field(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        read(**fields)
    assert sentence in str(refusal.value)


def test_a_schema_that_is_too_deep_is_refused() -> None:
    schema: dict[str, Any] = {"type": "STRING"}
    for _ in range(100):
        schema = {"type": "ARRAY", "items": schema}
    with pytest.raises(BadRequest, match="nested"):
        schema_of(schema)


def test_what_is_counted_may_be_turns_or_a_whole_request() -> None:
    request = {"model": "models/x", "contents": HELLO, "systemInstruction": {"parts": []}}
    turns, whole = (
        read_document(json.dumps(document).encode(), CountTokensRequest)
        for document in ({"contents": HELLO}, {"generateContentRequest": request})
    )
    assert to_counted_request(turns) == to_counted_request(whole)


def test_texts_to_embed() -> None:
    document = {"content": {"parts": [{"text": "a"}, {"text": "b"}]}, "outputDimensionality": 2}
    request = read_document(json.dumps(document).encode(), EmbedContentRequest)
    assert (text_to_embed(request), request.dimensions) == ("a\nb", 2)
    with pytest.raises(BadRequest, match="content"):
        text_to_embed(EmbedContentRequest())
