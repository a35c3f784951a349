"""The gateway's event loop: libuv's, which hands bytes on for two thirds of the processor time of Python's own."""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop of the kind that suits this system."""
    if sys.platform == "win32":
        import winloop as fast  # noqa: PLC0415 -- uvloop for Windows; each is there on its own systems only
    else:
        import uvloop as fast  # noqa: PLC0415 -- as above
    loop: asyncio.AbstractEventLoop = fast.new_event_loop()
    return loop


def run(program: Coroutine[Any, Any, T]) -> T:
    """Run a program to its end, and return what it returns."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(program)
