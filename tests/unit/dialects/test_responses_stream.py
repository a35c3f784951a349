"""What is told of an answer in the Responses API: recorded pairs, and what holds for every stream there can be."""

import itertools
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response as TheirResponse

from app.core.errors import ErrorBody
from app.gateway.canonical.events import (
    AnswerFailed,
    AnswerFinished,
    AnswerStarted,
    Event,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    TokenAlternative,
    TokenLogprob,
    TokenUsage,
    ToolCallDelta,
)
from app.gateway.dialects.responses.requests import ResponsesRequest
from app.gateway.dialects.responses.stream import STOPPED, ResponseEncoder, ResponseStyle
from app.gateway.dialects.responses.tools import ToolOffer, offer_of
from app.gateway.dialects.responses.wire import ResponseInfo, begin_response
from app.gateway.exchange.observer import RequestStopped

OFFER = offer_of(
    [
        msgspec.Raw(msgspec.json.encode(tool))
        for tool in (
            {"type": "function", "name": "look", "parameters": {"type": "object"}},
            {"type": "custom", "name": "patch"},
            {"type": "namespace", "name": "mcp__files", "tools": [{"type": "function", "name": "read"}]},
            {"type": "local_shell"},
        )
    ]
)
END = AnswerFinished(reason=FinishReason.STOP, usage=TokenUsage(prompt=30, cached=20, completion=9))
BROKEN = AnswerFailed(error=ErrorBody(code="crashed", sentence="The engine crashed.", hint="Try again."), status=502)


def encoder(manner: ResponseStyle | None = None, **fields: object) -> ResponseEncoder:
    numbers = itertools.count(1)
    about = ResponseInfo(id="resp_1", model="guide", at=1.7e9, is_stored=True)
    data = msgspec.json.encode({"model": "m", "input": "Hi", **fields})
    response = begin_response(msgspec.json.decode(data, type=ResponsesRequest), ToolOffer(), about)
    return ResponseEncoder(
        response, manner or ResponseStyle(offer=OFFER), lambda kind: f"{kind}_{next(numbers)}", clock=lambda: 1.7e9 + 5
    )


def events_of(stream: bytes) -> list[dict[str, Any]]:
    events = []
    for block in stream.decode().split("\n\n")[:-1]:
        match = re.fullmatch(r"event: ([a-z_.]+)\ndata: (.+)", block)
        assert match is not None, block
        data = json.loads(match[2])
        assert data["type"] == match[1]
        events.append(data)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


def events_from(events: Iterable[Event], response_encoder: ResponseEncoder | None = None) -> list[dict[str, Any]]:
    response_encoder = response_encoder or encoder()
    return events_of(b"".join(map(response_encoder.take_event, events)))


def brief(events: Sequence[dict[str, Any]]) -> list[str]:
    """Return kinds, deltas and places, without what surrounds them."""
    return [
        " ".join(
            str(part)
            for part in (
                event["type"].removeprefix("response."),
                event.get("output_index"),
                event.get("delta", event.get("text", event.get("arguments", event.get("input")))),
            )
            if part is not None
        )
        for event in events
    ]


