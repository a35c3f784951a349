"""Canonical events -> Google's documents, as events, as a growing array, and whole."""

import json
from typing import Any

import msgspec
import pytest

from app.core.errors import ErrorBody
from app.gateway.canonical.events import (
    AnswerFailed,
    AnswerFinished,
    AnswerStarted,
    Event,
    FinishReason,
    Overflow,
    ReasoningDelta,
    TextDelta,
    TokenAlternative,
    TokenLogprob,
    TokenUsage,
    ToolCallDelta,
    aggregate_events,
)
from app.gateway.dialects.google.stream import (
    ArrayFraming,
    EventFraming,
    GoogleEncoder,
    GoogleReplyForm,
    StreamFraming,
    build_reply,
)
from app.gateway.dialects.google.wire import GenerateContentReply

USAGE = TokenUsage(prompt=10, cached=4, completion=7, reasoning=2)
EVENTS: list[Event] = [
    AnswerStarted(),
    ReasoningDelta("Hm."),
    TextDelta("Hel"),
    TextDelta("lo"),
    ToolCallDelta(index=0, id="c1", name="weather", arguments='{"town"'),
    ToolCallDelta(index=0, arguments=': "Bern"}'),
    AnswerFinished(reason=FinishReason.TOOL_CALLS, usage=USAGE),
]
COUNTS = {
    "promptTokenCount": 10,
    "cachedContentTokenCount": 4,
    "candidatesTokenCount": 5,
    "thoughtsTokenCount": 2,
    "totalTokenCount": 17,
}


def form(*, shows_thoughts: bool = True) -> GoogleReplyForm:
    return GoogleReplyForm(model="guide", shows_thoughts=shows_thoughts, id="r1")


def write_events(events: list[Event], framing: StreamFraming, *, shows_thoughts: bool = True) -> bytes:
    encoder = GoogleEncoder(form(shows_thoughts=shows_thoughts), framing)
    return encoder.begin() + b"".join(encoder.feed([event]) for event in events) + encoder.feed([TextDelta("late")])


def documents(stream: bytes) -> list[Any]:
    *events, rest = stream.split(b"\r\n\r\n")
    assert rest == b""
    return [json.loads(event.removeprefix(b"data: ")) for event in events]


def parts_of(all_documents: list[Any]) -> list[Any]:
    return [
        part for document in all_documents for part in document["candidates"][0].get("content", {}).get("parts", [])
    ]


def test_a_stream_of_events() -> None:
    pieces = documents(write_events(EVENTS, EventFraming()))
    assert {(piece["modelVersion"], piece["responseId"]) for piece in pieces} == {("guide", "r1")}
    assert parts_of(pieces) == [
        {"text": "Hm.", "thought": True},
        {"text": "Hel"},
        {"text": "lo"},
        {"functionCall": {"id": "c1", "name": "weather", "args": {"town": "Bern"}}},
    ]
    assert pieces[-1]["candidates"][0]["finishReason"] == "STOP"
    assert pieces[-1]["usageMetadata"] == COUNTS
    assert [piece["candidates"][0]["index"] for piece in pieces] == [0] * len(pieces)
    assert not any("finishReason" in piece["candidates"][0] for piece in pieces[:-1])


def test_an_array_says_the_same_as_events() -> None:
    assert json.loads(write_events(EVENTS, ArrayFraming())) == documents(write_events(EVENTS, EventFraming()))


def test_a_whole_answer_is_the_fold_of_its_stream() -> None:
    whole = json.loads(msgspec.json.encode(build_reply(aggregate_events(EVENTS), form())))
    (candidate,) = whole["candidates"]
    assert candidate["content"]["role"] == "model"
    assert candidate["content"]["parts"] == [
        {"text": "Hm.", "thought": True},
        {"text": "Hello"},
        {"functionCall": {"id": "c1", "name": "weather", "args": {"town": "Bern"}}},
    ]
    assert (candidate["finishReason"], whole["usageMetadata"]) == ("STOP", COUNTS)


def test_thoughts_are_told_only_to_who_asked_for_them() -> None:
    pieces = documents(write_events(EVENTS, EventFraming(), shows_thoughts=False))
    assert not any("thought" in part for part in parts_of(pieces))
    whole = build_reply(aggregate_events(EVENTS), form(shows_thoughts=False))
    assert isinstance(whole, GenerateContentReply)
    assert b"Hm." not in msgspec.json.encode(whole)


def test_arguments_that_are_no_object_are_not_lost() -> None:
    lost_events: list[Event] = [ToolCallDelta(index=0, name="f", arguments='{"a": '), AnswerFinished()]
    (call,) = parts_of(documents(write_events(lost_events, EventFraming())))
    assert call["functionCall"]["args"] == {"arguments": '{"a": '}
    assert call["functionCall"]["id"]


@pytest.mark.parametrize("framing_type", [EventFraming, ArrayFraming])
def test_a_stream_that_breaks_ends_with_the_error(framing_type: type[StreamFraming]) -> None:
    overflow = Overflow(context=100, prompt=200)
    failed_answer = AnswerFailed(
        error=ErrorBody(code="context_length_exceeded", sentence="x"), status=400, overflow=overflow
    )
    stream = write_events([TextDelta("Hel"), failed_answer], framing_type())
    pieces = json.loads(stream) if framing_type is ArrayFraming else documents(stream)
    assert pieces[-1] == {
        "error": {
            "code": 400,
            "message": "The input token count (200) exceeds the maximum number of tokens allowed (100).",
            "status": "INVALID_ARGUMENT",
            "details": [{"@type": "google.rpc.ErrorInfo", "reason": "CONTEXT_LENGTH_EXCEEDED", "domain": "roundhouse"}],
        }
    }


def test_an_answer_without_a_word_has_a_part_all_the_same() -> None:
    (only,) = documents(write_events([AnswerFinished(reason=FinishReason.LENGTH)], EventFraming()))
    assert only["candidates"] == [
        {"content": {"parts": [{"text": ""}], "role": "model"}, "finishReason": "MAX_TOKENS", "index": 0}
    ]


def test_log_probabilities() -> None:
    token = TokenLogprob(token="a", logprob=-0.5, top_logprobs=(TokenAlternative(token="b", logprob=-2.0),))
    second = TokenLogprob(token="c", logprob=-1.5)
    events: list[Event] = [TextDelta("ac", logprobs=(token, second)), AnswerFinished()]
    whole = json.loads(msgspec.json.encode(build_reply(aggregate_events(events), form())))
    (candidate,) = whole["candidates"]
    assert candidate["avgLogprobs"] == -1.0
    assert candidate["logprobsResult"] == {
        "topCandidates": [{"candidates": [{"token": "b", "logProbability": -2.0}]}, {"candidates": []}],
        "chosenCandidates": [{"token": "a", "logProbability": -0.5}, {"token": "c", "logProbability": -1.5}],
    }
