"""Checks, searches and removals as the gateway does them: one at a time, told, called off, undone."""

import asyncio
import hashlib
import os
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest

from app.config.model_settings import ModelSettingsFile
from app.config.paths import this_home
from app.core.engines import EngineState, EngineStatus
from app.core.errors import Conflict, NotFound
from app.core.library import JobKind, LibraryJob, TrashContents, Verdict
from app.core.models import NO_PROJECTOR, ModelSettings
from app.gateway.events import EventHub
from app.gateway.library.file_jobs import FileJobs
from app.hub.disk import duplicates
from app.hub.disk.trash import Trash
from app.hub.library.library import Library
from tests.gguf_files import TinyLlama, projector_for
from tests.patience import PATIENCE_S

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux's trash")


class Setting:
    """No aliases; what a test puts there."""

    def __init__(self) -> None:
        self.lists: dict[str, list[str]] = {}
        self.flags: dict[str, bool] = {}

    def get_list(self, name: str) -> list[str]:
        return self.lists.get(name, [])

    def get_flag(self, name: str) -> bool:
        return self.flags[name]


class Engines:
    """What is loaded."""

    def __init__(self) -> None:
        self.statuses: list[EngineStatus] = []

    def list_statuses(self) -> list[EngineStatus]:
        return self.statuses


