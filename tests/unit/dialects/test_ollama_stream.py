"""Any events make a valid NDJSON stream, and reading that stream back gives the whole answer."""

import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import ErrorBody
from app.gateway.canonical.events import (
    BROKE_OFF,
    AnswerFailed,
    AnswerFinished,
    AnswerStarted,
    AnswerTimings,
    Event,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    TokenAlternative,
    TokenLogprob,
    TokenUsage,
    ToolCallDelta,
    aggregate_events,
)
from app.gateway.dialects.ollama.stream import (
    OllamaChatForm,
    OllamaGenerateForm,
    OllamaLineEncoder,
    OllamaReplyForm,
    build_reply,
)

WHEN = "2026-01-01T00:00:00.000000+00:00"
COUNTED = {
    "total_duration": 4_000_000_000,
    "load_duration": 1_000_000_000,
    "prompt_eval_count": 7,
    "prompt_eval_duration": 500_000_000,
    "eval_count": 3,
    "eval_duration": 2_500_000_000,
}
END = AnswerFinished(
    usage=TokenUsage(prompt=7, completion=3),
    timings=AnswerTimings(load_s=1.0, prefill_s=0.5, decode_s=2.5, total_s=4.0),
)


def ids() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"call_{next(numbers)}"


def form(kind: str) -> OllamaReplyForm:
    return (OllamaChatForm if kind == "chat" else OllamaGenerateForm)("guide", lambda: WHEN)


def stream_lines(events: Iterable[Event], kind: str = "chat") -> list[dict[str, Any]]:
    lines = OllamaLineEncoder(form(kind), ids())
    data = lines.feed(events) + lines.feed([BROKE_OFF])
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.removesuffix(b"\n").split(b"\n")]


def at_once(events: Iterable[Event], kind: str = "chat") -> dict[str, Any] | AnswerFailed:
    reply = build_reply(aggregate_events(events), form(kind), ids())
    return reply if isinstance(reply, AnswerFailed) else json.loads(msgspec.json.encode(reply))


def test_a_chat_as_clients_know_it() -> None:
    events: list[Event] = [AnswerStarted(), ReasoningDelta("Hm."), TextDelta("Hel"), TextDelta("lo"), END]
    base = {"model": "guide", "created_at": WHEN}
    assert stream_lines(events) == [
        {**base, "message": {"role": "assistant", "content": "", "thinking": "Hm."}, "done": False},
        {**base, "message": {"role": "assistant", "content": "Hel"}, "done": False},
        {**base, "message": {"role": "assistant", "content": "lo"}, "done": False},
        {**base, "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop", **COUNTED},
    ]
    assert at_once(events) == {
        **base,
        "message": {"role": "assistant", "content": "Hello", "thinking": "Hm."},
        "done": True,
        "done_reason": "stop",
        **COUNTED,
    }


def test_a_completion_as_clients_know_it() -> None:
    events: list[Event] = [TextDelta("a"), AnswerFinished(reason=FinishReason.LENGTH)]
    base = {"model": "guide", "created_at": WHEN}
    assert stream_lines(events, "generate") == [
        {**base, "response": "a", "done": False},
        {**base, "response": "", "done": True, "done_reason": "length"},
    ]
    assert at_once(events, "generate") == {**base, "response": "a", "done": True, "done_reason": "length"}


@pytest.mark.parametrize(
    ("timings", "prompt_s", "answer_s"),
    [
        (AnswerTimings(ready_s=1.0, prefill_s=2.0, total_s=3.0), 2.0, 2.0),
        (AnswerTimings(ready_s=1.0, decode_s=1.5, total_s=3.0), 2.0, 1.5),
        (AnswerTimings(load_s=2.5, ready_s=1.0, total_s=3.0), 0.5, 0.5),
        (AnswerTimings(), 1e-9, 1e-9),
    ],
)
@pytest.mark.parametrize("kind", ["chat", "generate"])
def test_what_is_counted_took_time_also_where_the_engine_has_no_clock(
    timings: AnswerTimings, prompt_s: float, answer_s: float, kind: str
) -> None:
    """Clients divide by it, and those written in Go and Rust do not look first."""
    events: list[Event] = [TextDelta("a"), AnswerFinished(usage=TokenUsage(prompt=7, completion=3), timings=timings)]
    last, answer = stream_lines(events, kind)[-1], at_once(events, kind)
    assert isinstance(answer, dict)
    for reply in (last, answer):
        assert (reply["prompt_eval_duration"], reply["eval_duration"]) == (prompt_s * 1e9, answer_s * 1e9)
        assert min(reply["total_duration"], reply["load_duration"]) > 0


def test_tool_calls_come_whole_with_objects_and_ids() -> None:
    events: list[Event] = [
        ToolCallDelta(index=0, id="abc", name="look", arguments='{"at": '),
        ToolCallDelta(index=1, name="go"),
        ToolCallDelta(index=0, arguments='{"x":\n1}}'),
        AnswerFinished(reason=FinishReason.TOOL_CALLS),
    ]
    called_line, last = stream_lines(events)
    assert called_line["message"] == {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "abc", "function": {"index": 0, "name": "look", "arguments": {"at": {"x": 1}}}},
            {"id": "call_1", "function": {"index": 1, "name": "go", "arguments": {}}},
        ],
    }
    assert (called_line["done"], last["done"], last["done_reason"]) == (False, True, "stop")


