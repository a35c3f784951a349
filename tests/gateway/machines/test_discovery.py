"""Looking for computers on the network: nothing is said while offline, and a crowd of announcements is not followed."""

import asyncio
from collections.abc import Iterator
from enum import Enum
from typing import Any

import pytest

from app.gateway.machines.discovery import Announcement, MachineDiscovery
from app.machines.names import own_addresses
from app.network.egress import egress_gate

OWN = Announcement("lap", "ab" * 32, 11643, ("10.0.0.1",))


class Change(Enum):
    Added = 1
    Removed = 3


@pytest.fixture
def offline() -> Iterator[None]:
    with egress_gate.apply_policy(is_closed=lambda: True, news=lambda: None):
        egress_gate.take_connections()
        yield


@pytest.mark.usefixtures("offline")
async def test_offline_nothing_is_announced() -> None:
    discovery = MachineDiscovery(lambda: None)
    await discovery.announce(OWN)
    assert discovery._zeroconf is None
    assert egress_gate.take_connections() == []


async def test_a_crowd_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    discovery, names = MachineDiscovery(lambda: None), list[str]()
    stop = asyncio.Event()

    async def wait_for_answer(_zeroconf: object, name: str) -> None:
        names.append(name)
        await stop.wait()

    monkeypatch.setattr(discovery, "_ask_service", wait_for_answer)
    nothing: Any = None
    added_change: Any = Change.Added
    for number in range(1000):
        discovery._take_change(nothing, "", f"{number % 500}._roundhouse._tcp.local.", added_change)
    await asyncio.sleep(0)
    assert len(names) == len(set(names)) == 8
    stop.set()
    await discovery.close()


def test_what_listens_here_alone_is_not_announced() -> None:
    assert own_addresses("127.0.0.1") == ()
    assert own_addresses("::1") == ()
    assert own_addresses("192.168.1.7") == ("192.168.1.7",)
    assert not any(address.startswith("127.") for address in own_addresses(""))
