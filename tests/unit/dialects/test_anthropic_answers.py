"""Answers of llama.cpp's own Messages route, as recorded from the pinned build (`tests/fixtures/messages`), mended."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import EngineFailed, Unavailable
from app.gateway.canonical.events import failure_event
from app.gateway.dialects.anthropic import answers
from app.gateway.dialects.anthropic.answers import (
    AnthropicAnswerParams,
    AnthropicMessageForm,
    AnthropicStreamEditor,
    encode_event,
)
from app.gateway.dialects.anthropic.record import ANTHROPIC_DIALECT

RECORDED = Path(__file__).parents[2] / "fixtures" / "messages"
NAMES = sorted(path.stem for path in RECORDED.glob("*.sse"))
FORM = AnthropicMessageForm(request_id="req_1")

Event = dict[str, Any]


def read_recording(name: str) -> bytes:
    return (RECORDED / name).read_bytes()


def mend_stream(raw: bytes, wishes: AnthropicAnswerParams | None = None, *, sizes: list[int] | None = None) -> bytes:
    """Return what a client gets for bytes that come in pieces of these sizes, the last of them over and over."""
    mender, out, at = AnthropicStreamEditor(wishes or AnthropicAnswerParams()), b"", 0
    sizes = list(sizes or [len(raw)])
    while at < len(raw):
        size = sizes.pop(0) if len(sizes) > 1 else sizes[0]
        out, at = out + mender(raw[at : at + size]), at + size
    return out


def events(raw: bytes) -> list[Event]:
    """Return the events; each one's name is its type, as the SDKs take it."""
    all_events = []
    for event in raw.decode().split("\n\n")[:-1]:
        name, data = event.split("\n")
        all_events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {all_events[-1]['type']}"
    return all_events


def fold_stream(stream: list[Event]) -> Event:
    """Return the whole answer as the SDKs put it together."""
    message: Event = stream[0]["message"]
    texts: dict[int, str] = {}
    for event in stream:
        if event["type"] == "content_block_start":
            message["content"].append(event["content_block"])
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            piece = delta.get("text") or delta.get("thinking") or delta.get("partial_json") or ""
            texts[event["index"]] = texts.get(event["index"], "") + piece
        elif event["type"] == "message_delta":
            message.update(event["delta"])
            message["usage"].update(event["usage"])
    for index, block in enumerate(message["content"]):
        text = texts.get(index, "")
        is_call = block["type"] == "tool_use"
        block.update({"input": json.loads(text or "{}")} if is_call else {block["type"]: text})
    return message


def without_names(message: Event) -> Event:
    """Leave out what is drawn anew every time, and what the cache had."""
    content = [{key: value for key, value in block.items() if key != "id"} for block in message["content"]]
    usage = message["usage"]
    read = usage["input_tokens"] + usage["cache_read_input_tokens"]
    return {**message, "id": "", "content": content, "usage": {"read": read, "written": usage["output_tokens"]}}


def check_order(stream: list[Event]) -> None:
    """One block at a time, indices one by one, reasoning signed, the end at the end."""
    kinds = [event["type"] for event in stream]
    assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])
    open_index, last = None, ""
    begun_count = 0
    for event in stream[1:-2]:
        if event["type"] == "content_block_start":
            assert (open_index, event["index"]) == (None, begun_count)
            open_index, begun_count = begun_count, begun_count + 1
        elif event["type"] == "content_block_delta":
            assert event["index"] == open_index
            last = event["delta"]["type"]
        else:
            assert (event["type"], event["index"]) == ("content_block_stop", open_index)
            assert last != "thinking_delta"
            open_index = None
    assert open_index is None


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_is_in_order_and_folds_to_the_whole(name: str) -> None:
    wishes = AnthropicAnswerParams(max_tokens=2 if name == "cut" else 100)
    stream = events(mend_stream(read_recording(f"{name}.sse"), wishes))
    check_order(stream)
    whole = json.loads(answers.whole_message(read_recording(f"{name}.json"), wishes))
    assert without_names(fold_stream(stream)) == without_names(whole)


@given(st.sampled_from(NAMES), st.lists(st.integers(1, 400), min_size=1, max_size=30))
def test_it_does_not_matter_where_the_networks_chunks_end(name: str, sizes: list[int]) -> None:
    raw = read_recording(f"{name}.sse")
    cut, whole = events(mend_stream(raw, sizes=sizes)), events(mend_stream(raw))
    cut[0]["message"]["id"] = whole[0]["message"]["id"] = ""
    assert cut == whole


