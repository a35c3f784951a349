"""The gateway's own process: its event loop, its memory, and what it becomes when it ends.

The loop is libuv's, which hands bytes on for two thirds of the processor time of Python's own.

A gateway runs for weeks. What requests took for a moment is free afterwards, but lies in holes between what stays, and
the C library keeps such holes: 8 of 20 MB after an hour of a soak, as `malloc_info` told.

When everything is closed and the lock is still held, the service may replace itself and go on. Nothing of it runs any
more then, so nothing can read half of an old version and half of a new one.
"""

import asyncio
import gc
import logging
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from app.config.programs import exec_module
from app.core.errors import RoundhouseError

log = logging.getLogger(__name__)

_GARBAGE = 5000
"""Objects made before the collector looks at them; Python's own is 700, which is less than two requests make."""
_EVERY_S = 60.0
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


def leave_start_up_out_of_collections() -> None:
    """Keep the garbage collector from walking every module again and again: 30 ms in which no stream moves.

    Of what requests leave behind it then looks at more at a time: eight that come together else wait for it twice.
    """
    gc.freeze()
    gc.enable()  # `__main__` has it wait
    gc.set_threshold(_GARBAGE, *gc.get_threshold()[1:])


async def give_back(every_s: float = _EVERY_S) -> None:
    """Now and then collect garbage, and give the system what the C library holds of it. Takes some 5 ms of the loop."""
    await asyncio.sleep(every_s)
    trim = _trimmer()
    while True:
        gc.collect()
        trim()
        await asyncio.sleep(every_s)


def _trimmer() -> Callable[[], object]:
    """Return what gives memory back: glibc has a function for it, other systems' libraries do it by themselves."""
    import ctypes  # noqa: PLC0415 -- a gateway that has just started has nothing to give back

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None
    return (lambda: None) if trim is None else (lambda: trim(0))


class Afterwards:
    """Filled by whoever ends the service for something; nothing happens where nobody did."""

    def __init__(self) -> None:
        self.deed: Callable[[], object] | None = None
        self.goes_on = False

    def do(self) -> None:
        """Do it; where the service is to go on, this process becomes it, whatever became of the deed."""
        try:
            if self.deed is not None:
                self.deed()
        except (RoundhouseError, OSError) as error:
            log.error("The service could not be replaced: %s", error)  # noqa: TRY400 -- said in a sentence
        if self.goes_on:
            exec_module("app.gateway", extra={"PYINSTALLER_RESET_ENVIRONMENT": "1"})
