"""What holds for every test: a slow machine makes none of them fail, and they run on the gateway's event loop."""

import asyncio
import functools
import gc
import os
import sys
from collections.abc import Callable, Mapping

import pytest
from hypothesis import HealthCheck, settings

from app.gateway.runtime import new_event_loop
from tests.depth import trials
from tests.ports import free_port
from tests.suite import LARGE_BLOCKS

# Containers ask Python to keep no bytecode. Then every program a test starts would compile the application anew, and
# pytest all tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.pop(LARGE_BLOCKS, None)  # for this process; what the tests start takes its memory as it does elsewhere

settings.register_profile(
    "loaded", max_examples=trials(60, deep=500), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("loaded")


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Have processes, signals and sockets tried on the loop that they have in the gateway."""
    return {"gateway": new_event_loop}


def pytest_collection_finish() -> None:
    """Have the garbage collector pass over what stays anyway, and come by less often: it took a tenth of all time."""
    gc.enable()
    gc.freeze()
    gc.set_threshold(5_000, 20, 10)
    _share_client_certificates()


def _share_client_certificates() -> None:
    """Have the clients' packages read the certificates of the world once, and not for each client: 20 ms each time."""
    for package in ("httpx", "httpx2"):
        transports = sys.modules.get(f"{package}._transports.default")
        if transports is not None:
            transports.create_ssl_context = functools.cache(transports.create_ssl_context)  # type: ignore[attr-defined]


@pytest.fixture
def unused_port() -> int:
    return free_port()