def output_of(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    output: list[dict[str, Any]] = events[-1]["response"]["output"]
    return output


def call(index: int, name: str, *arguments: str) -> list[Event]:
    first, *rest = arguments
    more = [ToolCallDelta(index=index, arguments=piece) for piece in rest]
    return [ToolCallDelta(index=index, id=f"call_{index}", name=name, arguments=first), *more]


def thought_and_called() -> list[dict[str, Any]]:
    """Tell an answer with reasoning, text and two calls."""
    answer: list[Event] = [ReasoningDelta("They "), ReasoningDelta("ask."), TextDelta("Let me "), TextDelta("look.")]
    calls = [*call(0, "look", '{"at":', "1}"), *call(1, "look", "{}")]
    return events_from([AnswerStarted(), *answer, *calls, msgspec.structs.replace(END, reason=FinishReason.TOOL_CALLS)])


def test_reasoning_text_and_calls_are_items_of_their_own() -> None:
    assert brief(thought_and_called()) == [
        "created",
        "in_progress",
        "output_item.added 0",
        "content_part.added 0",
        "reasoning_text.delta 0 They ",
        "reasoning_text.delta 0 ask.",
        "reasoning_text.done 0 They ask.",
        "content_part.done 0",
        "output_item.done 0",
        "output_item.added 1",
        "content_part.added 1",
        "output_text.delta 1 Let me ",
        "output_text.delta 1 look.",
        "output_text.done 1 Let me look.",
        "content_part.done 1",
        "output_item.done 1",
        "output_item.added 2",
        'function_call_arguments.delta 2 {"at":',
        "function_call_arguments.delta 2 1}",
        'function_call_arguments.done 2 {"at":1}',
        "output_item.done 2",
        "output_item.added 3",
        "function_call_arguments.delta 3 {}",
        "function_call_arguments.done 3 {}",
        "output_item.done 3",
        "completed",
    ]


def test_every_event_says_which_item_it_is_about() -> None:
    events = thought_and_called()
    assert events[4] == {
        "type": "response.reasoning_text.delta",
        "item_id": "rs_1",
        "output_index": 0,
        "content_index": 0,
        "delta": "They ",
        "sequence_number": 4,
    }
    assert events[11] == {
        "type": "response.output_text.delta",
        "item_id": "msg_2",
        "output_index": 1,
        "content_index": 0,
        "logprobs": [],
        "delta": "Let me ",
        "sequence_number": 11,
    }
    assert events[-1]["response"]["usage"] == {
        "input_tokens": 30,
        "input_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 0},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 39,
    }
    assert output_of(events)[2] == {
        "type": "function_call",
        "id": "fc_3",
        "call_id": "call_0",
        "name": "look",
        "arguments": '{"at":1}',
        "status": "completed",
    }


def test_the_response_object_has_every_key_and_is_what_openai_reads() -> None:
    events = events_from([TextDelta("Hi"), END], encoder(instructions="Be brief.", metadata={"a": "b"}, temperature=0))
    response = events[-1]["response"]
    theirs = TheirResponse.model_validate(response, strict=True)
    assert theirs.output_text == "Hi"
    assert (response["status"], response["created_at"], response["completed_at"]) == (
        "completed",
        1700000000,
        1700000005,
    )
    assert (response["instructions"], response["metadata"], response["temperature"]) == ("Be brief.", {"a": "b"}, 0)
    empty = {"error", "incomplete_details", "max_output_tokens", "max_tool_calls", "previous_response_id"}
    assert all(response[key] is None for key in empty)
    assert (response["text"], response["truncation"]) == (
        {"format": {"type": "text"}, "verbosity": "medium"},
        "disabled",
    )
    assert events[0]["response"]["usage"] is None
    assert "roundhouse" not in response


def test_a_schema_is_told_with_every_key() -> None:
    text_format = {"type": "json_schema", "name": "shape", "schema": {"type": "object"}}
    response = events_from([END], encoder(text={"format": text_format, "verbosity": "low"}))[-1]["response"]
    assert response["text"] == {"format": {**text_format, "description": None, "strict": True}, "verbosity": "low"}


def test_reasoning_is_told_as_a_summary_and_sealed_where_that_is_wanted() -> None:
    events = events_from(
        [ReasoningDelta("Hm."), TextDelta("Hi"), END], encoder(ResponseStyle(is_summary=True, is_sealed=True))
    )
    assert brief(events)[2:8] == [
        "output_item.added 0",
        "reasoning_summary_part.added 0",
        "reasoning_summary_text.delta 0 Hm.",
        "reasoning_summary_text.done 0 Hm.",
        "reasoning_summary_part.done 0",
        "output_item.done 0",
    ]
    assert "encrypted_content" not in output_of(events_from([ReasoningDelta("Hm."), END]))[0]
    assert output_of(events)[0] == {
        "type": "reasoning",
        "id": "rs_1",
        "status": "completed",
        "summary": [{"type": "summary_text", "text": "Hm."}],
        "content": [],
        "encrypted_content": "roundhouse-reasoning:Hm.",
    }


def test_a_custom_call_is_the_text_it_is_given() -> None:
    events = events_from([*call(0, "patch", '{"inp', 'ut":"*** Begin\\n"}'), END])
    assert brief(events)[2:6] == [
        "output_item.added 0",
        "custom_tool_call_input.delta 0 *** Begin\n",
        "custom_tool_call_input.done 0 *** Begin\n",
        "output_item.done 0",
    ]
    assert output_of(events) == [
        {
            "type": "custom_tool_call",
            "id": "ctc_1",
            "call_id": "call_0",
            "name": "patch",
            "input": "*** Begin\n",
            "status": "completed",
        }
    ]
    assert output_of(events_from([*call(0, "patch", "no json"), END]))[0]["input"] == "no json"


def test_a_shell_call_is_a_command_and_anything_else_a_function_call() -> None:
    events = events_from([*call(0, "local_shell", '{"command":', '["ls"]}'), END])
    assert brief(events)[2:4] == ["output_item.added 0", "output_item.done 0"]
    assert output_of(events)[0]["action"] == {
        "type": "exec",
        "command": ["ls"],
        "env": {},
        "timeout_ms": None,
        "user": None,
        "working_directory": None,
    }
    wrong = events_from([*call(0, "local_shell", '{"command":1}'), END])
    assert brief(wrong)[2:6] == [
        "output_item.added 0",
        'function_call_arguments.delta 0 {"command":1}',
        'function_call_arguments.done 0 {"command":1}',
        "output_item.done 0",
    ]


def test_a_call_of_a_namespaces_function_says_so() -> None:
    (item,) = output_of(events_from([*call(0, "mcp__files.read", "{}"), END]))
    assert (item["name"], item["namespace"]) == ("read", "mcp__files")


def test_a_call_without_arguments_has_none() -> None:
    events = events_from([*call(0, "look", ""), END])
    assert brief(events)[3:5] == ["function_call_arguments.delta 0 {}", "function_call_arguments.done 0 {}"]
    assert output_of(events)[0]["arguments"] == "{}"


def test_a_call_waits_for_its_name_and_is_given_an_id() -> None:
    pieces = [ToolCallDelta(index=0, arguments="{"), ToolCallDelta(index=0, name="patch", arguments="}")]
    (item,) = output_of(events_from([*pieces, END]))
    assert (item["type"], item["call_id"], item["input"]) == ("custom_tool_call", "call_2", "{}")
    assert output_of(events_from([ToolCallDelta(index=0, arguments="{}"), END]))[0]["name"] == ""


def test_one_call_at_most_where_that_is_wanted() -> None:
    events = events_from([*call(0, "look", "{}"), *call(1, "look", "{}"), END], encoder(ResponseStyle(one_call=True)))
    assert len(output_of(events)) == 1


@pytest.mark.parametrize(
    ("reason", "told_reason"),
    [(FinishReason.LENGTH, "max_output_tokens"), (FinishReason.CONTENT_FILTER, "content_filter")],
)
def test_an_answer_cut_short_is_incomplete(reason: FinishReason, told_reason: str) -> None:
    events = events_from([TextDelta("Ha"), *call(0, "look", '{"a'), msgspec.structs.replace(END, reason=reason)])
    assert events[-1]["type"] == "response.incomplete"
    response = events[-1]["response"]
    assert (response["status"], response["completed_at"]) == ("incomplete", None)
    assert response["incomplete_details"] == {"reason": told_reason}
    assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]


