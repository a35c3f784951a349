import asyncio
import logging

import pytest

from app.core.errors import EngineFailed
from app.gateway.background import Background


async def fails(error: Exception) -> None:
    raise error


async def test_what_goes_wrong_is_logged_unless_it_says_so_itself(caplog: pytest.LogCaptureFixture) -> None:
    background = Background()
    background.spawn(fails(EngineFailed("The engine stopped.")))
    await background.join()
    assert caplog.records == []
    background.spawn(fails(KeyError("oops")))
    await background.join()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_joining_waits_and_can_cancel() -> None:
    background = Background()
    done_task = background.spawn(asyncio.sleep(0, "done"))
    await background.join()
    assert done_task.result() == "done"
    endless = background.spawn(asyncio.Event().wait())
    await background.join(cancel=True)
    assert endless.cancelled()
