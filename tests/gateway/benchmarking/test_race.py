"""A race from the request to the engine that is used: with a scripted pair of engines on one model."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web

from app.core.benchmarks import BenchmarkReceipt, BenchmarkSettings, StartBenchmark, StartRace
from app.core.engines import EngineInfo, EngineState, EngineStatus
from app.core.errors import BadRequest, Conflict, EngineFailed
from app.core.events import RaceChanged
from app.core.models import ModelSettings
from app.gateway.advising import quiet_rounds
from app.gateway.benchmarking import run as benchmark_run
from app.gateway.benchmarking.race import Races, plan_race
from app.gateway.benchmarking.run import BenchmarkRun
from app.gateway.services import Services
from app.supervisor.lease import Lease
from engines.api import EngineInstallation
from tests.gateway.benchmarking.played_engine import PlayedComputer, PlayedEngine
from tests.gateway.played import StandInCatalogue, StandInSupervisor, Upstream
from tests.patience import PATIENCE_S
from tests.unit.benchmark.receipts import make_receipt

OLD, NEW, MISSING = "llama.cpp", "mistral.rs", "vllm"
STEADY = (0.0100, 0.0101, 0.0099, 0.0100, 0.0102, 0.0098)


class PairCatalogue(StandInCatalogue):
    """Two engines that read the model are installed, and one is not."""

    def __init__(self) -> None:
        self.installed_engines = {OLD, NEW}

    def list_engines(self) -> list[EngineInfo]:
        return [
            EngineInfo(
                id=name,
                name=name,
                licence="MIT",
                homepage="",
                formats=["gguf"],
                installed=name in self.installed_engines,
            )
            for name in (OLD, NEW, MISSING)
        ]

    def find_installation(self, engine_id: str) -> EngineInstallation:
        return EngineInstallation(engine=engine_id, version="9", backend="cpu", python=Path("python"))


class PairedEngine(PlayedEngine):
    """Takes as long per token as the engine that was loaded last is said to."""

    def __init__(self, supervisor: StandInSupervisor, paces: dict[str, float]) -> None:
        super().__init__()
        self._supervisor, self._paces = supervisor, paces

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.token_s = self._paces[self._supervisor.load_requests[-1].engine]
        return await super().answer(request)


@pytest.fixture
async def parts(services: Services, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Services]:
    """The parts of a gateway that is not opened. Leases are of the engine that was asked for."""
    monkeypatch.setattr(quiet_rounds, "QUIET_POLL_S", 0.001)
    monkeypatch.setattr(quiet_rounds, "QUIET_WAIT_S", 0.01)
    monkeypatch.setattr(benchmark_run, "hash_weights", lambda *_: "f" * 64)
    object.__setattr__(services, "catalogue", PairCatalogue())
    supervisor = cast("Any", services.supervisor)
    acquire = supervisor.acquire_lease

    async def acquire_of_engine(request: Any, terms: Any) -> Lease:  # noqa: ANN401 -- as the stand-in has them
        lease: Lease = await acquire(request, terms)
        status = EngineStatus(
            model="guide", engine=request.engine, version="9", backend="cpu", state=EngineState.READY, context=4096
        )
        return msgspec.structs.replace(lease, engine=request.engine, see=lambda: status)

    monkeypatch.setattr(supervisor, "acquire_lease", acquire_of_engine)
    yield services
    await services.speed_measurements.close()
    await services.http.close()
    await services.chats.close()


class ScriptedRuns:
    """What each engine's benchmark comes to, instead of running it."""

    def __init__(self, outcomes: dict[str, BenchmarkReceipt | Exception]) -> None:
        self.outcomes = outcomes
        self.order: list[str] = []

    async def measure(self, request: StartBenchmark) -> BenchmarkReceipt:
        engine = request.settings.engine
        self.order.append(engine)
        outcome = self.outcomes[engine]
        if isinstance(outcome, Exception):
            raise outcome
        return msgspec.structs.replace(outcome, id=f"id-{engine}")


def script_runs(monkeypatch: pytest.MonkeyPatch, **outcomes: Sequence[float] | Exception) -> ScriptedRuns:
    """Have the old and the new engine come to these times per token, or fail so."""
    runs = ScriptedRuns(
        {
            engine: outcome if isinstance(outcome, Exception) else make_receipt(outcome, model="guide", engine=engine)
            for engine, outcome in ((OLD, outcomes["old"]), (NEW, outcomes["new"]))
        }
    )
    monkeypatch.setattr(BenchmarkRun, "measure", lambda _run, request: runs.measure(request))
    return runs


async def refuse_install(engine: str) -> None:
    pytest.fail(f"{engine} was not to be installed")


async def run_race(services: Services, request: StartRace, install: Any = refuse_install) -> RaceChanged:  # noqa: ANN401 -- a coroutine function
    races = Races(services, PlayedComputer().read)
    await races.start(request, install)
    async with asyncio.timeout(PATIENCE_S):
        await races.job.wait()
    assert races.job.last is not None
    return races.job.last