def test_nothing_said_is_an_empty_message_unless_it_was_cut() -> None:
    (item,) = output_of(events_from([AnswerStarted(), END]))
    assert item["content"] == [{"type": "output_text", "text": "", "annotations": [], "logprobs": []}]
    assert output_of(events_from([msgspec.structs.replace(END, reason=FinishReason.LENGTH)])) == []


def test_when_it_breaks_off_no_call_is_said_to_be_done() -> None:
    events = events_from([*call(0, "look", '{"a":1}'), BROKEN])
    assert "output_item.done 0" not in brief(events)
    response = events[-1]["response"]
    assert (events[-1]["type"], response["status"]) == ("response.failed", "failed")
    assert response["error"] == {"code": "server_error", "message": "The engine crashed. Try again."}
    assert response["output"][0]["status"] == "incomplete"


def test_codes_of_the_callers_mistakes_are_kept() -> None:
    mistake = AnswerFailed(error=ErrorBody(code="context_length_exceeded", sentence="Too long."), status=400)
    assert events_from([mistake])[-1]["response"]["error"]["code"] == "context_length_exceeded"


def test_an_answer_stopped_by_hand_is_cancelled() -> None:
    assert RequestStopped.default_code == STOPPED
    stopped_answer = AnswerFailed(error=RequestStopped().body, status=499)
    response = events_from([TextDelta("Ha"), stopped_answer])[-1]["response"]
    assert (response["status"], response["error"]["code"]) == ("cancelled", STOPPED)


