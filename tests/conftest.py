"""What holds for every test: a slow machine makes none of them fail, and they run on the gateway's event loop."""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping

import pytest
from hypothesis import HealthCheck, settings

from app.gateway.runtime import new_event_loop
from tests.ports import free_port

# Containers ask Python to keep no bytecode. Then every program a test starts would compile the application anew, and
# pytest all tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

settings.register_profile("loaded", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("loaded")


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Have processes, signals and sockets tried on the loop that they have in the gateway."""
    return {"gateway": new_event_loop}


@pytest.fixture
def unused_port() -> int:
    return free_port()


SLOW_FOLDERS = ("end_to_end", "gateway", "hostile", "gui")
"""The files that take longest, longest first. All others take seconds."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one more than there are processors: tests often wait for the processes they started."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have several processes begin with the long files, so that none of them is left alone with one at the end."""
    if hasattr(config, "workerinput"):
        items.sort(key=_place_in_run)


def _place_in_run(item: pytest.Item) -> int:
    folders = item.nodeid.split("/")
    return next((place for place, name in enumerate(SLOW_FOLDERS) if name in folders), len(SLOW_FOLDERS))
