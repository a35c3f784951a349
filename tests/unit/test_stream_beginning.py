"""What of a stream is an answer's content, and what only says that one begins or that somebody is there."""

import json

import pytest

from app.gateway.exchange.stream_beginning import has_content, is_sign_of_life


def event(document: object) -> bytes:
    return f"data: {json.dumps(document)}\n\n".encode()


def delta(**fields: object) -> bytes:
    return event({"choices": [{"index": 0, "delta": fields, "finish_reason": None}]})


@pytest.mark.parametrize(
    "piece",
    [
        b": waiting\n\n",
        delta(role="assistant", content=""),
        delta(role="assistant", content=None, tool_calls=[]),
        event({"choices": [{"index": 0, "text": "", "finish_reason": None}]}),
        b'event: ping\ndata: {"type": "ping"}\n\n',
        b"event: message_start\n" + event({"type": "message_start", "message": {"content": []}}),
        b": waiting\n\n" + delta(role="assistant"),
        b'data: {"type": "ping"}\r\n\r\n',
    ],
)
def test_an_announcement_is_no_content(piece: bytes) -> None:
    assert not has_content(piece)


@pytest.mark.parametrize(
    "piece",
    [
        delta(content="Be"),
        delta(reasoning_content="Hm"),
        delta(tool_calls=[{"index": 0}]),
        delta(role="assistant", content="") + delta(content="x"),
        event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        event({"choices": [], "usage": {"prompt_tokens": 1}}),
        event({"error": {"message": "no"}}),
        event({"type": "content_block_start"}),
        b"data: [DONE]\n\n",
        b"data: [[[[[\n\n",
        b"data: " + b"[" * 100_000 + b"\n\n",
        b"data: \xff\n\n",
        b": wai",
        b'data: {"choices": [',
    ],
)
def test_everything_else_is_and_half_an_event_too(piece: bytes) -> None:
    assert has_content(piece)


def test_only_whole_comments_are_signs_of_life() -> None:
    assert is_sign_of_life(b": waiting\n\n: waiting\n\n")
    assert not is_sign_of_life(b": wai")
    assert not is_sign_of_life(b": waiting\n\n" + delta(content=""))
