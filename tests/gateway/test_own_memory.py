"""What the gateway's own process has taken and no longer needs goes back to the system."""

import asyncio
import gc
import platform
import weakref

import psutil
import pytest

from app.gateway.runtime import give_back
from tests.patience import until

PIECE, PIECES = 100_000, 400


class Knot:
    """Holds on to itself, so that only the collector frees it."""

    def __init__(self) -> None:
        self.itself = self


def holes() -> list[bytes]:
    """Return what keeps half of 40 MB from being given back: every other piece of it."""
    pieces = [b"x" * (PIECE + number) for number in range(PIECES)]
    return pieces[::2]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries do it by themselves")
async def test_holes_between_what_stays_are_given_back() -> None:
    kept_objects = holes()
    process = psutil.Process()
    before = process.memory_info().rss
    give_back_task = asyncio.create_task(give_back(every_s=0.01))
    await until(lambda: process.memory_info().rss < before - PIECE * PIECES // 4)
    give_back_task.cancel()
    assert len(kept_objects) == PIECES // 2


async def test_garbage_is_collected_on_the_way() -> None:
    gc.disable()
    try:
        knot = weakref.ref(Knot())
        give_back_task = asyncio.create_task(give_back(every_s=0.01))
        await until(lambda: knot() is None)
        give_back_task.cancel()
    finally:
        gc.enable()