@given(st.lists(st.sampled_from(["text", "thinking", "tool_use"]), max_size=6), st.booleans())
def test_any_blocks_make_a_valid_stream(kinds: list[str], one_tool: bool) -> None:  # noqa: FBT001 -- hypothesis draws it
    deltas = {"text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta"}
    fields = {"text": "text", "thinking": "thinking", "tool_use": "partial_json"}
    raw = encode_event("message_start", {"type": "message_start", "message": {"usage": {"input_tokens": 3}}})
    for index, kind in enumerate(kinds):
        start = {"type": "content_block_start", "index": index, "content_block": {"type": kind}}
        delta = {"type": deltas[kind], fields[kind]: "{}"}
        raw += encode_event("content_block_start", start)
        raw += encode_event("content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta})
    for index in range(len(kinds)):
        raw += encode_event("content_block_stop", {"type": "content_block_stop", "index": index})
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
    raw += encode_event("message_delta", end) + encode_event("message_stop", {"type": "message_stop"})
    stream = events(mend_stream(raw, AnthropicAnswerParams(one_tool=one_tool)))
    if not one_tool:
        check_order(stream)
    begun_types = [event["content_block"]["type"] for event in stream if event["type"] == "content_block_start"]
    calls = kinds.count("tool_use")
    assert begun_types.count("tool_use") == (min(calls, 1) if one_tool else calls)
    assert len([event for event in stream if event["type"] == "content_block_stop"]) == len(begun_types)


def test_text_keeps_its_bytes() -> None:
    raw = b'event: content_block_delta\ndata: {"type":"content_block_delta",  "odd":"\xf0\x9f\x9a\x82"}\n\n'
    assert mend_stream(raw) == raw


def test_every_count_is_there_from_the_start() -> None:
    start, end = (
        next(event for event in events(mend_stream(read_recording("text.sse"))) if event["type"] == kind)
        for kind in ("message_start", "message_delta")
    )
    counts = {"input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"}
    assert set(start["message"]["usage"]) == set(end["usage"]) == counts
    assert start["message"]["id"].startswith("msg_")


@pytest.mark.parametrize(
    ("reason", "sequence", "output_tokens", "expected_reason"),
    [
        ("end_turn", None, 5, "end_turn"),
        ("end_turn", "\n", 5, "stop_sequence"),
        ("tool_use", None, 5, "tool_use"),
        ("max_tokens", None, 10, "max_tokens"),
        ("max_tokens", None, 9, "model_context_window_exceeded"),
    ],
)
def test_an_end_says_why(reason: str, sequence: str | None, output_tokens: int, expected_reason: str) -> None:
    assert answers.stop_reason(reason, sequence, output_tokens, AnthropicAnswerParams(max_tokens=10)) == expected_reason


@pytest.mark.parametrize(
    ("status", "error_document", "becomes", "kind", "message"),
    [
        (
            400,
            {"type": "exceed_context_size_error", "message": "x", "n_prompt_tokens": 9, "n_ctx": 4},
            400,
            "invalid_request_error",
            "prompt is too long: 9 tokens > 4 maximum",
        ),
        (500, {"message": "image input is not supported - hint: x"}, 400, "invalid_request_error", "image input"),
        (500, {"message": "Failed to parse tools: x"}, 400, "invalid_request_error", "Failed to parse tools"),
        (500, {"message": "it broke"}, 500, "api_error", "it broke"),
        (401, {"message": "Invalid API Key"}, 401, "authentication_error", "Invalid API Key"),
    ],
)
def test_an_engines_refusal_is_in_anthropics_words(
    status: int, error_document: dict[str, object], becomes: int, kind: str, message: str
) -> None:
    refusal = FORM.refusal(json.dumps({"error": error_document}).encode(), status)
    body = json.loads(refusal.body)
    assert (refusal.status, body["type"], body["error"]["type"]) == (becomes, "error", kind)
    assert body["error"]["message"].startswith(message)
    assert body["request_id"] == "req_1"


@pytest.mark.parametrize(
    "error_document", [{"error": {"message": "it broke", "code": 500}}, {"code": 500, "message": "it broke"}]
)
def test_an_engines_error_in_a_stream_is_an_error_event(error_document: dict[str, object]) -> None:
    raw = mend_stream(b"event: error\ndata: " + json.dumps(error_document).encode() + b"\n\n")
    assert json.loads(raw.split(b"data: ")[1])["error"] == {"type": "api_error", "message": "it broke"}
    assert FORM.is_complete(raw)


def test_half_an_event_is_not_sent() -> None:
    raw = read_recording("text.sse")
    assert mend_stream(raw[:-20]).endswith(b"\n\n")
    assert not FORM.is_complete(mend_stream(raw[:-20]))


def test_not_now_is_overloaded() -> None:
    assert ANTHROPIC_DIALECT.status_of(Unavailable("Busy.")) == 529
    assert ANTHROPIC_DIALECT.status_of(EngineFailed("Dead.")) == 502
    dead = json.loads(
        msgspec.json.encode(ANTHROPIC_DIALECT.error_document(failure_event(EngineFailed("Dead.", hint="Again."))))
    )
    assert dead["error"] == {"type": "api_error", "message": "Dead. Again."}
    busy = json.loads(msgspec.json.encode(ANTHROPIC_DIALECT.error_document(failure_event(Unavailable("Busy.")))))
    assert busy["error"]["type"] == "overloaded_error"
