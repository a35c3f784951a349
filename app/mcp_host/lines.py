"""Lines of JSON between the gateway and a program of ours that talks to somebody else's: one each way at a time."""

import contextlib
import sys

import msgspec

from app.core.mcp import LONGEST_RESULT, McpResult

LONGEST_LINE = 8 * 1024 * 1024
_CUT = "\n[The rest of the result was left out: it is too long.]"
_LONGEST_REASON = 300


def read_line() -> bytes:
    """Return the next line of our input, empty at the end. Blocks: Windows has no other way to wait for a pipe."""
    return sys.stdin.buffer.readline(LONGEST_LINE)


def send(reply: msgspec.Struct) -> None:
    """Write one line. A gateway that reads slowly holds us up: that is the limit on what it can be flooded with."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.buffer.write(msgspec.json.encode(reply) + b"\n")
        sys.stdout.buffer.flush()


def describe_failure(error: BaseException) -> str:
    """Return the first cause of a failure, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    words = " ".join(str(error).split())[:_LONGEST_REASON]
    return words or type(error).__name__


def make_result(text: str, *, is_error: bool) -> McpResult:
    """Return what a tool returned, as much of it as is passed on."""
    was_cut = len(text) > LONGEST_RESULT
    return McpResult(text=text[:LONGEST_RESULT] + _CUT if was_cut else text, is_error=is_error, was_cut=was_cut)
