"""Requests of the Responses API: recorded pairs, what is offered as tools, what is refused, and what is left out."""

import base64
import itertools
import math
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BadRequest
from app.core.thinking import ThinkingLevel
from app.gateway.canonical.events import ContextOverflow
from app.gateway.canonical.request import (
    ConversationMessage,
    ConversationRequest,
    GenerationLimits,
    Image,
    MessageRole,
    ResponseShape,
    SamplingParams,
    Text,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolDefinition,
    ToolMode,
    ToolResult,
)
from app.gateway.canonical.truncation import truncate_request
from app.gateway.dialects.raw_fields import decode_query
from app.gateway.dialects.responses.input_items import (
    ResponseItem,
    item_from_store,
    items_of,
    kinds_not_read,
    reference_ids,
    resolve_references,
    to_keep,
    to_turns,
)
from app.gateway.dialects.responses.requests import ResponsesRequest, check_request, to_canonical_request
from app.gateway.dialects.responses.stored import ResponsePageQuery, item_page
from app.gateway.dialects.responses.tools import ClientToolKind, ResponseTool, ToolOffer, offer_of
from app.gateway.entry.bodies import decode_body
from app.gateway.exchange.engine.error_document import error_from_refusal

PICTURE = "data:image/png;base64," + base64.b64encode(b"\x89PNG").decode()
LOOK = {"type": "function", "name": "look", "description": "Look.", "parameters": {"type": "object"}, "strict": False}


def raws(values: list[object]) -> list[msgspec.Raw]:
    return [msgspec.Raw(msgspec.json.encode(value)) for value in values]


def items(request_input: object) -> list[ResponseItem]:
    return items_of(request_input if isinstance(request_input, str) else raws(list(request_input)))  # type: ignore[call-overload]


def kept_as(request_input: object) -> list[ResponseItem]:
    numbers = itertools.count(1)
    return [to_keep(item, lambda kind: f"{kind}_{next(numbers)}") for item in items(request_input)]


def turns(*entries: object) -> list[ConversationMessage]:
    return to_turns(items(entries))


def make_request(**fields: object) -> ResponsesRequest:
    return decode_body(msgspec.json.encode({"model": "m", "input": "Hi", **fields}), ResponsesRequest)


def work(**fields: object) -> ConversationRequest:
    wish = make_request(**fields)
    check_request(wish)
    offer = offer_of(wish.tools or [], wish.tool_choice, one_at_a_time=wish.is_one_at_a_time)
    return to_canonical_request(wish, to_turns(items(wish.input or [])), offer)


def test_a_plain_question() -> None:
    assert work() == ConversationRequest(messages=(ConversationMessage(MessageRole.USER, (Text("Hi"),)),))
    assert work(input="").messages == (ConversationMessage(MessageRole.USER, (Text(""),)),)
    assert work(input=[]).messages == (ConversationMessage(MessageRole.USER, (Text(""),)),)


def test_everything_that_can_be_asked_for() -> None:
    schema = {"type": "object"}
    full_work = work(
        instructions="Be brief.",
        max_output_tokens=7,
        temperature=0,
        top_p=0.5,
        presence_penalty=1,
        frequency_penalty=-1,
        top_logprobs=3,
        reasoning={"effort": "xhigh"},
        text={"format": {"type": "json_schema", "name": "shape", "schema": schema}, "verbosity": "low"},
        tools=[LOOK],
        parallel_tool_calls=False,
    )
    assert [turn.role for turn in full_work.messages] == [MessageRole.SYSTEM, MessageRole.USER]
    assert full_work.sampling == SamplingParams(temperature=0, top_p=0.5, presence_penalty=1, frequency_penalty=-1)
    assert full_work.limits == GenerationLimits(max_tokens=7, logprobs=3)
    assert full_work.thinking is ThinkingLevel.MAX
    shape = full_work.response_format
    assert (shape.shape, shape.name, bytes(shape.schema or b"")) == (
        ResponseShape.SCHEMA,
        "shape",
        b'{"type":"object"}',
    )
    assert full_work.tools == (
        ToolDefinition(name="look", description="Look.", parameters=msgspec.Raw(b'{"type":"object"}'), strict=False),
    )
    assert full_work.tool_choice == ToolChoice(one_at_a_time=True)
    assert work(text={"format": {"type": "json_object"}}).response_format.shape is ResponseShape.JSON
    assert work(reasoning={"effort": "none"}).thinking is ThinkingLevel.OFF
    assert work(reasoning={"effort": None, "summary": "auto"}).thinking is ThinkingLevel.DEFAULT
    assert work(include=["message.output_text.logprobs"]).limits.logprobs == 0