@pytest.mark.parametrize("arguments", ['{"a": ', "[1]", "3", "null", "[" * 5000])
def test_arguments_that_are_no_object_are_shown_as_text(arguments: str) -> None:
    events: list[Event] = [ToolCallDelta(index=0, name="f", arguments=arguments), END]
    text, called_line, _ = stream_lines(events)
    assert text["message"]["content"] == arguments
    assert called_line["message"]["tool_calls"][0]["function"]["arguments"] == {}
    whole_answer = at_once(events)
    assert isinstance(whole_answer, dict)
    assert whole_answer["message"]["content"] == arguments


def test_probabilities_stand_beside_their_text() -> None:
    token_logprob = TokenLogprob(
        token="a", logprob=-0.5, bytes=(97,), top_logprobs=(TokenAlternative(token="b", logprob=-1.0),)
    )
    (first, _) = stream_lines([TextDelta("a", (token_logprob,)), END])
    assert first["logprobs"] == [
        {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": [{"token": "b", "logprob": -1.0}]}
    ]


def test_a_failure_is_the_last_line_or_the_whole_answer() -> None:
    failed_answer = AnswerFailed(error=ErrorBody(code="crashed", sentence="It crashed.", hint="Try again."), status=502)
    assert stream_lines([TextDelta("a"), failed_answer, TextDelta("b")])[1:] == [{"error": "It crashed. Try again."}]
    assert at_once([TextDelta("a"), failed_answer]) == failed_answer


def test_a_stream_that_just_stops_is_said_to_have_failed() -> None:
    assert stream_lines([TextDelta("a")])[-1] == {"error": "The engine cut off its answer."}
    assert isinstance(at_once([TextDelta("a")]), AnswerFailed)


texts = st.text(max_size=12)
tokens = st.builds(TokenLogprob, token=texts, logprob=st.floats(max_value=0, allow_infinity=False))
deltas = st.one_of(
    st.builds(AnswerStarted),
    st.builds(TextDelta, texts, st.lists(tokens, max_size=2).map(tuple)),
    st.builds(ReasoningDelta, texts),
    st.builds(
        ToolCallDelta,
        index=st.integers(0, 3),
        id=texts,
        name=texts,
        arguments=st.sampled_from(["", "{", "}", '{"a": 1}', '"', "\n", "[1]", " "]) | texts,
    ),
)
counts = st.none() | st.integers(0, 10**6)
seconds = st.floats(0, 10**5)
ends = st.one_of(
    st.builds(
        AnswerFinished,
        reason=st.sampled_from(FinishReason),
        usage=st.builds(TokenUsage, prompt=counts, completion=counts),
        timings=st.builds(AnswerTimings, load_s=seconds, prefill_s=seconds, decode_s=seconds, total_s=seconds),
    ),
    st.builds(AnswerFailed, error=st.builds(ErrorBody, code=texts, sentence=texts), status=st.just(502)),
)
sequences = st.lists(deltas | ends, max_size=12) | st.tuples(st.lists(deltas, max_size=12), ends).map(
    lambda parts: [*parts[0], parts[1]]
)


@given(events=sequences, kind=st.sampled_from(["chat", "generate"]))
def test_any_events_make_a_valid_stream(events: list[Event], kind: str) -> None:
    *before, last = stream_lines(events, kind)
    for line in before:
        assert line["done"] is False
        assert "done_reason" not in line
        assert isinstance(line["message"]["content"] if kind == "chat" else line["response"], str)
    assert set(last) == {"error"} or (last["done"] is True and last["done_reason"] in {"stop", "length"})


@given(events=sequences, kind=st.sampled_from(["chat", "generate"]))
def test_the_stream_read_back_is_the_whole_answer(events: list[Event], kind: str) -> None:
    lines, reply = stream_lines(events, kind), at_once(events, kind)
    if isinstance(reply, AnswerFailed):
        assert lines[-1] == {"error": f"{reply.error.sentence} {reply.error.hint}".strip()}
        return
    messages = [line.get("message", line) for line in lines]
    field = "content" if kind == "chat" else "response"
    whole_said = reply.get("message", reply)
    assert "".join(message[field] for message in messages) == whole_said[field]
    assert "".join(message.get("thinking", "") for message in messages) == whole_said.get("thinking", "")
    assert [call for message in messages for call in message.get("tool_calls", [])] == whole_said.get("tool_calls", [])
    assert [token for line in lines for token in line.get("logprobs", [])] == reply.get("logprobs", [])
    parts = {"message", "response", "thinking", "tool_calls", "logprobs"}
    assert {k: v for k, v in lines[-1].items() if k not in parts} == {k: v for k, v in reply.items() if k not in parts}


@pytest.mark.slow
@given(events=sequences, cuts=st.lists(st.integers(0, 12), max_size=4))
def test_it_does_not_matter_how_events_are_batched(events: list[Event], cuts: list[int]) -> None:
    together, apart = OllamaLineEncoder(form("chat"), ids()), OllamaLineEncoder(form("chat"), ids())
    bounds = [0, *sorted(cuts), len(events)]
    pieces = b"".join(apart.feed(events[start:stop]) for start, stop in itertools.pairwise(bounds))
    assert pieces == together.feed(events)
