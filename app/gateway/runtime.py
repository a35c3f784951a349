"""The memory of the gateway's own process: when garbage is looked for, and that what is free goes back to the system.

A gateway runs for weeks. What requests took for a moment is free afterwards, but lies in holes between what stays, and
the C library keeps such holes: 8 of 20 MB after an hour of a soak, as `malloc_info` told.
"""

import asyncio
import gc
import sys
from collections.abc import Callable

_GARBAGE = 5000
"""Objects made before the collector looks at them; Python's own is 700, which is less than two requests make."""
_EVERY_S = 60.0


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
