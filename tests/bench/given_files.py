"""How fast a model's file comes from a paired computer, and from a hub, all on one computer: what TLS and hashing take.

Two gateways, the hub and the process that downloads share the processor; over a network each computer has its own.
"""

import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import psutil

from app.core.downloads import Download, DownloadState, Pull
from tests.bench.figures import BenchFigure, at_most, without_target
from tests.bench.programs import HOST, start_program, wait_for
from tests.gateway.admin.real_gateway import RealGateway
from tests.gateway.machines.test_paired_gateways import Pair, list_machines, pair_up, start
from tests.patience import wait_until
from tests.ports import free_port

SIZE = 250_000_000
GIGABIT_S = 8.5
"""Seconds that a network of a gigabit takes for a file of 1 GB: who needs more of one processor holds it up."""
_MB, _GB = 1e6, 1e9
_MODEL = "bench/model:Q4_K_M"
_OVER = frozenset({DownloadState.DONE, DownloadState.FAILED})
WITHIN_S = 600.0


def measure(size: int = SIZE) -> Sequence[BenchFigure]:
    """Return the speed of both."""
    port = free_port()
    with ExitStack() as stack:
        hub = stack.enter_context(start_program("tests.bench.model_hub", str(port), str(size)))
        wait_for(port, hub)
        pair = Pair(*(stack.enter_context(_start_gateway(stack, name, port)) for name in ("desk", "lap")))
        pair_up(pair)
        pair.desk.client.patch("/settings", {"machines.share_files": True}, object)
        wait_until(lambda: list_machines(pair.lap).machines[0].shares_files)
        from_hub_s = _time_download(pair.desk, "")
        before_s = [_processor_s(gateway) for gateway in pair]
        from_desk_s = _time_download(pair.lap, "desk")
        giver_s, taker_s = (_processor_s(gateway) - before for gateway, before in zip(pair, before_s, strict=True))
    return [
        without_target(f"{size / _MB:.0f} MB from a hub on this computer", f"{size / _MB / from_hub_s:.0f} MB/s"),
        without_target(f"{size / _MB:.0f} MB from a paired gateway here", f"{size / _MB / from_desk_s:.0f} MB/s"),
        at_most("processor time for 1 GB, of who gives", giver_s * _GB / size, GIGABIT_S, "s"),
        at_most("processor time for 1 GB, of who takes", taker_s * _GB / size, GIGABIT_S, "s"),
    ]


def _processor_s(gateway: RealGateway) -> float:
    """Return the processor time of a gateway and of its processes that have ended."""
    times = psutil.Process(gateway.process.pid).cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def _start_gateway(stack: ExitStack, name: str, hub_port: int) -> AbstractContextManager[RealGateway]:
    home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=name)))
    return start(home, name, hub=f"http://{HOST}:{hub_port}")


def _time_download(gateway: RealGateway, source: str) -> float:
    """Return the seconds from the request until the file is there, from where it should come."""
    began_s = time.perf_counter()
    gateway.client.post("/downloads", Pull(model=_MODEL, anyway=True), Download, timeout_s=WITHIN_S)
    wait_until(lambda: gateway.client.get("/downloads", list[Download])[0].state in _OVER, within_s=WITHIN_S)
    took_s = time.perf_counter() - began_s
    (download,) = gateway.client.get("/downloads", list[Download])
    assert (download.state, download.machine) == (DownloadState.DONE, source), download
    return took_s
