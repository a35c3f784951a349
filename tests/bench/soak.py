"""Ask in every dialect, for minutes or hours, while things go wrong; look for wrong answers and for what stays behind.

The gateway is whole; its engines say each prompt back, so that every answer can be checked. Engines are killed, clients
go away, many ask at once, and models are unloaded under way. An answer must be right, or say why it is none.
"""

import asyncio
import collections
import contextlib
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from pathlib import Path

import aiohttp
import psutil

from app.client.discovery import read_port_file
from app.config.paths import Paths
from app.core.api import PREFIX
from tests.bench.figures import BenchFigure, at_most, not_measured, without_target
from tests.bench.programs import HOST, start_program, wait_for
from tests.bench.soak_answers import SOAK_REQUESTS, SoakRequest, judge_answer, read_answer
from tests.ports import free_port

MODELS = ("one", "two", "three")
"""One more than are kept loaded, so that they have to make room for each other."""
CLIENTS = 12
BURST = 48
BURST_EVERY_S = 20.0
UNLOAD_EVERY_S = 13.0
KILL_EVERY_S = 150.0
"""An engine that crashes more often than three times in ten minutes is not started again, and rightly so."""
GONE_SHARE = 0.15
GROWTH_PERCENT = 5.0
RESIDENT_MIB = 75.0
_MIB = 1024 * 1024
WARM_UP = 0.25
"""Of the time: until then caches fill and what is needed at first use is imported."""
_ANSWER_WITHIN_S = 120.0
_QUIET_WITHIN_S = 20.0
_REST_S = 0.5
"""Clients that were refused come again, but not at once."""
_SAMPLE_S = 0.5
_ENGINE = "tests.fake_engine.server"
_LAUNCHED_WITHIN_S = 2.0
"""A process that is younger may still be the launcher, which confines itself before it becomes the engine."""
_WORDS = (
    "north",
    "south",
    "river",
    "engine",
    "turntable",
    "signal",
    "water",
    "coal",
    "bridge",
    "tunnel",
    "Gleis",
    "機関",
)
_FINE = {"right", "refused", "gone"}

Alive = set[tuple[int, float]]
"""Processes, by id and the time they were made."""


class SoakRun:
    """One run. `endings` counts how answers ended, `wrong` says what was wrong with the first ones."""

    def __init__(self, url: str, token: str, gateway: psutil.Process) -> None:
        self.endings: collections.Counter[str] = collections.Counter()
        self.faults: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []
        self.engines: Alive = set()
        self.unconfined_engines: Alive = set()
        self.weights: list[int] = []
        self.resident = 0
        """Bytes of the gateway's memory once all was quiet again."""
        self._url, self._token, self._gateway = url, token, gateway
        self._askings: Sequence[tuple[str, SoakRequest]] = ()
        self._chance = random.Random(20)  # noqa: S311 -- the same troubles in the same order, no secrets

    async def run(self, seconds: float) -> None:
        """Go on for that long, then wait until all is quiet and everything is unloaded."""
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
            self._askings = [item for item in SOAK_REQUESTS.items() if await self._is_supported(http, item[1])]
            async with _run_in_background(
                [self._sample_processes(), *self._fault_tasks(http), *(self._ask_forever(http) for _ in range(CLIENTS))]
            ):
                await asyncio.sleep(seconds)
            await self._wait_until_quiet(http)
        self.resident = self._gateway.memory_info().rss

    @property
    def dialects(self) -> list[str]:
        """What was asked in."""
        return [name for name, _ in self._askings]

    def growth_percent(self) -> float:
        """Return how much heavier the gateway was in the last tenth of the time than in the first after warming up."""
        warm = self.weights[int(len(self.weights) * WARM_UP) :]
        tenth = max(1, len(warm) // 10)
        return 100 * (statistics.median(warm[-tenth:]) / statistics.median(warm[:tenth]) - 1)

    async def _is_supported(self, http: aiohttp.ClientSession, soak_request: SoakRequest) -> bool:
        return (await self._judge_answer(http, soak_request, MODELS[0], "north")) == "right"

    async def _ask_forever(self, http: aiohttp.ClientSession) -> None:
        while True:
            if await self._ask_once(http) != "right":
                await asyncio.sleep(_REST_S)

    async def _ask_once(self, http: aiohttp.ClientSession) -> str:
        """Ask once and judge the answer; some clients do not wait for it."""
        chance = self._chance
        words = " ".join([*chance.choices(_WORDS, k=chance.randrange(3, 40)), str(chance.random())])
        name, soak_request = chance.choice(self._askings)
        model = chance.choices(MODELS, (6, 3, 1))[0]
        patience_s = chance.random() * 0.8 if chance.random() < GONE_SHARE else None
        try:
            async with asyncio.timeout(patience_s):
                ending_name = await self._judge_answer(http, soak_request, model, words)
        except TimeoutError:
            ending_name = "gone"
        self.endings[ending_name] += 1
        if ending_name not in _FINE and len(self.wrong) < 20:
            self.wrong.append(f"{name}: {ending_name}")
        return ending_name

    async def _judge_answer(
        self, http: aiohttp.ClientSession, soak_request: SoakRequest, model: str, words: str
    ) -> str:
        limit = aiohttp.ClientTimeout(total=_ANSWER_WITHIN_S)
        try:
            async with http.post(
                self._url + soak_request.path, json={"model": model, **soak_request.body(words)}, timeout=limit
            ) as reply:
                return judge_answer(read_answer(soak_request, reply.status, await reply.read()), words)
        except aiohttp.ServerTimeoutError:
            return "no answer in time"
        except aiohttp.ClientError as error:
            return f"connection broke ({type(error).__name__})"

    def _fault_tasks(self, http: aiohttp.ClientSession) -> list[Coroutine[None, None, None]]:
        return [
            self._repeat_fault("bursts", BURST_EVERY_S, lambda: self._burst(http)),
            self._repeat_fault("unloads", UNLOAD_EVERY_S, lambda: self._unload(http, self._chance.choice(MODELS))),
            self._repeat_fault("engines killed", KILL_EVERY_S, self._kill),
        ]

    async def _repeat_fault(self, name: str, every_s: float, fault: Callable[[], Coroutine[None, None, None]]) -> None:
        await asyncio.sleep(every_s / 10)
        while True:
            await fault()
            self.faults[name] += 1
            await asyncio.sleep(every_s)

    async def _kill(self) -> None:
        children = self._gateway.children(recursive=True)
        if children:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._chance.choice(children).kill()

    async def _burst(self, http: aiohttp.ClientSession) -> None:
        await asyncio.gather(*(self._ask_once(http) for _ in range(BURST)))

    async def _unload(self, http: aiohttp.ClientSession, model: str) -> None:
        headers = {"Authorization": f"Bearer {self._token}"}
        body = {"model": model, "force": self._chance.random() < 0.5}
        async with http.post(f"{self._url}{PREFIX}/unload", json=body, headers=headers) as reply:
            await reply.read()

    async def _sample_processes(self) -> None:
        while True:
            self.weights.append(self._gateway.memory_info().rss)
            children = self._gateway.children(recursive=True)
            self.engines |= _alive_processes(children)
            self.unconfined_engines |= _alive_processes(child for child in children if _is_unconfined_engine(child))
            await asyncio.sleep(_SAMPLE_S)

    async def _wait_until_quiet(self, http: aiohttp.ClientSession) -> None:
        for model in MODELS:
            await self._unload(http, model)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_QUIET_WITHIN_S):
                while self._gateway.children(recursive=True):  # noqa: ASYNC110 -- nobody tells when another program's children end
                    await asyncio.sleep(_SAMPLE_S)


