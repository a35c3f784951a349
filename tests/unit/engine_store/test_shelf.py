"""Versions as folders: whole or not there, found again by another process, gone when they are removed."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from app.core.engine_store import BUNDLED, OWN, Proof
from app.core.errors import NotFound, StorageFault
from app.engine_store.version_store import (
    MANIFEST,
    STAGE,
    STAGE_VARIABLE,
    STATE,
    VersionManifest,
    VersionState,
    VersionStore,
    record_proof,
    switch_version,
)

ENGINE = "x"


@pytest.fixture
def shelf(tmp_path: Path) -> VersionStore:
    return VersionStore(tmp_path / "engines")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def manifest(version: str = "1.0") -> VersionManifest:
    return VersionManifest(engine=ENGINE, version=version, variant="cpu", backend="cpu", kind="venv", python="python")


async def install(shelf: VersionStore, version: str = "1.0") -> VersionManifest:
    async with shelf.open_stage() as stage:
        (stage / "python").write_bytes(b"program")
        return await asyncio.to_thread(shelf.publish_version, stage, manifest(version))


async def test_a_version_is_there_once_it_is_published_and_its_stage_is_gone(
    shelf: VersionStore, tmp_path: Path
) -> None:
    kept_manifest = await install(shelf)
    assert (kept_manifest.name, kept_manifest.size_bytes) == ("1.0-cpu", 7)
    assert VersionStore(tmp_path / "engines").list_manifests(ENGINE) == [kept_manifest]
    assert names(tmp_path / "engines" / STAGE) == []
    place = shelf.find_place(ENGINE, "1.0-cpu")
    assert place is not None
    assert place.python == tmp_path / "engines" / ENGINE / "1.0-cpu" / "python"
    assert place.python.read_bytes() == b"program"


async def test_the_same_version_again_is_put_beside_the_first(shelf: VersionStore) -> None:
    assert [(await install(shelf)).name for _ in range(3)] == ["1.0-cpu", "1.0-cpu-2", "1.0-cpu-3"]


async def test_a_stage_whose_work_fails_leaves_nothing(shelf: VersionStore, tmp_path: Path) -> None:
    async def fail() -> None:
        async with shelf.open_stage() as stage:
            (stage / "half").write_bytes(b"x")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await fail()
    assert names(tmp_path / "engines" / STAGE) == []
    assert shelf.list_manifests(ENGINE) == []


async def test_a_disk_that_does_not_take_it_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageFault, match="could not be installed"):
        async with VersionStore(tmp_path / "file").open_stage():
            pass


async def test_what_is_used_outlives_the_process(shelf: VersionStore, tmp_path: Path) -> None:
    await install(shelf)
    assert shelf.read_state(ENGINE) == VersionState(current=BUNDLED)
    assert shelf.find_place(ENGINE, BUNDLED) is None
    shelf.change_state(ENGINE, lambda state: switch_version(state, "1.0-cpu"))
    assert VersionStore(tmp_path / "engines").read_state(ENGINE) == VersionState(current="1.0-cpu", previous=BUNDLED)


async def test_an_engine_that_did_not_come_along_has_nothing_to_go_back_to(shelf: VersionStore, tmp_path: Path) -> None:
    await install(shelf)
    shelf.change_state(ENGINE, lambda state: switch_version(state, "1.0-cpu"))
    alone = VersionStore(tmp_path / "engines", lambda _engine: False)
    assert alone.read_state(ENGINE) == VersionState(current="1.0-cpu")
    alone.change_state(ENGINE, lambda _state: switch_version(VersionState(), "1.0-cpu"))
    assert alone.read_state(ENGINE) == VersionState(current="1.0-cpu")


async def test_a_damaged_state_falls_back_to_what_came_with_us(shelf: VersionStore, tmp_path: Path) -> None:
    await install(shelf)
    (tmp_path / "engines" / ENGINE / STATE).write_bytes(b"{")
    assert VersionStore(tmp_path / "engines").read_state(ENGINE).current == BUNDLED


async def test_changes_are_told_and_what_changes_nothing_is_not(shelf: VersionStore) -> None:
    changes: list[str] = []
    shelf.on_change = changes.append
    shelf.change_state(ENGINE, lambda state: state)
    assert changes == []
    shelf.change_state(ENGINE, lambda state: switch_version(state, "a"))
    assert changes == [ENGINE]


async def test_removing_frees_the_folder_and_forgets_its_test(shelf: VersionStore, tmp_path: Path) -> None:
    await install(shelf)
    await install(shelf, "2.0")
    proof = Proof(at=1.0, code="gibberish", problem="Nonsense.")
    shelf.change_state(ENGINE, lambda state: record_proof(switch_version(state, "1.0-cpu"), "2.0-cpu", proof))
    shelf.change_state(ENGINE, lambda state: switch_version(state, "2.0-cpu"))
    shelf.remove_version(ENGINE, "2.0-cpu")
    state = shelf.read_state(ENGINE)
    assert (state.current, state.previous, state.bad, state.proofs) == ("1.0-cpu", "", {}, {})
    assert names(tmp_path / "engines" / ENGINE) == ["1.0-cpu", STATE]
    assert names(tmp_path / "engines" / STAGE) == []


@pytest.mark.parametrize("name", ["9-cpu", "..", "../x", "", "a/b"])
def test_what_is_not_there_cannot_be_removed_or_used(shelf: VersionStore, name: str) -> None:
    with pytest.raises(NotFound):
        shelf.remove_version(ENGINE, name)
    with pytest.raises(NotFound):
        shelf.find_place(ENGINE, name)


async def test_a_folder_somebody_renamed_is_no_version(shelf: VersionStore, tmp_path: Path) -> None:
    await install(shelf)
    home = tmp_path / "engines" / ENGINE
    (home / "1.0-cpu").rename(home / "mine")
    (home / "empty").mkdir()
    (home / "broken").mkdir()
    (home / "broken" / MANIFEST).write_bytes(b"{}")
    assert shelf.list_manifests(ENGINE) == []


def test_a_program_of_ones_own_that_is_gone_is_said(shelf: VersionStore, tmp_path: Path) -> None:
    own = tmp_path / "llama-server"
    shelf.change_state(ENGINE, lambda _state: VersionState(own=str(own)))
    with pytest.raises(NotFound, match="no longer there"):
        shelf.find_place(ENGINE, OWN)
    own.write_bytes(b"")
    place = shelf.find_place(ENGINE, OWN)
    assert place is not None
    assert place.executable == own


async def test_a_sweep_removes_what_a_killed_process_left_and_nothing_that_is_being_made(
    shelf: VersionStore, tmp_path: Path
) -> None:
    left_folder = tmp_path / "engines" / STAGE / "left"
    (left_folder / "venv").mkdir(parents=True)
    async with shelf.open_stage() as stage:
        assert shelf.sweep_stages() == 1
        assert stage.is_dir()
    assert not left_folder.exists()


def test_a_sweep_ends_programs_that_still_fill_a_stage(shelf: VersionStore, tmp_path: Path) -> None:
    (tmp_path / "engines" / STAGE / "left").mkdir(parents=True)
    code = "print('started', flush=True); import time; time.sleep(600)"
    filler = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, STAGE_VARIABLE: "left"}, stdout=subprocess.PIPE
    )
    other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        for process in (filler, other):
            assert process.stdout is not None
            process.stdout.readline()
        shelf.sweep_stages()
        assert not psutil.pid_exists(filler.pid)
        assert psutil.pid_exists(other.pid)
        assert other.poll() is None
    finally:
        for process in (filler, other):
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


async def test_a_version_whose_description_is_damaged_is_none_and_the_others_stay(
    shelf: VersionStore, tmp_path: Path
) -> None:
    first, second = await install(shelf, "1.0"), await install(shelf, "2.0")
    (tmp_path / "engines" / ENGINE / "1.0-cpu" / "manifest.json").write_text("{")
    assert shelf.list_manifests(ENGINE) == [second]
    assert shelf.read_manifest(ENGINE, first.name) is None
    assert shelf.read_manifest(ENGINE, "../x/2.0-cpu") is None


async def test_an_engine_that_came_along_can_be_gone_back_to(tmp_path: Path) -> None:
    shelf = VersionStore(tmp_path / "engines", lambda _engine: True)
    await install(shelf)
    shelf.change_state(ENGINE, lambda state: switch_version(state, "1.0-cpu"))
    assert shelf.read_state(ENGINE).previous == BUNDLED