def test_a_request_as_codex_sends_it() -> None:
    """After what Codex 0.169 was seen to send: developer turns, a namespace, a web search, fields of its own."""
    wish = make_request(
        model="guide",
        stream=True,
        input=[
            {
                "type": "message",
                "id": "msg_a",
                "role": "developer",
                "content": [{"type": "input_text", "text": "Code."}],
            },
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context/>"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Say hi"}]},
            {"type": "reasoning", "summary": [], "encrypted_content": "roundhouse-reasoning:Hm."},
            {"type": "function_call", "call_id": "c1", "name": "close_agent", "namespace": "agents", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "ok"},
            {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "x"}},
        ],
        tools=[
            LOOK,
            {"type": "namespace", "name": "agents", "description": "d", "tools": [{**LOOK, "name": "close_agent"}]},
            {"type": "web_search", "external_web_access": False},
        ],
        tool_choice="auto",
        parallel_tool_calls=True,
        reasoning={"summary": "auto"},
        store=False,
        include=["reasoning.encrypted_content"],
        prompt_cache_key="01a",
        client_metadata={"originator": "codex"},
    )
    check_request(wish)
    assert (wish.wants_summary, wish.wants_encrypted) == (True, True)
    offer = offer_of(wish.tools or [], wish.tool_choice)
    assert [tool.name for tool in offer.tools] == ["look", "agents.close_agent"]
    assert (offer.left_out, len(offer.reply_tools)) == (("web_search",), 2)
    assert offer.find_tool("agents.close_agent") == ResponseTool(
        kind=ClientToolKind.FUNCTION, name="close_agent", namespace="agents"
    )
    input_items = items(wish.input)
    assert kinds_not_read(input_items) == ["web_search_call"]
    assert to_turns(input_items) == [
        ConversationMessage(MessageRole.SYSTEM, (Text("Code."),)),
        ConversationMessage(MessageRole.USER, (Text("<environment_context/>"), Text("\n\n"), Text("Say hi"))),
        ConversationMessage(
            MessageRole.ASSISTANT, (Thinking("Hm."), ToolCall(id="c1", name="agents.close_agent", arguments="{}"))
        ),
        ConversationMessage(MessageRole.TOOL, (ToolResult(call_id="c1", text="ok", name="agents.close_agent"),)),
    ]


def test_several_items_of_the_assistant_are_one_turn() -> None:
    conversation = turns(
        {"role": "user", "content": "Hi"},
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "S"}], "content": [
            {"type": "reasoning_text", "text": "Hm."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A"}]},
        {"role": "assistant", "content": "B"},
        {"type": "function_call", "call_id": "1", "name": "look", "arguments": '{"a":1}'},
        {"type": "custom_tool_call", "call_id": "2", "name": "patch", "input": "x"},
        {"type": "local_shell_call", "id": "lsh", "call_id": "3", "action": {
            "type": "exec", "command": ["ls"], "env": {}}},
        {"type": "function_call_output", "call_id": "1", "output": [
            {"type": "input_text", "text": "seen"}, {"type": "input_image", "image_url": PICTURE}]},
        {"type": "custom_tool_call_output", "call_id": "2", "output": "done"},
        {"type": "local_shell_call_output", "id": "lsh", "output": "a.txt"},
    )  # fmt: skip
    calls = (
        ToolCall(id="1", name="look", arguments='{"a":1}'),
        ToolCall(id="2", name="patch", arguments='{"input":"x"}'),
        ToolCall(id="3", name="local_shell", arguments='{"command":["ls"],"env":{}}'),
    )
    results = (
        ToolResult(call_id="1", text="seen", name="look"),
        ToolResult(call_id="2", text="done", name="patch"),
        ToolResult(call_id="3", text="a.txt", name="local_shell"),
    )
    assert conversation == [
        ConversationMessage(MessageRole.USER, (Text("Hi"),)),
        ConversationMessage(MessageRole.ASSISTANT, (Thinking("Hm."), Text("A"), Text("\n\n"), Text("B"), *calls)),
        ConversationMessage(MessageRole.TOOL, results),
        ConversationMessage(MessageRole.USER, (Image(media_type="image/png", data="iVBORw=="),)),
    ]


def test_reasoning_another_program_sealed_is_not_read() -> None:
    sealed_item = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "gAAAAB"}
    assert turns({"role": "user", "content": "Hi"}, sealed_item) == [
        ConversationMessage(MessageRole.USER, (Text("Hi"),))
    ]


