"""What real use teaches: which answers count, which calibration is used, and what is kept of a load."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from app.config.paths import Paths, guide_gguf
from app.core.advice import Calibration, EstimateAccuracy, Generation, best_calibration
from app.core.engines import EngineState, EngineStatus
from app.core.errors import EngineFailed
from app.core.events import CalibrationChanged
from app.core.machine import Machine
from app.gateway.advising import advice, calibration, quiet_rounds
from app.gateway.advising.advice import runtime_shift
from app.gateway.advising.calibration import Calibrator
from app.gateway.advising.quiet_rounds import ProcessorTimes
from app.gateway.advising.speed_measurements import generation_from
from app.gateway.loading import memory_fit
from app.gateway.services import Services
from app.hardware.description import machine_from
from app.supervisor.lease import Lease
from app.supervisor.policy import LoadRequest
from engines.api import LaunchOptions, ModelFormat, ModelSource
from tests.patience import PATIENCE_S


@pytest.fixture
async def parts(services: Services) -> AsyncIterator[Services]:
    """The parts of a gateway that is not opened, and so does not close them."""
    yield services
    await services.http.close()
    await services.chats.close()


STATUS = EngineStatus(
    model="guide", engine="llama.cpp", version="1", backend="cpu", state=EngineState.READY, in_flight=1
)
TIMINGS = {"cache_n": 4, "prompt_n": 200, "prompt_ms": 500.0, "predicted_n": 64, "predicted_ms": 2000.0}


def test_an_answers_times_become_a_generation() -> None:
    generation = generation_from(STATUS, TIMINGS)
    assert generation is not None
    assert (generation.prompt_tokens, generation.cached_tokens, generation.completion_tokens) == (200, 4, 64)
    assert (generation.prefill_s, generation.decode_s, generation.device) == (0.5, 2.0, "cpu")


@pytest.mark.parametrize("change", [{"predicted_n": 3}, {"predicted_ms": 0.0}])
def test_an_answer_that_tells_nothing_is_none(change: dict[str, float]) -> None:
    assert generation_from(STATUS, TIMINGS | change) is None
    assert generation_from(STATUS, {}) is None


def calibration_with(**fields: Any) -> Calibration:  # noqa: ANN401 -- the fields of Calibration
    base = {"device": "cpu", "engine": "llama.cpp", "version": "1", "backend": "cpu"}
    figures = {"efficiency": 0.8, "layer_seconds": 2e-5, "bandwidth_gb_s": 40.0}
    return Calibration(**(base | figures | fields))


def test_the_build_at_hand_comes_before_a_newer_measurement_of_another() -> None:
    this, newer = calibration_with(version="1", measured_at=1.0), calibration_with(version="2", measured_at=2.0)
    assert best_calibration([this, newer], engine="llama.cpp", backend="cpu", version="1") is this
    assert best_calibration([this, newer], engine="llama.cpp", backend="cpu") is newer
    assert best_calibration([this, newer], engine="llama.cpp", backend="cuda") is None
    assert best_calibration([], engine="llama.cpp", backend="cpu") is None


@pytest.mark.parametrize(("least_bytes", "samples"), [(0, 3), (64 << 20, 2)])
async def test_answers_are_kept_and_those_of_models_of_size_refine_what_was_calibrated(
    parts: Services, monkeypatch: pytest.MonkeyPatch, least_bytes: int, samples: int
) -> None:
    monkeypatch.setattr("app.gateway.advising.speed_measurements.LEAST_BYTES", least_bytes)
    measurements = parts.speed_measurements
    measurements._facts = cast("Any", _Facts(guide_gguf()))
    measurements._machine = cast("Any", _Reader(small_machine(8)))
    await measurements.keep_calibration(calibration_with(samples=2, efficiency=0.02, layer_seconds=1e-3))
    measurements.learn_from(STATUS, {**TIMINGS, "predicted_ms": 640.0})
    await measurements.close()
    assert [generation.model for generation in await parts.chats.list_generations()] == ["guide"]
    (kept_calibration,) = await parts.chats.list_calibrations()
    assert kept_calibration.samples == samples


def test_buffers_are_named_as_estimates_name_them() -> None:
    buffers = advice.sum_buffers({"model": 10, "kv": 20, "recurrent": 5, "compute": 3, "output": 1, "other": 99})
    assert buffers == {"weights": 10, "kv": 20, "state": 5, "compute": 3, "output": 1, "total": 39}
    assert advice.sum_buffers({}) == {}


def load(resident: int | None, *, shift: int = 0, engine: str = "llama.cpp") -> EstimateAccuracy:
    return EstimateAccuracy(
        model="guide",
        engine=engine,
        version="1",
        predicted={"runtime": 30 + shift, "total": 130 + shift},
        logged={"total": 100},
        resident=resident,
        runtime_shift=shift,
    )


def test_what_loads_took_moves_the_next_prediction() -> None:
    assert runtime_shift([], "llama.cpp") is None
    assert runtime_shift([load(120)], "llama.cpp") == -10
    assert runtime_shift([load(120, shift=-10), load(120)], "llama.cpp") == -10, "what was moved is not moved again"
    assert runtime_shift([load(500), load(120), load(122)], "llama.cpp") == -8, "one odd load decides nothing"


def test_loads_that_say_nothing_move_nothing() -> None:
    assert runtime_shift([load(None), load(40), load(120, engine="vllm")], "llama.cpp") is None


def small_machine(free_gib: float) -> Machine:
    return machine_from(msgspec.json.encode({"os": "linux", "ram_gb": 16, "free_ram_gb": free_gib, "cores": 4}))


class _Reader:
    def __init__(self, machine: Machine) -> None:
        self._machine = self.last = machine

    async def read(self) -> Machine:
        return self._machine

    async def measure(self) -> Machine:
        return self._machine

    read_free = read


class _Facts:
    def __init__(self, path: Path) -> None:
        self._path = path

    async def find(self, _name: str) -> Any:  # noqa: ANN401 -- facts
        return await self.of_file(self._path)

    async def of_file(self, path: Path) -> Any:  # noqa: ANN401 -- facts
        from app.hub.facts import read_facts  # noqa: PLC0415 -- as the reader itself does

        return read_facts(path)


def guide_request(context: int, slots: int, engine: str = "llama.cpp") -> LoadRequest:
    source = ModelSource(name="guide", path=guide_gguf(), format=ModelFormat.GGUF)
    return LoadRequest(engine=engine, source=source, options=LaunchOptions(context=context, slots=slots))


@pytest.mark.parametrize(
    ("free_gib", "expected_fit"),
    [(8.0, (4096, 4)), (1.1, (4096, 4)), (1.062, (4096, 1)), (1.0, (2048, 1))],
)
async def test_a_load_takes_what_there_is_room_for(
    parts: Services, monkeypatch: pytest.MonkeyPatch, free_gib: float, expected_fit: tuple[int, int]
) -> None:
    """With a gibibyte kept free, four conversations of the Guide take some 85 MiB, one some 55."""
    monkeypatch.setattr("psutil.virtual_memory", lambda: _Free(int(free_gib * 2**20)))
    wired_services = replace_services(parts, machine=_Reader(small_machine(free_gib)), facts=_Facts(guide_gguf()))
    fit = await memory_fit.fit_load(wired_services, guide_request(4096, 4))
    assert (fit.options.context, fit.options.slots) == expected_fit


class _Free:
    def __init__(self, available: int) -> None:
        self.available = available


async def test_an_engine_of_ones_own_is_left_alone(parts: Services) -> None:
    request = guide_request(4096, 4, engine="mine")
    assert (await memory_fit.fit_load(parts, request)).is_for(request)


async def test_a_file_that_cannot_be_read_is_the_engines_to_judge(parts: Services, tmp_path: Path) -> None:
    source = ModelSource(name="x", path=tmp_path / "none.gguf", format=ModelFormat.GGUF)
    request = LoadRequest(engine="llama.cpp", source=source)
    assert await memory_fit.fit_load(parts, request) is request


def replace_services(services: Services, **fields: object) -> Services:
    import dataclasses  # noqa: PLC0415 -- here only

    return dataclasses.replace(services, **cast("Any", fields))


@pytest.fixture
def hardly_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute for the computer to become quiet, which it does not while tests run, would be a minute of each test."""
    monkeypatch.setattr(quiet_rounds, "QUIET_POLL_S", 0.01)
    monkeypatch.setattr(quiet_rounds, "QUIET_WAIT_S", 0.05)


