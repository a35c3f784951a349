"""How far a request walks through the gateway: the functions it calls, the files they are in, the returns to a file.

Whoever reads the way of a request walks as far. The ceilings are what it takes today: they may only fall.
"""

import sys
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest

import app
from tests.gateway.exchange.test_streaming import DONE, event, streams
from tests.gateway.played import Gateway

ROOT = next(iter(app.__path__))
HI = [{"role": "user", "content": "Hi"}]


class Walk(NamedTuple):
    """What a request calls of ours."""

    functions: int
    files: int
    returns: int
    """How often a file is called into again that was left before."""


class Walker:
    """Notes calls of functions of ours, until it is taken off."""

    def __init__(self) -> None:
        self._calls: list[CodeType] = []

    def __call__(self, frame: FrameType, kind: str, _value: object) -> None:
        if kind == "call" and frame.f_code.co_filename.startswith(ROOT):
            self._calls.append(frame.f_code)

    @property
    def walk(self) -> Walk:
        """How far it was."""
        files = [code.co_filename for code in self._calls]
        entries = [file for before, file in zip(["", *files], files, strict=False) if file != before]
        return Walk(len(set(self._calls)), len(set(files)), len(entries) - len(set(files)))


def is_within(walk: Walk, ceiling: Walk) -> bool:
    return all(taken_steps <= most for taken_steps, most in zip(walk, ceiling, strict=True))


@pytest.mark.parametrize(
    ("path", "body", "ceiling"),
    [
        ("/v1/chat/completions", {"max_tokens": 8}, Walk(139, 32, 88)),
        ("/api/chat", {}, Walk(216, 41, 129)),
    ],
)
async def test_a_warm_chat_walks_no_farther(gateway: Gateway, path: str, body: dict[str, Any], ceiling: Walk) -> None:
    gateway.upstream.play = streams(event("Good "), event("morning."), DONE)
    request = {"model": "guide", "messages": HI, "stream": True, **body}

    async def chat() -> bytes:
        async with gateway.http.post(gateway.url + path, json=request) as reply:
            return await reply.read()

    for _ in range(2):
        assert b"morning" in await chat()
    walks: list[Walk] = []
    while len(walks) < 30 and not any(is_within(walk, ceiling) for walk in walks):  # timers fall into some
        walker = Walker()
        sys.setprofile(walker)
        try:
            answer = await chat()
        finally:
            sys.setprofile(None)
        assert b"morning" in answer
        walks.append(walker.walk)
    assert is_within(walks[-1], ceiling), min(walks)
