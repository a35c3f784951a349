import json
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.chats import AnswerDone, Chat, Message, MessageStatus, Role, Sampling
from app.gateway.canonical.events import (
    AnswerFinished,
    FinishReason,
    PromptProgress,
    ReasoningDelta,
    TextDelta,
    TokenUsage,
)
from app.gateway.chats.answer_writer import error_for_reader
from app.gateway.chats.chat_request import chat_request, messages_for
from app.gateway.chats.live_answer import LiveAnswer
from app.gateway.exchange.engine.error_document import error_from_refusal
from app.gateway.exchange.engine.request import body_of
from app.gateway.exchange.engine.stream import StreamReader
from engines.api import Feature
from tests.gateway.admin.conftest import LAST, chunk, reasoning


def make_message(role: Role, content: str) -> Message:
    return Message(id="m", chat="c", parent=None, role=role, content=content)


@pytest.mark.parametrize(
    ("path", "turns"),
    [
        ([(Role.USER, "a")], ["user: a"]),
        ([(Role.USER, "a"), (Role.ASSISTANT, "b"), (Role.USER, "c")], ["user: a", "assistant: b", "user: c"]),
        ([(Role.USER, "a"), (Role.ASSISTANT, ""), (Role.USER, "c")], ["user: a\n\nc"]),
        ([(Role.USER, "a"), (Role.ASSISTANT, "half"), (Role.USER, "c")], ["user: a", "assistant: half", "user: c"]),
    ],
)
def test_roles_alternate_whatever_became_of_an_answer(path: list[tuple[Role, str]], turns: list[str]) -> None:
    messages = messages_for("", [make_message(*part) for part in path])
    assert [f"{message.role}: {message.text}" for message in messages] == turns


def test_a_blank_system_prompt_is_not_sent() -> None:
    assert [message.role for message in messages_for("  \n", [make_message(Role.USER, "a")])] == ["user"]


def test_an_engine_is_sent_only_what_it_takes() -> None:
    chat = Chat(
        id="c",
        title="",
        model="",
        system_prompt="",
        sampling=Sampling(),
        head=None,
        created_at=0,
        updated_at=0,
        messages=[],
    )
    request = chat_request(chat, [make_message(Role.USER, "a")])
    plain = json.loads(body_of(request, model="m", features=frozenset()))
    assert set(plain) == {"model", "messages", "stream"}
    body = json.loads(body_of(request, model="m", features={Feature.STREAM_USAGE, Feature.PROGRESS}))
    assert body["stream_options"] == {"include_usage": True}
    assert body["return_progress"] is True


STREAM = (
    reasoning("Hm 🤔")
    + chunk("é🎉")
    + b": comment\r\n\r\n"
    + chunk("漢\n\n字").replace(b"\n\n", b"\r\n\r\n")
    + b"event: x\nid: 3\n"
    + LAST
)


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=30))
def test_a_stream_reads_the_same_however_it_is_cut(cuts: list[int]) -> None:
    reader = StreamReader()
    edges = [0, *sorted(cuts), len(STREAM)]
    events = [event for start, end in pairwise(edges) for event in reader.feed(STREAM[start:end])]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "é🎉漢\n\n字"
    assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == "Hm 🤔"
    assert [event.usage for event in events if isinstance(event, AnswerFinished)] == [
        TokenUsage(prompt=10, completion=3, cached=2)
    ]
    assert reader.is_over


@given(data=st.binary(max_size=200))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    StreamReader().feed(b"data: " + data + b"\n\n")


@pytest.mark.parametrize(
    ("progress", "fraction"),
    [
        ({"total": 10, "processed": 5}, 0.5),
        ({"total": 10, "cache": 5, "processed": 5}, 0.0),
        ({"total": 10, "cache": 10, "processed": 10}, None),
        ({"total": 0}, None),
        ({"total": 10, "processed": 99}, 1.0),
    ],
)
def test_progress_counts_what_had_to_be_read(progress: dict[str, int], fraction: float | None) -> None:
    event = b"data: " + msgspec.json.encode({"choices": [], "prompt_progress": progress}) + b"\n\n"
    assert StreamReader().feed(event) == [PromptProgress(fraction)]


@given(body=st.binary(max_size=100))
def test_any_refusal_becomes_a_sentence(body: bytes) -> None:
    error = error_for_reader(error_from_refusal(body, 400))
    assert str(error).startswith(("The engine refused to answer: ", "This conversation is longer"))


def test_a_context_refusal_without_counts_is_a_sentence_too() -> None:
    error = error_for_reader(error_from_refusal(b'{"error":{"type":"exceed_context_size_error","message":"x"}}', 400))
    assert (error.code, str(error)) == ("context_too_long", "This conversation is longer than the model's context.")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def live(clock: Clock) -> LiveAnswer:
    return LiveAnswer(make_message(Role.ASSISTANT, ""), clock)


def test_speed_is_measured_when_the_engine_does_not_say() -> None:
    clock = Clock()
    answer = live(clock)
    for _ in range(5):
        clock.now += 0.5
        answer.add(TextDelta("x"))
    answer.note_finish(AnswerFinished(reason=FinishReason.LENGTH, usage=TokenUsage(prompt=3, completion=5)), {})
    clock.now += 1.0
    final_message = answer.final_message(MessageStatus.COMPLETE)
    cost = final_message.timings
    assert cost is not None
    assert (cost.ttft_s, cost.total_s, cost.decode_tokens_per_s) == (0.5, 3.5, 2.0)
    assert (final_message.finish_reason, final_message.content) == ("length", "xxxxx")


def test_an_answer_without_a_token_has_no_first_one() -> None:
    cost = live(Clock()).final_message(MessageStatus.STOPPED).timings
    assert cost is not None
    assert (cost.ttft_s, cost.decode_tokens_per_s, cost.completion_tokens) == (None, None, None)


async def test_only_the_first_end_counts() -> None:
    answer = live(Clock())
    first = answer.final_message(MessageStatus.STOPPED)
    answer.publish_final(first)
    answer.publish_final(answer.final_message(MessageStatus.COMPLETE))
    assert await answer.wait_until_final() == first
    assert [event async for event in answer.follow(0)] == [AnswerDone(message=first)]


def test_events_carry_their_type() -> None:
    assert msgspec.json.decode(msgspec.json.encode(AnswerDone(message=make_message(Role.USER, ""))))["type"] == "done"