@pytest.fixture
def quick_synthetic(hardly_waiting: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.hub.synthetic.write_synthetic", lambda path: path.write_bytes(b"model"))


async def wait_for_end(calibrator: Calibrator) -> CalibrationChanged:
    async with asyncio.timeout(PATIENCE_S):
        while calibrator.job.last is None or not calibrator.job.last.done:  # noqa: ASYNC110 -- it publishes to a hub
            await asyncio.sleep(0.01)
    return calibrator.job.last


@pytest.mark.usefixtures("quick_synthetic")
async def test_a_calibration_that_fails_says_why_and_leaves_no_file(parts: Services, paths: Paths) -> None:
    wired_services = replace_services(parts, machine=_Reader(small_machine(8)))
    cast("Any", wired_services.supervisor).refuse_with = EngineFailed("It has no room.", hint="Free some.", code="x")
    calibrator = Calibrator(wired_services)
    calibrator.start()
    assert (await wait_for_end(calibrator)).error == "It has no room. Free some."
    assert list(paths.state.glob("*.gguf")) == []
    assert await parts.chats.list_calibrations() == []


@pytest.mark.usefixtures("quick_synthetic")
async def test_a_calibration_can_be_stopped_and_begun_again(parts: Services, paths: Paths) -> None:
    wired_services = replace_services(parts, machine=_Reader(small_machine(8)))
    supervisor = cast("Any", wired_services.supervisor)
    supervisor.may_load.clear()
    calibrator = Calibrator(wired_services)
    await calibrator.stop()
    assert calibrator.job.last is None
    calibrator.start()
    calibrator.start()
    async with asyncio.timeout(PATIENCE_S):
        while not supervisor.waiter_count:  # noqa: ASYNC110 -- the stand-in tells nobody
            await asyncio.sleep(0.01)
    assert supervisor.waiter_count == 1
    await calibrator.stop()
    assert calibrator.job.last is not None
    assert (calibrator.job.last.done, calibrator.job.last.error) == (True, "It was stopped; nothing was changed.")
    assert list(paths.state.glob("*.gguf")) == []


def test_what_a_calibration_sends_fits_its_context() -> None:
    assert calibration.PROMPT_TOKENS + calibration.ANSWER_TOKENS < calibration.CONTEXT


def test_generations_have_the_devices_name_only_where_it_is_certain() -> None:
    on_gpu = msgspec.structs.replace(STATUS, backend="cuda")
    generation = generation_from(on_gpu, TIMINGS)
    assert isinstance(generation, Generation)
    assert generation.device == ""


class _Times:
    """The processors' times, of which other programs take the shares told, one for each look; then none."""

    def __init__(self, *shares: float) -> None:
        self._shares = list(shares)
        self._capacity_s = self._busy_s = 0.0

    def __call__(self, _pids: Sequence[int]) -> ProcessorTimes:
        self._capacity_s += 1.0
        self._busy_s += self._shares.pop(0) if self._shares else 0.0
        return ProcessorTimes(capacity_s=self._capacity_s, busy_s=self._busy_s, own_s=0.0)


class _TimedCalibrator(Calibrator):
    """Its answers take as long as they are told, in milliseconds a token."""

    def __init__(self, services: Services, times: _Times, *token_ms: float) -> None:
        super().__init__(services, times)
        self._token_ms = list(token_ms)
        self.rounds = 0

    async def _time_answer(self, lease: Lease, number: int) -> Generation:  # noqa: ARG002 -- as the calibrator calls it
        self.rounds += 1
        token_ms = self._token_ms.pop(0) if len(self._token_ms) > 1 else self._token_ms[0]
        timings = {"prompt_n": 512, "prompt_ms": 900.0, "predicted_n": 64, "predicted_ms": 64 * token_ms}
        generation = generation_from(STATUS, timings)
        assert generation is not None
        return generation


@pytest.fixture
def measured_parts(parts: Services, hardly_waiting: None, monkeypatch: pytest.MonkeyPatch) -> Services:
    """Parts of a gateway in which a calibration measures the Guide only, on a machine that the table knows."""
    monkeypatch.setattr("app.hub.synthetic.write_synthetic", lambda path: path.write_bytes(guide_gguf().read_bytes()))
    description = {"os": "linux", "cpu": "AMD Ryzen 9 7950X", "ram_gb": 16, "cores": 8, "ram_bandwidth_gb_s": 40}
    reader = _Reader(machine_from(msgspec.json.encode(description)))
    return replace_services(parts, machine=reader, facts=_Facts(guide_gguf()))


async def calibrate_services(
    services: Services, times: _Times, *token_ms: float
) -> tuple[_TimedCalibrator, CalibrationChanged]:
    calibrator = _TimedCalibrator(services, times, *token_ms)
    calibrator.start()
    return calibrator, await wait_for_end(calibrator)


async def test_a_quiet_calibration_takes_three_rounds_and_is_kept(measured_parts: Services) -> None:
    calibrator, end = await calibrate_services(measured_parts, _Times(), 10.0)
    assert end.error == ""
    assert calibrator.rounds == 6, "three of each of two models"
    (kept_calibration,) = await measured_parts.speed_measurements.calibrations()
    assert kept_calibration.disturbances == []
    assert best_calibration([kept_calibration], engine="llama.cpp", backend="cpu") is kept_calibration


async def test_rounds_that_others_disturb_are_repeated(measured_parts: Services) -> None:
    quiet_polls, busy_rounds = [0.0, 0.0, 0.0], [0.0, 0.8, 0.0, 0.0, 0.0, 0.8, 0.0, 0.0, 0.0]
    calibrator, end = await calibrate_services(measured_parts, _Times(*quiet_polls, *busy_rounds), 30.0, 25.0, 10.0)
    assert end.error == ""
    assert calibrator.rounds > 6
    assert (await measured_parts.speed_measurements.calibrations())[0].disturbances == []


async def test_a_first_run_that_was_disturbed_is_marked_and_predicts_nothing(measured_parts: Services) -> None:
    _, end = await calibrate_services(measured_parts, _Times(*[0.6] * 80), 10.0)
    assert end.error == ""
    (kept_calibration,) = await measured_parts.speed_measurements.calibrations()
    assert kept_calibration.disturbances == ["Other programs used 60 % of the processors."]
    assert best_calibration([kept_calibration], engine="llama.cpp", backend="cpu") is None


async def test_a_disturbed_run_leaves_the_earlier_result(measured_parts: Services) -> None:
    await calibrate_services(measured_parts, _Times(), 10.0)
    (earlier,) = await measured_parts.speed_measurements.calibrations()
    calibrator, end = await calibrate_services(measured_parts, _Times(*[0.6] * 80), 25.0)
    assert end.code == "calibration_disturbed"
    assert "60 % of the processors" in end.error
    assert calibrator.rounds == 16, "eight of each of two models"
    assert await measured_parts.speed_measurements.calibrations() == [earlier]


async def test_a_run_slower_than_an_earlier_quiet_run_is_refused_until_that_is_forgotten(
    measured_parts: Services,
) -> None:
    await calibrate_services(measured_parts, _Times(), 10.0)
    _, end = await calibrate_services(measured_parts, _Times(), 25.0)
    assert "an earlier quiet run" in end.error
    await measured_parts.speed_measurements.forget_all()
    _, end = await calibrate_services(measured_parts, _Times(), 25.0)
    assert end.error == ""


async def test_an_undisturbed_run_replaces_a_marked_one(measured_parts: Services) -> None:
    await calibrate_services(measured_parts, _Times(*[0.6] * 80), 25.0)
    await calibrate_services(measured_parts, _Times(), 10.0)
    (kept_calibration,) = await measured_parts.speed_measurements.calibrations()
    assert kept_calibration.disturbances == []


def test_the_processors_times_count_what_others_take() -> None:
    before = quiet_rounds.read_processor_times()
    spin_until = time.process_time() + 0.2
    while time.process_time() < spin_until:
        pass
    after = quiet_rounds.read_processor_times()
    assert after.own_s - before.own_s > 0.1, "what this process took is its own"
    assert 0.0 <= after.other_share(before) <= 1.0
    theirs = ProcessorTimes(capacity_s=10.0, busy_s=8.0, own_s=5.0)
    assert theirs.other_share(ProcessorTimes(capacity_s=0.0, busy_s=0.0, own_s=0.0)) == pytest.approx(0.3)