async def test_the_engine_that_a_scripted_pair_makes_faster_is_used(
    parts: Services, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.play = PairedEngine(cast("Any", parts.supervisor), {OLD: 0.05, NEW: 0.0}).answer
    monkeypatch.setattr(benchmark_run, "round_disturbances", lambda _: [])  # the test's computer may be as busy
    settings = BenchmarkSettings(requests=2, answer_tokens=12)
    end = await run_race(parts, StartRace(model="guide", settings=settings))
    assert end.error == ""
    result = end.result
    assert result is not None
    assert (result.engine_before, result.winner, result.is_change) == (OLD, NEW, True)
    assert parts.model_settings.settings_of("guide").engine == NEW
    assert {receipt.target.engine for receipt in await parts.chats.list_benchmarks()} == {OLD, NEW}


async def test_the_engine_of_before_stays_where_the_difference_is_noise(
    parts: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = script_runs(monkeypatch, old=STEADY, new=[part * 0.99 for part in STEADY])
    end = await run_race(parts, StartRace(model="guide"))
    assert end.result is not None
    assert (end.result.winner, end.result.is_change) == (OLD, False)
    assert parts.model_settings.settings_of("guide") == ModelSettings()
    assert sorted(runs.order) == sorted([OLD, NEW])


async def test_what_the_winner_has_no_option_for_is_set_no_longer(
    parts: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = ModelSettings(threads=3, flash_attention="off", batch_tokens=256)
    parts.model_settings.change_settings("guide", own)
    script_runs(monkeypatch, old=STEADY, new=[part * 0.5 for part in STEADY])
    end = await run_race(parts, StartRace(model="guide"))
    assert end.result is not None
    assert end.result.settings == ModelSettings(engine=NEW, threads=3), "mistral.rs would refuse the others"
    assert end.result.settings_before == own
    assert parts.model_settings.settings_of("guide") == end.result.settings


async def test_settings_that_only_one_engine_takes_keep_no_other_out_of_a_race(
    parts: Services, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.play = PairedEngine(cast("Any", parts.supervisor), {OLD: 0.05, NEW: 0.0}).answer
    monkeypatch.setattr(benchmark_run, "round_disturbances", lambda _: [])  # the test's computer may be as busy
    parts.model_settings.change_settings("guide", ModelSettings(flash_attention="off"))
    end = await run_race(parts, StartRace(model="guide", settings=BenchmarkSettings(requests=2, answer_tokens=12)))
    assert end.result is not None
    assert end.result.winner == NEW
    receipts = await parts.chats.list_benchmarks()
    notes = {receipt.target.engine: receipt.notes for receipt in receipts}
    assert notes == {OLD: [], NEW: ["mistral.rs has no option for what is set of flash_attention."]}


async def test_a_race_that_is_disturbed_changes_nothing(parts: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    script_runs(monkeypatch, old=STEADY, new=Conflict("It was disturbed.", code="benchmark_disturbed"))
    end = await run_race(parts, StartRace(model="guide"))
    assert (end.code, end.result) == ("benchmark_disturbed", None)
    assert parts.model_settings.settings_of("guide") == ModelSettings()
    assert await parts.chats.list_benchmarks() == []


async def test_an_engine_that_does_not_load_the_model_is_out_of_it(
    parts: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    script_runs(monkeypatch, old=STEADY, new=EngineFailed("It does not know this architecture."))
    end = await run_race(parts, StartRace(model="guide"))
    assert end.result is not None
    assert end.result.winner == OLD
    assert "architecture" in next(entry.problem for entry in end.result.entries if entry.engine == NEW)


async def test_a_newer_version_that_is_slower_is_told(parts: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    await parts.chats.save_benchmark(make_receipt([part / 2 for part in STEADY], model="guide", version="0"))
    script_runs(monkeypatch, old=STEADY, new=STEADY)
    end = await run_race(parts, StartRace(model="guide"))
    assert end.result is not None
    notes = {entry.engine: entry.note for entry in end.result.entries}
    assert "as slow as version 0" in notes[OLD]
    assert notes[NEW] == ""


async def test_only_what_is_named_is_installed(parts: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = cast("Any", parts.catalogue)
    catalogue.installed_engines = {OLD}
    with pytest.raises(BadRequest, match="Only llama"):
        await run_race(parts, StartRace(model="guide"))
    with pytest.raises(BadRequest, match="cannot be installed"):
        await run_race(parts, StartRace(model="guide", installs=["nosuch"]))
    script_runs(monkeypatch, old=STEADY, new=STEADY)
    installs: list[str] = []

    async def install(engine: str) -> None:
        installs.append(engine)
        catalogue.installed_engines.add(engine)

    plan = await plan_race(parts, "guide")
    missing_parts = [part for part in plan.candidates if not part.is_installed]
    assert all(part.download_bytes >= 0 for part in missing_parts)
    if NEW in {part.engine for part in missing_parts}:  # where there is none for this system, none is offered
        end = await run_race(parts, StartRace(model="guide", installs=[NEW]), install)
        assert installs == [NEW]
        assert end.result is not None


async def test_a_race_can_be_stopped_and_only_one_runs(parts: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    forever = asyncio.Event()

    async def wait_forever(*_: object) -> BenchmarkReceipt:
        await forever.wait()
        raise AssertionError

    monkeypatch.setattr(BenchmarkRun, "measure", wait_forever)
    races = Races(parts, PlayedComputer().read)
    await races.start(StartRace(model="guide"), refuse_install)
    with pytest.raises(Conflict, match="goes on"):
        await races.start(StartRace(model="guide"), refuse_install)
    await races.stop()
    assert races.job.last is not None
    assert (races.job.last.code, races.job.last.result) == ("cancelled", None)
    assert parts.model_settings.settings_of("guide") == ModelSettings()