def test_arguments_that_are_no_object_become_one() -> None:
    (conversation_turn,) = turns({"type": "function_call", "call_id": "1", "name": "look", "arguments": '{"a":'})
    assert conversation_turn.parts == (ToolCall(id="1", name="look", arguments='{"arguments":"{\\"a\\":"}'),)


def test_pictures_files_and_refusals_are_read() -> None:
    file = "data:text/plain;base64," + base64.b64encode(b"words").decode()
    content = [
        {"type": "input_image", "image_url": {"url": PICTURE}},
        {"type": "input_file", "file_data": file, "filename": "a.txt"},
        {"type": "refusal", "refusal": "No."},
        {"type": "something_new"},
    ]
    (conversation_turn,) = turns({"role": "user", "content": content})
    assert conversation_turn.parts == (Image(media_type="image/png", data="iVBORw=="), Text("words"), Text("No."))


def test_items_get_ids_and_whole_forms_to_be_kept_under() -> None:
    kept_items = kept_as(
        [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}, {"type": "odd", "id": "o1"}]
    )
    assert [item.id for item in kept_items] == ["msg_1", "msg_2", "o1"]
    assert msgspec.json.decode(kept_items[0].value) == {
        "role": "user",
        "content": [{"type": "input_text", "text": "Hi"}],
        "status": "completed",
        "type": "message",
        "id": "msg_1",
    }
    assert msgspec.json.decode(kept_items[1].value)["content"] == [
        {"type": "output_text", "text": "Yo", "annotations": []}
    ]
    assert kept_as("Hi") == kept_as([{"role": "user", "content": "Hi"}])
    again = [item_from_store(item.id, bytes(item.value).decode()) for item in kept_items]
    assert again == kept_items
    assert [msgspec.json.decode(to_keep(item, str).value) for item in again] == [
        msgspec.json.decode(item.value) for item in kept_items
    ]


def test_references_stand_for_what_is_kept() -> None:
    given_items = items(
        [{"type": "item_reference", "id": "msg_9"}, {"id": "rs_9"}, {"role": "user", "content": "And?"}]
    )
    assert reference_ids(given_items) == ["msg_9", "rs_9"]
    kept_items = {"msg_9": '{"type":"message","role":"assistant","content":"Yo"}', "rs_9": '{"type":"reasoning"}'}
    assert [turn.text for turn in to_turns(resolve_references(given_items, kept_items))] == ["Yo", "And?"]
    with pytest.raises(BadRequest) as unknown:
        resolve_references(given_items, {})
    assert unknown.value.code == "item_not_found"


CUSTOM = {"type": "custom", "name": "patch", "description": "Patch.", "format": {
    "type": "grammar", "syntax": "lark", "definition": "start: /x/"}}  # fmt: skip


def test_custom_tools_and_the_shell_are_offered_as_functions() -> None:
    offer = offer_of(raws([CUSTOM, {"type": "local_shell"}]))
    patch, shell = offer.tools
    assert patch.description == "Patch.\n\n`input` keeps to this lark grammar:\nstart: /x/"
    assert b'"required":["input"]' in bytes(patch.parameters or b"")
    assert (shell.name, offer.find_tool("local_shell").kind) == ("local_shell", ClientToolKind.LOCAL_SHELL)
    assert offer.find_tool("never").name == "never"


def test_functions_are_told_with_all_their_keys() -> None:
    (tool,) = offer_of(raws([{"type": "function", "name": "look"}])).reply_tools
    assert msgspec.json.decode(tool) == {
        "type": "function",
        "name": "look",
        "description": None,
        "parameters": None,
        "strict": None,
    }


