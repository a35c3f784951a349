"""The child that tells what is free of graphics memory, and who asks it."""

import sys

import msgspec
import pytest

from app.core.machine import Fact, Gpu, Machine
from app.hardware import free
from app.hardware.facts import ProbePart
from app.hardware.free import FreeMemoryReader, families_to_watch, free_by_gpu
from app.hardware.probe import read_machine

ECHO = "import sys\nfor at, _ in enumerate(sys.stdin): print('{\"0000:01:00.0\": %d}' % at, flush=True)"


def gpu(vendor: str, *, is_integrated: bool = False) -> Gpu:
    return Gpu(
        id=vendor,
        vendor=vendor,
        name=Fact(),
        driver=Fact(),
        compute=Fact(),
        memory_total=Fact(),
        memory_free=Fact(),
        integrated=Fact(value=is_integrated),
    )


async def machine_with(*gpus: Gpu) -> Machine:
    return msgspec.structs.replace(await read_machine(families=["base"]), gpus=list(gpus))


async def test_the_child_stays_and_is_asked_again() -> None:
    memory = FreeMemoryReader([sys.executable, "-c", ECHO])
    assert await memory.read_free(["nvidia"]) == {"0000:01:00.0": 0}
    assert await memory.read_free(["nvidia"]) == {"0000:01:00.0": 1}
    await memory.close()
    assert await memory.read_free(["nvidia"]) == {"0000:01:00.0": 0}, "a new one"
    await memory.close()


async def test_a_child_that_ends_or_talks_nonsense_costs_the_figures(caplog: pytest.LogCaptureFixture) -> None:
    for program in ("pass", "input(); print('nonsense', flush=True); input()"):
        memory = FreeMemoryReader([sys.executable, "-c", program])
        assert await memory.read_free(["nvidia"]) == {}
        await memory.close()
        assert "could not be read" in caplog.text
        caplog.clear()


async def test_nobody_is_asked_where_there_is_nothing_to_ask() -> None:
    assert await FreeMemoryReader(["/nowhere"]).read_free([]) == {}


async def test_what_is_asked_follows_from_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free, "THIS_SYSTEM", "linux")
    machine = await machine_with(gpu("nvidia"), gpu("amd"), gpu("intel", is_integrated=True))
    assert families_to_watch(machine) == ["nvidia", "sysfs"]
    assert families_to_watch(await machine_with(gpu("intel", is_integrated=True))) == []


def test_a_family_without_gpus_has_nothing_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free, "find_family", lambda _system, _name: lambda _evidence: ProbePart())
    assert free_by_gpu(["sysfs"]) == {}