def test_a_response_nobody_encodes_any_more_is_cancelled() -> None:
    response_encoder = encoder()
    response_encoder.take_event(TextDelta("Ha"))
    assert response_encoder.response.status == "in_progress"
    assert len(response_encoder.response.output) == 1
    response_encoder.cancel_response()
    assert (
        response_encoder.response.status,
        len(response_encoder.response.output),
        response_encoder.take_event(END),
    ) == ("cancelled", 1, b"")


def test_odds_of_tokens_come_with_their_text() -> None:
    odds = TokenLogprob(
        token="Hi", logprob=-0.5, top_logprobs=(TokenAlternative(token="Yo", logprob=-1.0, bytes=(89, 111)),)
    )
    events = events_from([TextDelta("Hi", (odds,)), END])
    logprob = {
        "token": "Hi",
        "logprob": -0.5,
        "bytes": [72, 105],
        "top_logprobs": [{"token": "Yo", "logprob": -1.0, "bytes": [89, 111]}],
    }
    assert events[4]["logprobs"] == [logprob]
    assert events[5]["logprobs"] == [logprob]
    assert output_of(events)[0]["content"][0]["logprobs"] == [logprob]


def test_what_was_left_out_is_told() -> None:
    response_encoder = encoder(truncation="auto")
    response_encoder.note_dropped(3)
    assert events_from([END], response_encoder)[-1]["response"]["roundhouse"] == {"dropped_messages": 3}


DELTAS = st.one_of(
    st.builds(TextDelta, st.text(max_size=5)),
    st.builds(ReasoningDelta, st.text(max_size=5)),
    st.builds(
        ToolCallDelta,
        index=st.integers(0, 2),
        id=st.sampled_from(["", "call_x"]),
        name=st.sampled_from(["", "look", "patch", "local_shell", "mcp__files.read", "unknown"]),
        arguments=st.sampled_from(["", "{", "}", "{}", '{"input":"x"}', '{"command":["ls"]}', "1"]),
    ),
)
ENDS = st.one_of(st.builds(AnswerFinished, reason=st.sampled_from(FinishReason)), st.just(BROKEN))
STREAMS = st.tuples(st.lists(st.just(AnswerStarted()), max_size=1), st.lists(DELTAS, max_size=15), ENDS).map(
    lambda parts: [*parts[0], *parts[1], parts[2]]
)
MANNERS = st.builds(
    ResponseStyle, offer=st.just(OFFER), is_summary=st.booleans(), is_sealed=st.booleans(), one_call=st.booleans()
)


@given(events=STREAMS, manner=MANNERS)
def test_whatever_comes_is_a_stream_in_order_that_comes_to_its_response(
    events: list[Event], manner: ResponseStyle
) -> None:
    response_encoder = encoder(manner)
    stream = events_from([*events, *events], response_encoder)
    assert [event["type"] for event in stream[:2]] == ["response.created", "response.in_progress"]
    final = stream[-1]["response"]
    assert stream[-1]["type"] == f"response.{final['status']}"
    assert final == json.loads(msgspec.json.encode(response_encoder.response))
    TheirResponse.model_validate(final)
    folded_response = client_fold(stream)
    if final["status"] == "failed":
        assert len([item for item in folded_response if item is not None]) <= len(final["output"])
    else:
        assert folded_response == final["output"]


def client_fold(stream: Sequence[dict[str, Any]]) -> list[Any]:
    """Put the items together as a client does, and see that each opens, grows and ends in order."""
    items: dict[int, dict[str, Any]] = {}
    grown_indexes: dict[int, str] = {}
    done_items: dict[int, Any] = {}
    for event in stream[2:-1]:
        at, kind = event["output_index"], event["type"].removeprefix("response.")
        assert at not in done_items
        if kind == "output_item.added":
            assert event["item"]["status"] == "in_progress"
            items[at], grown_indexes[at] = event["item"], ""
        elif kind == "output_item.done":
            assert event["item"]["id"] == items[at]["id"]
            done_items[at] = event["item"]
        else:
            assert event["item_id"] == items[at]["id"]
            grown_indexes[at] += event.get("delta", "")
            for field in ("text", "arguments", "input"):
                assert event.get(field, grown_indexes[at]) == grown_indexes[at]
    assert sorted(items) == list(range(len(items)))
    return [done_items.get(at) for at in sorted(items)]
