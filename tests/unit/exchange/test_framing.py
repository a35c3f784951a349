"""How answers of engines are framed: whole however they are cut, bounded, and nothing taken for HTTP that is none."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.gateway.exchange.framing import MOST_HEAD_BYTES, Body, ChunkedBody, body_of, read_head, size_line

CHUNKS = [b"a", b"data: {}\n\n", b"0\r\n\r\n", b"\r\n", b"x" * 300]
"""What looks like an end is part of a chunk all the same."""
FRAMED = b"".join(b"%x;x=1\r\n%b\r\n" % (len(chunk), chunk) for chunk in CHUNKS) + b"0\r\nX-Trailer: 1\r\n\r\n"


def feed_pieces(body: Body, *pieces: bytes) -> bytes:
    return b"".join(map(body.feed, pieces))


@given(cuts=st.lists(st.integers(0, len(FRAMED)), max_size=40))
def test_chunks_are_whole_however_they_are_cut(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(FRAMED)]
    body = ChunkedBody()
    pieces = [FRAMED[start:end] for start, end in pairwise(edges)]
    assert feed_pieces(body, *pieces) == b"".join(CHUNKS)
    assert body.is_over
    assert body.surplus == b""
    assert body.ends_with_connection()


def test_a_chunk_at_a_time_is_read_as_well() -> None:
    body = ChunkedBody()
    assert [body.feed(b"%X\r\n%b\r\n" % (len(chunk), chunk)) for chunk in CHUNKS] == CHUNKS
    assert not body.is_over
    assert body.feed(b"0\r\n\r\n") == b""
    assert body.is_over


@given(size=st.integers(1, 1 << 20))
def test_how_a_chunk_begins_is_told_from_how_many_bytes_it_takes(size: int) -> None:
    line = b"%x\r\n" % size
    assert size_line(len(line) + size + 2) == line


@pytest.mark.parametrize("frame_bytes", [0, 1, 5, 21, 262])
def test_no_chunk_takes_so_many_bytes(frame_bytes: int) -> None:
    assert size_line(frame_bytes) == b"-"


def test_a_chunk_begins_where_none_is_open() -> None:
    body = ChunkedBody()
    states = []
    for piece in (b"9\r\n4\r\n", b"data\r", b"\n\r\n", b"1\r\na\r\n", b"2", b"\r\nab", b"\r\n", b"0\r\n", b"\r\n"):
        body.feed(piece)
        states.append(body.is_between_chunks)
    assert states == [False, False, True, True, False, False, True, False, False]
    assert body.is_over


def test_what_follows_the_end_is_kept_apart() -> None:
    body = ChunkedBody()
    assert feed_pieces(body, b"1\r\na\r\n0\r\n\r\nHTTP/1.1 200 OK") == b"a"
    assert body.surplus == b"HTTP/1.1 200 OK"
    counted_body = body_of(read_head(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")[0])  # type: ignore[index]
    assert feed_pieces(counted_body, b"abc") == b"ab"
    assert (counted_body.is_over, counted_body.surplus) == (True, b"c")


@pytest.mark.parametrize(
    "wrong",
    [b"x\r\n", b"-1\r\na\r\n", b"+1\r\na\r\n", b"0x1\r\na\r\n", b"1_0\r\n", b"\r\n", b"1\r\nab\r\n", b"1" * 2000],
)
def test_what_is_no_chunk_is_refused(wrong: bytes) -> None:
    with pytest.raises(ValueError, match=r"chunk|line"):
        feed_pieces(ChunkedBody(), wrong, b"\r\n")


def test_a_head_is_read_with_what_follows_it_and_interim_answers_are_passed_over() -> None:
    data = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: a/b\r\nX: \r\n\r\nbody"
    for end in range(len(data) - 4):
        assert read_head(data[:end]) is None
    head, rest = read_head(data) or (None, b"")
    assert head is not None
    assert (head.status, head.headers["content-type"], head.headers["x"], rest) == (200, "a/b", "", b"body")
    assert head.may_stay_open


@pytest.mark.parametrize(
    ("head", "stays"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close", False),
        (b"HTTP/1.1 200 OK\r\nConnection: Keep-Alive, Close", False),
        (b"HTTP/1.0 200 OK", False),
        (b"HTTP/1.1 200", True),
    ],
)
def test_whether_a_connection_can_be_used_again(head: bytes, *, stays: bool) -> None:
    read = read_head(head + b"\r\n\r\n")
    assert read is not None
    assert read[0].may_stay_open is stays


@pytest.mark.parametrize(
    "wrong",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"x" * (MOST_HEAD_BYTES + 1),
    ],
)
def test_what_is_no_http_is_refused(wrong: bytes) -> None:
    with pytest.raises(ValueError, match=r"HTTP|colon|head"):
        read_head(wrong)


@pytest.mark.parametrize("headers", [b"Transfer-Encoding: gzip", b"Content-Length: two", b"Content-Length: -1"])
def test_a_body_of_unknown_extent_is_refused(headers: bytes) -> None:
    read = read_head(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n" % headers)
    assert read is not None
    with pytest.raises(ValueError, match=r"length|transfer coding"):
        body_of(read[0])


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_some_answers_have_no_body_whatever_their_head_says(status: bytes) -> None:
    head = read_head(b"HTTP/1.1 " + status + b"\r\nContent-Length: 5\r\n\r\n")
    assert head is not None
    assert body_of(head[0]).is_over


def test_a_body_without_extent_ends_with_the_connection_and_others_are_cut_off_by_it() -> None:
    for headers, is_whole in ((b"X: y", True), (b"Content-Length: 9", False), (b"Transfer-Encoding: chunked", False)):
        read = read_head(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n" % headers)
        assert read is not None
        assert body_of(read[0]).ends_with_connection() is is_whole