def measure(minutes: float = 1.0) -> Sequence[BenchFigure]:
    """Return wrong answers, processes left behind, and how much memory the gateway has, and has gained."""
    names = (
        "soak: wrong answers",
        "soak: processes left behind",
        "soak: growth of the gateway",
        "soak: gateway resident memory at the end",
        "soak: processes that ran an engine unconfined",
    )
    soak, processes_left = _run_soak(minutes * 60)
    return [
        at_most(names[0], sum(count for ending_name, count in soak.endings.items() if ending_name not in _FINE), 0),
        at_most(names[1], processes_left, 0),
        at_most(names[2], soak.growth_percent(), GROWTH_PERCENT, "%"),
        at_most(names[3], soak.resident / _MIB, RESIDENT_MIB, "MiB"),
        _count_unconfined(names[4], soak),
        *(without_target(f"soak: {what}", str(count)) for what, count in sorted((soak.endings + soak.faults).items())),
        without_target("soak: asked in", "; ".join(soak.dialects)),
        *(without_target("soak: what was wrong", words) for words in soak.wrong),
    ]


def _count_unconfined(name: str, soak: SoakRun) -> BenchFigure:
    if not sys.platform.startswith("linux"):
        return not_measured(name, "<= 0", "engines are confined on Linux only")
    return at_most(name, len(soak.unconfined_engines), 0)


def _run_soak(seconds: float) -> tuple[SoakRun, int]:
    """Return a run that is over, and how many processes of it are still there."""
    port = free_port()
    with tempfile.TemporaryDirectory() as home:
        environment = {"ROUNDHOUSE_HOME": home, "ROUNDHOUSE_GATEWAY_PORT": str(port)}
        with start_program("tests.bench.gateway_with_echoes", *MODELS, environment=environment) as child:
            wait_for(port, child)
            soak = SoakRun(f"http://{HOST}:{port}", _read_token(Path(home)), child)
            asyncio.run(soak.run(seconds))
            processes_left = _alive_processes(child.children(recursive=True))
        return soak, len(processes_left | (soak.engines & _alive_processes(psutil.process_iter())))


def _read_token(home: Path) -> str:
    """Return the key to Roundhouse's own routes, which is announced after the first answers."""
    paths = Paths(config=home / "config", data=home / "data", state=home / "state", logs=home / "logs")
    deadline = time.monotonic() + _QUIET_WITHIN_S
    while time.monotonic() < deadline:
        port_file = read_port_file(paths.port_file)
        if port_file is not None:
            return port_file.token
        time.sleep(_SAMPLE_S)
    raise RuntimeError("the gateway did not announce itself")


def _is_unconfined_engine(process: psutil.Process) -> bool:
    """Return whether the kernel lets an engine that is past its launch gain rights, or make every system call."""
    try:
        if time.time() - process.create_time() < _LAUNCHED_WITHIN_S or _ENGINE not in process.cmdline():
            return False
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    except (psutil.Error, OSError):
        return False
    return "NoNewPrivs:\t1" not in status or "Seccomp:\t2" not in status


def _alive_processes(processes: Iterable[psutil.Process]) -> Alive:
    alive: Alive = set()
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE:
                alive.add((process.pid, process.create_time()))
    return alive


@contextlib.asynccontextmanager
async def _run_in_background(work: Sequence[Coroutine[None, None, None]]) -> AsyncIterator[None]:
    """Do all of it until the block ends; a mistake in any of it ends the run."""
    tasks = [asyncio.create_task(task_or_error) for task_or_error in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    failures = [task_or_error for task_or_error in outcomes if not isinstance(task_or_error, asyncio.CancelledError)]
    if failures:
        raise RuntimeError("a part of the soak ended by itself") from failures[0]
