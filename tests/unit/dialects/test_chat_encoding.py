"""OpenAI's chunks and Anthropic's blocks: any stream of events becomes a valid one, which says what the whole does."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import ErrorBody
from app.gateway.canonical.events import (
    BROKE_OFF,
    AnswerFailed,
    AnswerFinished,
    AnswerStarted,
    Event,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    TokenUsage,
    ToolCallDelta,
    aggregate_events,
)
from app.gateway.dialects.anthropic.answers import AnthropicAnswerParams
from app.gateway.dialects.anthropic.stream import AnthropicEncoder
from app.gateway.dialects.anthropic.stream import build_message as anthropic_whole
from app.gateway.dialects.openai.stream import DONE, OpenAIAnswerInfo, OpenAIChunkEncoder, counts_chunk
from app.gateway.dialects.openai.stream import build_completion as openai_whole
from app.gateway.exchange.engine.stream import StreamReader

ABOUT = OpenAIAnswerInfo(id="chatcmpl-1", model="guide", created=1)
TEXTS = st.text(alphabet='aé\U0001f682<{"\\ \n', min_size=1, max_size=5)
USAGES = st.builds(
    TokenUsage, prompt=st.integers(4, 9), cached=st.integers(0, 4) | st.none(), completion=st.integers(0, 9)
)
ENDS = st.builds(AnswerFinished, reason=st.sampled_from(FinishReason), usage=USAGES)


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    """Draw what an engine may say: calls begin in order, and each is written before the next."""
    events: list[Event] = [AnswerStarted()]
    calls = 0
    for kind in draw(st.lists(st.sampled_from(["text", "thought", "call", "arguments"]), max_size=8)):
        if kind == "text":
            events.append(TextDelta(draw(TEXTS)))
        elif kind == "thought":
            events.append(ReasoningDelta(draw(TEXTS)))
        elif kind == "call" or (calls and not isinstance(events[-1], ToolCallDelta)):
            events.append(ToolCallDelta(index=calls, id=f"call_{calls}", name="now", arguments='{"a": 1}'))
            calls += 1
        elif calls:
            events.append(ToolCallDelta(index=calls - 1, arguments=" "))
    return [*events, draw(ENDS)]


def events_in(stream: bytes) -> Iterator[dict[str, Any]]:
    for event in stream.split(b"\n\n"):
        data = event.rpartition(b"data: ")[2]
        if data.startswith(b"{"):
            yield json.loads(data)


@given(streams())
def test_openais_chunks_say_what_was_said(events: Sequence[Event]) -> None:
    chunks = OpenAIChunkEncoder(ABOUT)
    stream = chunks.begin() + chunks.feed(events)
    answer = aggregate_events(events)
    assert isinstance(answer.end, AnswerFinished)
    reader = StreamReader()
    read = aggregate_events(reader.feed(stream + counts_chunk(ABOUT, answer.end.usage) + DONE))
    assert (read.text, read.thinking, read.calls) == (answer.text, answer.thinking, answer.calls)
    assert isinstance(read.end, AnswerFinished)
    assert (read.end.reason, read.end.usage) == (answer.end.reason, answer.end.usage)
    whole: Any = openai_whole(ABOUT, [answer])
    message = whole["choices"][0]["message"]
    assert (message["content"] or "", message.get("reasoning", "")) == (answer.text, answer.thinking)
    assert whole["choices"][0]["finish_reason"] == answer.end.reason
    assert all(chunk["id"] == ABOUT.id and chunk["model"] == "guide" for chunk in events_in(stream))


@given(streams())
def test_anthropics_blocks_open_and_close_in_order_and_say_what_was_said(events: Sequence[Event]) -> None:
    blocks = AnthropicEncoder("guide", AnthropicAnswerParams())
    stream = list(events_in(blocks.begin() + blocks.feed(events)))
    assert [event["type"] for event in stream if event["type"].startswith("message")] == [
        "message_start",
        "message_delta",
        "message_stop",
    ]
    content = _assemble_blocks(stream[1:-2])
    answer = aggregate_events(events)
    whole: Any = anthropic_whole(answer, "guide", AnthropicAnswerParams())
    assert "".join(block["text"] for block in content if block["type"] == "text") == answer.text
    assert "".join(block["thinking"] for block in content if block["type"] == "thinking") == answer.thinking
    assert [block for block in content if block["type"] == "tool_use"] == [
        block for block in whole["content"] if block["type"] == "tool_use"
    ]
    assert stream[-2]["usage"] == whole["usage"]
    assert stream[-2]["delta"] == {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    counts = whole["usage"]
    assert isinstance(answer.end, AnswerFinished)
    assert counts["input_tokens"] + counts["cache_read_input_tokens"] == answer.end.usage.prompt


def _assemble_blocks(stream: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put blocks together as Anthropic's client does, and see that each is alone."""
    content: list[dict[str, Any]] = []
    is_open = False
    for event in stream:
        if event["type"] == "content_block_start":
            assert not is_open
            assert event["index"] == len(content)
            content.append({**event["content_block"], "json": ""})
            is_open = True
            continue
        assert is_open
        assert event["index"] == len(content) - 1
        is_open = event["type"] != "content_block_stop"
        delta = event.get("delta", {})
        for key, place in (("text", "text"), ("thinking", "thinking"), ("partial_json", "json")):
            content[-1][place] = content[-1].get(place, "") + delta.get(key, "")
    assert not is_open
    for block in content:
        arguments = block.pop("json")
        if block["type"] == "tool_use":
            block["input"] = json.loads(arguments or "{}")
            del block["text"], block["thinking"]
    return content


@given(streams())
def test_a_stream_that_breaks_off_says_so_in_both(events: Sequence[Event]) -> None:
    for encoder, place in (
        (OpenAIChunkEncoder(ABOUT), "error"),
        (AnthropicEncoder("guide", AnthropicAnswerParams()), "error"),
    ):
        *_, last = events_in(encoder.begin() + encoder.feed(events[:-1]) + encoder.feed([BROKE_OFF]))
        assert "cut off" in last[place]["message"]
        assert encoder.feed(events) == b""
    error = AnswerFailed(error=ErrorBody(code="x", sentence="It crashed", hint="Try again."), status=502)
    assert b"It crashed. Try again." in OpenAIChunkEncoder(ABOUT).feed([error])
    assert anthropic_whole(aggregate_events([error]), "guide", AnthropicAnswerParams()) == error
    assert openai_whole(ABOUT, [aggregate_events([error])]) == error