@pytest.mark.parametrize(
    ("choice", "names", "choose"),
    [
        ("auto", ["look", "patch", "ns.read"], ToolMode.AUTO),
        (None, ["look", "patch", "ns.read"], ToolMode.AUTO),
        ("required", ["look", "patch", "ns.read"], ToolMode.REQUIRED),
        ("none", [], ToolMode.NONE),
        ({"type": "function", "name": "look"}, ["look"], ToolMode.REQUIRED),
        ({"type": "function", "name": "ns.read"}, ["ns.read"], ToolMode.REQUIRED),
        ({"type": "function", "name": "read", "namespace": "ns"}, ["ns.read"], ToolMode.REQUIRED),
        ({"type": "custom", "name": "patch"}, ["patch"], ToolMode.REQUIRED),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "look"}]},
            ["look"],
            ToolMode.REQUIRED,
        ),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp", "server_label": "x"}]}, [], ToolMode.AUTO),
    ],
)
def test_a_choice_of_tools_is_what_is_offered(choice: object, names: list[str], choose: ToolMode) -> None:
    namespace = {"type": "namespace", "name": "ns", "tools": [{"type": "function", "name": "read"}, {"type": "odd"}]}
    offer = offer_of(raws([LOOK, CUSTOM, namespace]), msgspec.Raw(msgspec.json.encode(choice)))
    assert [tool.name for tool in offer.tools] == names
    assert offer.choice == ToolChoice(choose=choose)
    assert len(offer.reply_tools) == 3


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"input": None}, "input_required", "`input`"),
        ({"input": 7}, "invalid_value", "input"),
        ({"input": ["x"]}, "invalid_value", r"input\[0\]"),
        ({"input": [{"type": 7}]}, "invalid_value", "type"),
        ({"input": [{"role": "robot", "content": "x"}]}, "invalid_value", "role"),
        ({"input": [{"type": "function_call", "name": "x"}]}, "invalid_value", r"input\[0\].*call_id"),
        ({"input": [{"role": "user", "content": [{"text": "x"}]}]}, "invalid_value", "type"),
        ({"input": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "unsupported_content", "wav or mp3"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://a.example/b.png"}]}]},
            "invalid_value",
            "not downloaded",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]}]},
            "invalid_value",
            "image_url",
        ),
        (
            {
                "input": [
                    {
                        "role": "user",
                        "content": [{"type": "input_file", "file_data": "data:application/pdf;base64,/w=="}],
                    }
                ]
            },
            "unsupported_content",
            "application/pdf",
        ),
        ({"background": True}, "unsupported_parameter", "background"),
        ({"conversation": "conv_1"}, "unsupported_parameter", "conversation"),
        ({"prompt": {"id": "pmpt_1"}}, "unsupported_parameter", "prompt"),
        ({"moderation": {"model": "x"}}, "unsupported_parameter", "moderation"),
        ({"metadata": {"k" * 65: "v"}}, "invalid_value", "metadata"),
        ({"metadata": {str(at): "v" for at in range(17)}}, "invalid_value", "metadata"),
        ({"metadata": {"k": 1}}, "invalid_value", "metadata"),
        ({"max_output_tokens": 0}, "invalid_value", "max_output_tokens"),
        ({"temperature": 3}, "invalid_value", "temperature"),
        ({"top_p": -0.1}, "invalid_value", "top_p"),
        ({"top_logprobs": 21}, "invalid_value", "top_logprobs"),
        ({"truncation": "middle"}, "invalid_value", "truncation"),
        ({"reasoning": {"effort": "heroic"}}, "invalid_value", "xhigh"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "invalid_value", "schema"),
        ({"text": {"format": {"type": "xml"}}}, "invalid_value", "format"),
        ({"tools": [{"type": "function", "function": {"name": "look"}}]}, "invalid_tools", "flat"),
        ({"tools": [{"name": "look"}]}, "invalid_tools", r"tools\[0\]"),
        ({"tools": [{"type": "function", "name": "look", "parameters": []}]}, "invalid_tools", "schema"),
        ({"tools": [{"type": "custom"}]}, "invalid_tools", "name"),
        ({"tools": [{"type": "namespace", "tools": []}]}, "invalid_tools", "name"),
        ({"tools": [{"type": "web_search"}], "tool_choice": "required"}, "invalid_tools", "no tool"),
        ({"tools": [LOOK], "tool_choice": {"type": "function", "name": "jump"}}, "invalid_tools", "jump"),
        ({"tools": [LOOK], "tool_choice": {"type": "web_search"}}, "invalid_tools", "web_search"),
        ({"tools": [LOOK], "tool_choice": "maybe"}, "invalid_tools", "tool_choice"),
        ({"tools": [LOOK], "tool_choice": 7}, "invalid_tools", "tool_choice"),
    ],
)
def test_what_cannot_be_done_is_said(fields: dict[str, object], code: str, words: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        work(**fields)
    assert refusal.value.code == code
    assert re.search(words, f"{refusal.value} {refusal.value.hint}")


def test_how_long_a_model_is_kept_can_be_said_as_elsewhere() -> None:
    assert make_request(ttl=60).keep_s == 60
    assert make_request(keep_alive="5m").keep_s == 300
    assert make_request(keep_alive=-1).keep_s == math.inf
    assert make_request().keep_s is None
    assert (make_request(options={"num_ctx": 4096}).context, make_request().context) == (4096, None)
    with pytest.raises(BadRequest):
        _ = make_request(keep_alive="soon").keep_s


def test_input_is_listed_page_by_page() -> None:
    kept_items = kept_as([{"role": "user", "content": str(at)} for at in range(3)])

    def list_page(**query: str) -> tuple[list[Any], bool]:
        page = item_page(kept_items, decode_query(query, ResponsePageQuery))
        return [msgspec.json.decode(item)["id"] for item in page.data], page.has_more

    assert list_page() == (["msg_3", "msg_2", "msg_1"], False)
    assert list_page(limit="2", order="asc") == (["msg_1", "msg_2"], True)
    assert list_page(after="msg_2", order="asc") == (["msg_3"], False)
    for query in ({"limit": "0"}, {"limit": "x"}, {"order": "up"}, {"after": "msg_9"}):
        with pytest.raises(BadRequest):
            list_page(**query)


def test_an_overflow_knows_its_counts() -> None:
    error = error_from_refusal(
        b'{"error":{"code":400,"message":"x","type":"exceed_context_size_error","n_prompt_tokens":9,"n_ctx":8}}', 400
    )
    assert isinstance(error, ContextOverflow)
    assert (error.prompt_tokens, error.context, error.code) == (9, 8, "context_length_exceeded")


def turn(role: MessageRole, letters: int = 100) -> ConversationMessage:
    return ConversationMessage(role, (Text("x" * letters),))


def test_the_oldest_turns_go_first_and_the_systems_words_never() -> None:
    talk = [
        turn(MessageRole.SYSTEM),
        *[turn(role) for _ in range(4) for role in (MessageRole.USER, MessageRole.ASSISTANT)],
        turn(MessageRole.USER),
    ]
    trim = truncate_request(
        ConversationRequest(messages=tuple(talk), limits=GenerationLimits(max_tokens=10)), prompt_tokens=100, context=80
    )
    assert trim is not None
    assert (trim.request.messages, trim.dropped) == ((talk[0], *talk[5:]), 4)
    last = truncate_request(ConversationRequest(messages=tuple(talk)), prompt_tokens=10_000, context=10)
    assert last is not None
    assert last.request.messages == (talk[0], talk[-1])
    assert truncate_request(last.request, prompt_tokens=10_000, context=10) is None


def test_an_agents_oldest_calls_go_with_their_results() -> None:
    calls = [turn(role) for _ in range(3) for role in (MessageRole.ASSISTANT, MessageRole.TOOL)]
    talk = (turn(MessageRole.USER), *calls)
    trim = truncate_request(
        ConversationRequest(messages=talk, limits=GenerationLimits(max_tokens=1)), prompt_tokens=70, context=60
    )
    assert trim is not None
    assert trim.request.messages == (talk[0], *talk[3:])


@given(
    roles=st.lists(st.sampled_from([MessageRole.USER, MessageRole.ASSISTANT, MessageRole.TOOL]), max_size=12),
    prompt=st.integers(0, 5000),
    context=st.integers(1, 5000),
)
def test_trimming_always_comes_to_an_end_and_keeps_the_last_turn(
    roles: list[MessageRole], prompt: int, context: int
) -> None:
    request = ConversationRequest(messages=(turn(MessageRole.SYSTEM), *map(turn, roles)))
    for _ in range(20):
        trim = truncate_request(request, prompt_tokens=prompt, context=context)
        if trim is None:
            break
        assert 0 < trim.dropped == len(request.messages) - len(trim.request.messages)
        assert trim.request.messages[0].role is MessageRole.SYSTEM
        request = trim.request
    else:
        pytest.fail("it went on and on")
    if roles:
        assert request.messages[-1].role is roles[-1]
    assert ToolOffer().tools == ()
