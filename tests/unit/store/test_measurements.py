"""Measurements survive a restart, replace what they supersede, and never grow without end."""

from pathlib import Path

import msgspec
import pytest

from app.core.advice import Calibration, EstimateAccuracy, Generation
from app.core.errors import NotFound
from app.store import measurements
from app.store.database import ChatStore
from tests.unit.benchmark.receipts import make_receipt

CALIBRATION = Calibration(
    device="cpu",
    engine="llama.cpp",
    version="1",
    backend="cpu",
    efficiency=0.8,
    layer_seconds=2e-5,
    bandwidth_gb_s=40.0,
)
GENERATION = Generation(
    model="guide",
    engine="llama.cpp",
    version="1",
    backend="cpu",
    device="cpu",
    prompt_tokens=20,
    cached_tokens=0,
    completion_tokens=40,
    prefill_s=0.1,
    decode_s=1.0,
)
LOAD = EstimateAccuracy(model="guide", engine="llama.cpp", version="1", predicted={"kv": 10}, logged={"kv": 10})


async def test_measurements_survive_a_restart(tmp_path: Path) -> None:
    store = await ChatStore.open(tmp_path / "chats.db")
    await store.save_calibration(CALIBRATION)
    await store.add_generation(GENERATION)
    await store.add_load(LOAD)
    await store.close()
    store = await ChatStore.open(tmp_path / "chats.db")
    assert await store.list_calibrations() == [CALIBRATION]
    assert await store.list_generations() == [GENERATION]
    assert await store.list_loads() == [LOAD]
    await store.close()


async def test_receipts_are_listed_by_model_and_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements, "KEPT_BENCHMARKS", 3)
    store = await ChatStore.open(tmp_path / "chats.db")
    for number in range(5):
        receipt = make_receipt([0.01] * 3, model="even" if number % 2 == 0 else "odd")
        await store.save_benchmark(msgspec.structs.replace(receipt, id=f"id{number}", at=float(number)))
    assert [receipt.id for receipt in await store.list_benchmarks()] == ["id4", "id3", "id2"]
    assert [receipt.id for receipt in await store.list_benchmarks(model="odd")] == ["id3"]
    assert (await store.find_benchmark("id2")).target.model == "even"
    await store.delete_benchmark("id2")
    with pytest.raises(NotFound, match="id2"):
        await store.delete_benchmark("id2")
    await store.close()


async def test_a_calibration_replaces_the_one_for_the_same_build_only(tmp_path: Path) -> None:
    store = await ChatStore.open(tmp_path / "chats.db")
    newer = msgspec.structs.replace(CALIBRATION, efficiency=0.7)
    other_build = msgspec.structs.replace(CALIBRATION, version="2")
    for calibration in (CALIBRATION, other_build, newer):
        await store.save_calibration(calibration)
    assert await store.list_calibrations() == [newer, other_build]
    await store.forget_calibrations()
    assert await store.list_calibrations() == []
    await store.close()


async def test_only_the_last_are_kept_newest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements, "KEPT_GENERATIONS", 3)
    monkeypatch.setattr(measurements, "KEPT_LOADS", 2)
    store = await ChatStore.open(tmp_path / "chats.db")
    for number in range(5):
        await store.add_generation(msgspec.structs.replace(GENERATION, at=float(number)))
        await store.add_load(msgspec.structs.replace(LOAD, at=float(number)))
    assert [sample.at for sample in await store.list_generations()] == [4.0, 3.0, 2.0]
    assert [sample.at for sample in await store.list_loads()] == [4.0, 3.0]
    await store.close()


async def test_what_a_later_version_wrote_is_left_out(tmp_path: Path) -> None:
    store = await ChatStore.open(tmp_path / "chats.db")
    await store.add_load(LOAD)
    await store._run_job(lambda connection: connection.execute("INSERT INTO loads (model, value) VALUES ('x', '{}')"))
    assert await store.list_loads() == [LOAD]
    await store.close()