@pytest.fixture
def services(tmp_path: Path) -> Any:  # noqa: ANN401 -- stands in for a frozen class of many parts
    for name in ("models", "more"):
        (tmp_path / name).mkdir()
    return SimpleNamespace(
        library=Library(lambda: [tmp_path / "models"], tmp_path / "state" / "models.json", tmp_path / "none.gguf"),
        events=EventHub(),
        settings=Setting(),
        model_settings=ModelSettingsFile(),
        supervisor=Engines(),
        home=this_home({"HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}, "linux"),
    )


@pytest.fixture
async def work(services: Any, tmp_path: Path) -> AsyncIterator[FileJobs]:  # noqa: ANN401 -- as above
    work = FileJobs(cast("Any", services))
    work.trash = Trash(tmp_path / "trash", platform="linux")
    yield work
    await work.close()


async def wait_for_end(work: FileJobs) -> LibraryJob:
    async with asyncio.timeout(PATIENCE_S):
        await work.job.wait()
    assert not work.job.is_busy
    assert work.job.now.is_done
    return work.job.now


async def test_a_model_is_checked_and_every_byte_told(work: FileJobs, tmp_path: Path) -> None:
    file = TinyLlama().write(tmp_path / "models" / "m.gguf")
    first_job = await work.verify("m")
    assert (first_job.model, first_job.total_bytes, first_job.is_done) == ("m", file.stat().st_size, False)
    job = await wait_for_end(work)
    assert (job.done_bytes, job.error) == (job.total_bytes, None)
    assert [(check.path, check.verdict) for check in job.checks] == [(str(file), Verdict.WHOLE)]


async def test_one_job_at_a_time_and_it_can_be_called_off(work: FileJobs, tmp_path: Path) -> None:
    TinyLlama().write(tmp_path / "models" / "m.gguf")
    read_event, go_on = threading.Event(), threading.Event()

    def slow(files: list[Path], report: Any) -> Any:  # noqa: ANN401 -- as `verification.check_files`
        for file in files * 1000:
            read_event.set()
            assert go_on.wait(PATIENCE_S)
            report(file, 1)
            yield from ()

    with patch("app.hub.disk.verification.check_files", slow):
        await work.verify("m")
        assert await asyncio.to_thread(read_event.wait, PATIENCE_S)
        with pytest.raises(Conflict) as error:
            await work.find_duplicates(reclaim=False)
        assert error.value.code == "library_job_running"
        cancel_task = asyncio.create_task(work.job.cancel())
        await asyncio.sleep(0)
        go_on.set()
        await cancel_task
    job = await wait_for_end(work)
    assert job.error is not None
    assert job.error.code == "cancelled"
    assert job.done_bytes < 1000
    await work.verify("m")
    assert (await wait_for_end(work)).error is None


async def test_duplicates_are_found_and_reclaimed_when_asked(
    work: FileJobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplicates, "SMALLEST_BYTES", 1)
    content = TinyLlama().content()
    for name in ("one", "two"):
        (tmp_path / "models" / f"{name}.gguf").write_bytes(content)
    await work.find_duplicates(reclaim=False)
    (duplicate,) = (job := await wait_for_end(work)).duplicates
    assert (duplicate.sha256, duplicate.models) == (hashlib.sha256(content).hexdigest(), ["one", "two"])
    assert (job.reclaimed_bytes, duplicate.reclaims_bytes) == (0, len(content))
    await work.find_duplicates(reclaim=True)
    assert (await wait_for_end(work)).reclaimed_bytes == len(content)
    assert {file.read_bytes() for file in (tmp_path / "models").iterdir()} == {content}


async def test_what_was_found_is_reclaimed_without_reading_it_again_and_undone(
    work: FileJobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplicates, "SMALLEST_BYTES", 1)
    monkeypatch.setattr(duplicates, "_clone_blocks", lambda _source, _target: False)
    monkeypatch.setattr(duplicates, "_HEAD_ROOM_BYTES", 0)
    content = TinyLlama().content()
    files = [tmp_path / "models" / f"{name}.gguf" for name in ("one", "two", "three")]
    for file in files:
        file.write_bytes(content)
    await work.find_duplicates(reclaim=False)
    (duplicate,) = (await wait_for_end(work)).duplicates
    with patch("app.hub.disk.duplicates.sha256_of", side_effect=AssertionError):
        first_job = await work.reclaim([duplicate.sha256])
    assert (first_job.kind, first_job.total_bytes) == (JobKind.RECLAIM, duplicate.reclaims_bytes)
    job = await wait_for_end(work)
    assert (job.reclaimed_bytes, job.duplicates, job.can_undo) == (2 * len(content), [], True)
    assert (job.done_bytes, job.total_bytes) == (2 * len(content), 2 * len(content))
    assert len({file.stat().st_ino for file in files}) == 1
    first_job = await work.separate()
    assert (first_job.kind, first_job.total_bytes) == (JobKind.SEPARATE, 2 * len(content))
    job = await wait_for_end(work)
    assert (job.reclaimed_bytes, job.can_undo, job.error) == (-2 * len(content), False, None)
    assert len({file.stat().st_ino for file in files}) == 3
    assert {file.read_bytes() for file in files} == {content}


async def test_nothing_is_reclaimed_that_was_not_found_or_changed_since(
    work: FileJobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplicates, "SMALLEST_BYTES", 1)
    with pytest.raises(NotFound, match="No such duplicate files"):
        await work.reclaim([])
    with pytest.raises(NotFound, match="No files have been made to share"):
        await work.separate()
    content = TinyLlama().content()
    files = [tmp_path / "models" / f"{name}.gguf" for name in ("one", "two")]
    for file in files:
        file.write_bytes(content)
    await work.find_duplicates(reclaim=False)
    (duplicate,) = (await wait_for_end(work)).duplicates
    with pytest.raises(NotFound):
        await work.reclaim([duplicate.sha256, "0" * 64])
    os.utime(files[1], ns=(0, 0))
    await work.reclaim([])
    job = await wait_for_end(work)
    assert (job.reclaimed_bytes, job.can_undo) == (0, False)
    assert len({file.stat().st_ino for file in files}) == 2


async def test_what_lies_where_is_told(work: FileJobs, services: Any, tmp_path: Path) -> None:  # noqa: ANN401 -- as above
    own = TinyLlama().write(tmp_path / "models" / "m.gguf")
    (tmp_path / ".lmstudio/models").mkdir(parents=True)
    services.paths = SimpleNamespace(models=tmp_path / "models", hub_cache=tmp_path / "hub")
    services.settings.lists["models.folders"] = [str(tmp_path / "models"), str(tmp_path / "usb")]
    services.settings.flags["models.other_programs"] = True
    use = await work.read_disk_use()
    assert [(entry.title, entry.models, bool(entry.problem)) for entry in use.folders] == [
        ("Roundhouse's folder", 1, False),
        ("Hugging Face cache", 0, False),
        ("usb", 0, True),
        ("LM Studio", 0, False),
    ]
    assert [(entry.model, entry.size_bytes) for entry in use.holdings] == [("m", own.stat().st_size)]


async def test_a_removed_model_comes_back_as_it_was_registered(
    work: FileJobs,
    services: Any,  # noqa: ANN401 -- as above
    tmp_path: Path,
) -> None:
    file = TinyLlama().write(tmp_path / "more" / "m.gguf")
    services.library.register_path(file)
    plan = await work.plan_removal("m")
    assert (plan.id, plan.files, plan.frees_bytes) == ("", [str(file)], file.stat().st_size)
    before = services.events.revision
    removal = await work.remove("m", for_good=False)
    assert not file.exists()
    assert services.events.revision > before
    assert [model.name for model in services.library.list_models()] == ["guide"]
    assert (await work.undo(removal.id)).path == str(file)
    assert services.library.find_model("m").problem == ""
    with pytest.raises(NotFound):
        await work.undo(removal.id)


async def test_a_projector_goes_with_its_model_unless_another_was_given_it(
    work: FileJobs,
    services: Any,  # noqa: ANN401 -- as above
    tmp_path: Path,
) -> None:
    models = tmp_path / "models"
    model, projector = TinyLlama().write(models / "m.gguf"), projector_for(TinyLlama(), models / "mmproj.gguf")
    (models / "far").mkdir()
    TinyLlama().write(models / "far" / "far.gguf")
    services.model_settings.change_settings("far", ModelSettings(projector=str(projector)))
    assert (await work.plan_removal("m")).left == ["mmproj.gguf stays: far needs it."]
    services.model_settings.change_settings("far", ModelSettings(projector=NO_PROJECTOR))
    plan = await work.plan_removal("m")
    assert (plan.files, plan.projectors) == ([str(model), str(projector)], ["mmproj.gguf"])
    removal = await work.remove("m", for_good=False)
    assert [file.name for file in models.iterdir()] == ["far"]
    await work.undo(removal.id)
    assert projector.stat().st_size + model.stat().st_size == plan.frees_bytes


async def test_for_good_cannot_be_undone(work: FileJobs, tmp_path: Path) -> None:
    file = TinyLlama().write(tmp_path / "models" / "m.gguf")
    removal = await work.remove("m", for_good=True)
    assert (removal.id, removal.goes_to_trash, file.exists()) == ("", False, False)
    assert not (tmp_path / "trash").exists()


class TrashHere(Trash):
    """What lies in the real trash of this disk is nobody's to delete here."""

    def places_on(self, top: Path) -> list[Path]:
        del top
        return [self._home_trash]


@pytest.fixture
def trash_work(work: FileJobs, services: Any, tmp_path: Path) -> FileJobs:  # noqa: ANN401 -- as above
    """With two models in one folder, and their disk to look at."""
    work.trash = TrashHere(tmp_path / "trash", platform="linux")
    services.paths = SimpleNamespace(models=tmp_path / "models", hub_cache=tmp_path / "hub")
    services.settings.flags["models.other_programs"] = False
    for name in ("a", "b"):
        TinyLlama().write(tmp_path / "models" / f"{name}.gguf")
    return work


async def read_trash(work: FileJobs) -> TrashContents | None:
    (drive,) = (await work.read_disk_use()).drives
    return drive.trashed


@LINUX
async def test_models_in_the_trash_are_told_and_deleted_for_good(
    trash_work: FileJobs,
    services: Any,  # noqa: ANN401 -- as above
    tmp_path: Path,
) -> None:
    assert await read_trash(trash_work) is None
    size = (tmp_path / "models" / "a.gguf").stat().st_size
    removals = [await trash_work.remove(name, for_good=False) for name in ("a", "b")]
    (tmp_path / "trash" / "files" / "letter").write_text("not a model")
    trashed_file = await read_trash(trash_work)
    assert trashed_file is not None
    assert (trashed_file.files, trashed_file.size_bytes) == (2, 2 * size)
    before = services.events.revision
    first_job = await trash_work.empty_trash([trashed_file.digest])
    assert (first_job.kind, first_job.total_bytes) == (JobKind.EMPTY, 2 * size)
    job = await wait_for_end(trash_work)
    assert (job.deleted_files, job.reclaimed_bytes, job.done_bytes, job.error) == (2, 2 * size, 2 * size, None)
    assert services.events.revision > before
    assert [file.name for file in (tmp_path / "trash" / "files").iterdir()] == ["letter"]
    assert await read_trash(trash_work) is None
    with pytest.raises(NotFound, match="no longer in the trash"):
        await trash_work.undo(removals[0].id)
    assert list((tmp_path / "models").iterdir()) == []


@LINUX
async def test_only_what_was_named_is_deleted(trash_work: FileJobs, tmp_path: Path) -> None:
    removal = await trash_work.remove("a", for_good=False)
    trashed_file = await read_trash(trash_work)
    assert trashed_file is not None
    await trash_work.remove("b", for_good=False)
    for digests in ([trashed_file.digest], [], ["nonsense"]):
        with pytest.raises(Conflict) as error:
            await trash_work.empty_trash(digests)
        assert error.value.code == "trash_changed"
    assert (await trash_work.undo(removal.id)).name == "a"


async def test_where_the_system_keeps_the_trash_nothing_is_deleted(trash_work: FileJobs, tmp_path: Path) -> None:
    trash_work.trash = Trash(tmp_path / "trash", platform="darwin")
    assert await read_trash(trash_work) is None
    with pytest.raises(Conflict, match="macOS") as error:
        await trash_work.empty_trash(["any"])
    assert "Finder" in error.value.hint


@LINUX
async def test_emptying_can_be_called_off_between_two_files(trash_work: FileJobs, tmp_path: Path) -> None:
    for name in ("a", "b"):
        await trash_work.remove(name, for_good=False)
    trashed_file = await read_trash(trash_work)
    assert trashed_file is not None
    delete_event, go_on = threading.Event(), threading.Event()
    really = Path.unlink

    def slow(path: Path, *, missing_ok: bool = False) -> None:
        delete_event.set()
        assert go_on.wait(PATIENCE_S)
        really(path, missing_ok=missing_ok)

    with patch.object(Path, "unlink", slow):
        await trash_work.empty_trash([trashed_file.digest])
        assert await asyncio.to_thread(delete_event.wait, PATIENCE_S)
        cancel_task = asyncio.create_task(trash_work.job.cancel())
        await asyncio.sleep(0)
        go_on.set()
        await cancel_task
    job = await wait_for_end(trash_work)
    assert job.error is not None
    assert (job.error.code, job.deleted_files) == ("cancelled", 1)
    assert len(list((tmp_path / "trash" / "files").iterdir())) == 1


async def test_what_is_loaded_stays(work: FileJobs, services: Any, tmp_path: Path) -> None:  # noqa: ANN401 -- as above
    file = TinyLlama().write(tmp_path / "models" / "m.gguf")
    services.supervisor.statuses = [EngineStatus(model="m", engine="llama.cpp", state=EngineState.READY)]
    with pytest.raises(Conflict, match="is loaded"):
        await work.remove("m", for_good=True)
    assert file.exists()
    services.supervisor.statuses = [EngineStatus(model="m", engine="llama.cpp", state=EngineState.FAILED)]
    await work.remove("m", for_good=True)
    assert not file.exists()
