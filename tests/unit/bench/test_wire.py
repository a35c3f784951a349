"""What is counted is what arrived, wherever a proxy or the network cut it."""

import pytest

from tests.bench.load import BenchTarget, chat_route
from tests.bench.wire import ChunkReader, TokenCounter, is_whole, request_to

EVENTS = [b'data: {"content":" word"}\n\n'] * 3 + [b"data: [DONE]\n\n"]
CHUNKS = b"".join(f"{len(event):x}\r\n".encode() + event + b"\r\n" for event in EVENTS) + b"0\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize("size", range(1, len(CHUNKS) + 1))
def test_a_stream_is_counted_however_it_is_cut(size: int) -> None:
    body, count, tokens, payload = ChunkReader(), TokenCounter(b'"content":'), 0, b""
    for at in range(0, len(CHUNKS), size):
        assert not body.is_over
        part = body.feed(CHUNKS[at : at + size])
        tokens += count.feed(part)
        payload += part
    assert (tokens, payload, body.is_over) == (3, b"".join(EVENTS), True)


def test_a_stream_that_breaks_off_is_not_over() -> None:
    body = ChunkReader()
    body.feed(CHUNKS[:-1])
    assert not body.is_over


def test_a_token_that_a_proxy_put_into_two_chunks_counts_once() -> None:
    count = TokenCounter(b'"content":')
    assert [count.feed(part) for part in (b'{"con', b"", b'tent":" a"}', b'{"content":" b"}')] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("answer", "is_there"),
    [
        (HEAD + b"Content-Length: 2\r\n\r\n{}", True),
        (HEAD + b"content-length:2\r\n\r\n{", False),
        (HEAD + b"Content-Length: 2\r\n", False),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", True),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", False),
        (HEAD, False),
    ],
)
def test_a_whole_answer_is_known_by_its_length_or_its_last_chunk(answer: bytes, *, is_there: bool) -> None:
    assert is_whole(answer) is is_there


def test_a_request_says_its_length_and_its_key() -> None:
    head, _, body = request_to(BenchTarget("http://127.0.0.1:9", "secret"), chat_route("3 tokens")).partition(
        b"\r\n\r\n"
    )
    assert b"\r\nAuthorization: Bearer secret\r\n" in head
    assert head.endswith(b"\r\nContent-Length: %d" % len(body))
    assert b"3 tokens" in body
    assert b'"stream":true' in body
