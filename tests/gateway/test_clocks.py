"""Clocks that are set by a day, and a computer that sleeps for an hour, in the middle of everything."""

import http.client
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import psutil
import pytest

from app.client.discovery import has_ended
from app.config.programs import module_command
from app.core.chats import Chat, NewChat, NewTurn, Turn
from app.core.downloads import Download, DownloadState
from app.core.engines import EngineState, EngineStatus
from app.core.keys import KeyWithSecret
from app.core.models import LoadModel
from app.gateway.entry.keys import ForwardClock
from tests.fake_hub.hub import FakeHub
from tests.fake_hub.server import serve_hub
from tests.gateway.admin.jumping_gateway import VARIABLE
from tests.gateway.admin.real_gateway import RealGateway, run_gateway
from tests.gguf_files import TinyLlama
from tests.patience import PATIENCE_S, wait_until

DAY_S, HOUR_S = 86400.0, 3600.0
CONTENT = TinyLlama(name="Large").content() + bytes(12 << 20)
"""Twelve seconds at 1 MB/s."""


_BUSY = 3
"""Processes below the gateway: a download and two engines."""


class Clocks:
    """The clocks of a gateway, as far as its Python sees them."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.jump()

    def jump(self, wall_s: float = 0.0, steady_s: float = 0.0) -> None:
        """Have them be so much ahead of the real ones."""
        fresh = self.file.with_suffix(".new")
        fresh.write_text(f"{wall_s} {steady_s}", encoding="ascii")
        fresh.replace(self.file)


@contextmanager
def run_with_clocks(home: Path, port: int, hub: str) -> Iterator[tuple[RealGateway, Clocks]]:
    clocks = Clocks(home / "clocks")
    argv = module_command("tests.gateway.admin.jumping_gateway")
    with run_gateway(home, port, hub=hub, argv=argv, extra={VARIABLE: str(clocks.file)}) as gateway:
        gateway.client.patch("/settings", {"downloads.limit_mb_s": 1}, object)
        yield gateway, clocks


class _Work:
    """A download, a load and an answer, all three begun and none at its end."""

    def __init__(self, gateway: RealGateway) -> None:
        self.client = gateway.client
        self.download = self.client.post("/downloads", {"model": "org/Model-GGUF:Q8_0"}, Download)
        self.chat = self.client.post("/chats", NewChat(model="slow"), Chat)
        self.client.post(f"/chats/{self.chat.id}/turns", NewTurn(content="Go on"), Turn)
        wait_until(lambda: self.length() > 0)
        self.client.post("/load", LoadModel(model="heavy", wait=False), EngineStatus)

    def length(self) -> int:
        return len(self.client.get(f"/chats/{self.chat.id}", Chat).messages[-1].content)

    def state_of(self, model: str) -> EngineState:
        states = {status.model: status.state for status in self.client.get("/running", list[EngineStatus])}
        return states[model]

    def expect_success(self) -> None:
        self.client.patch("/settings", {"downloads.limit_mb_s": 0}, object)
        before = self.length()
        wait_until(lambda: self.length() > before)
        wait_until(lambda: self.state_of("heavy") is EngineState.READY)
        wait_until(lambda: self._download().state in {DownloadState.DONE, DownloadState.FAILED})
        outcome = self._download()
        assert outcome.state is DownloadState.DONE, outcome.error
        assert (Path(outcome.folder) / "Model-Q8_0.gguf").read_bytes() == CONTENT

    def _download(self) -> Download:
        return self.client.get("/downloads", list[Download])[0]


@pytest.fixture
def hub() -> Iterator[str]:
    with serve_hub(FakeHub()) as served_hub:
        served_hub.add("org/Model-GGUF", {"Model-Q8_0.gguf": CONTENT})
        yield served_hub.url


@pytest.mark.slow
@pytest.mark.parametrize("wall_s", [DAY_S, -DAY_S])
def test_a_clock_that_jumps_by_a_day_costs_nothing(tmp_path: Path, unused_port: int, hub: str, wall_s: float) -> None:
    with run_with_clocks(tmp_path, unused_port, hub) as (gateway, clocks):
        deleted_chat = gateway.client.post("/chats", NewChat(model="quick"), Chat)
        gateway.client.delete(f"/chats/{deleted_chat.id}")
        work = _Work(gateway)
        clocks.jump(wall_s)
        work.expect_success()
        assert work.state_of("slow") is EngineState.READY
        assert gateway.client.post(f"/chats/{deleted_chat.id}/restore", None, Chat).id == deleted_chat.id


def test_a_key_that_expires_by_a_jump_ends_its_streams_and_comes_back_by_none(
    tmp_path: Path, unused_port: int, hub: str
) -> None:
    with run_with_clocks(tmp_path, unused_port, hub) as (gateway, clocks):
        key = gateway.client.post("/keys", {"name": "short", "scopes": ["manage"]} | _in_an_hour(), KeyWithSecret).key
        address = f"{gateway.port_file.url}/roundhouse/v1/events"
        request = urllib.request.Request(address, headers={"Authorization": f"Bearer {key}"})  # noqa: S310 -- ours
        end_event = threading.Event()
        stream = urllib.request.urlopen(request, timeout=PATIENCE_S)  # noqa: S310 -- ours
        reader = threading.Thread(target=_read_to_end, args=(stream, end_event))
        reader.start()
        clocks.jump(DAY_S)
        assert end_event.wait(PATIENCE_S)
        reader.join()
        for wall_s in (DAY_S, 0.0, -DAY_S):
            clocks.jump(wall_s)
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(request, timeout=PATIENCE_S)  # noqa: S310 -- ours


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows stops no process from outside")
@pytest.mark.parametrize("steady_s", [0.0, HOUR_S], ids=["not counted", "counted"])
def test_an_hour_of_sleep_costs_neither_a_download_nor_a_load_nor_an_answer(
    tmp_path: Path, unused_port: int, hub: str, steady_s: float
) -> None:
    with run_with_clocks(tmp_path, unused_port, hub) as (gateway, clocks):
        work = _Work(gateway)
        own = psutil.Process(gateway.process.pid)
        wait_until(lambda: len(own.children(recursive=True)) >= _BUSY)
        asleep = [own, *own.children(recursive=True)]
        for process in asleep:
            process.suspend()
        clocks.jump(HOUR_S, steady_s)
        for process in reversed(asleep):
            process.resume()
        work.expect_success()


@pytest.mark.slow
def test_a_gateway_is_known_again_after_the_clock_was_set(tmp_path: Path, unused_port: int) -> None:
    """On Linux the time a process began at moves with the clock."""
    with run_gateway(tmp_path, unused_port, argv=module_command("app.gateway")) as gateway:
        moved_port_file = msgspec.structs.replace(gateway.port_file, created_at=gateway.port_file.created_at - DAY_S)
        assert not has_ended(moved_port_file)
        other = msgspec.structs.replace(moved_port_file, pid=psutil.Process().ppid())
        assert has_ended(other)
    assert has_ended(moved_port_file)


def test_the_time_that_keys_go_by_is_never_set_back() -> None:
    wall, steady = 1000.0, 5.0
    clock = ForwardClock(lambda: wall, lambda: steady)
    assert clock() == 1000.0
    wall, steady = 1000.0 - DAY_S, 15.0
    assert clock() == 1010.0
    wall = 1000.0 + DAY_S
    assert clock() == 1000.0 + DAY_S


def _in_an_hour() -> dict[str, float]:
    return {"expires_at": time.time() + HOUR_S}


def _read_to_end(stream: http.client.HTTPResponse, end_event: threading.Event) -> None:
    with suppress(OSError, http.client.HTTPException):
        while stream.read1(1024):
            pass
    end_event.set()
