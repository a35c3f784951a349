"""A probe child that stays: it answers every line it is sent with a line of JSON, until its input ends."""

import sys
from collections.abc import Callable, Iterable
from typing import BinaryIO

import msgspec

FREE = "free"
"""Instead of a family, on a probe child's command line: stay, and tell what is free of graphics memory."""
ENERGY = "energy"
"""The same, for what NVIDIA's cards have used."""


def answer_each_line(answer: Callable[[], object], requests: Iterable[bytes], output: BinaryIO) -> None:
    """Write what `answer` returns as a line of JSON for every line that comes: the child's whole life."""
    for _ in requests:
        output.write(msgspec.json.encode(answer()) + b"\n")
        output.flush()


def serve_answers(answer: Callable[[], object]) -> int:
    """Be the child."""
    answer_each_line(answer, sys.stdin.buffer, sys.stdout.buffer)
    return 0
