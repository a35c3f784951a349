"""Equal contents are found by their bytes, and share space only where nobody can be harmed by it."""

import os
import sys
from pathlib import Path

import pytest

from app.core.models import ModelInfo
from app.hub.disk import duplicates
from app.hub.disk.duplicates import FileCopy, describe_duplicate, find_equal, find_suspects, share_space
from app.hub.library.library import Library
from tests.gguf_files import TinyLlama

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="owners and inodes as POSIX has them")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "SMALLEST_BYTES", 4)


def model(file: Path, content: bytes, *, store: str = "") -> ModelInfo:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    name = file.stem
    return ModelInfo(name=name, title=name, path=str(file), format="gguf", size_bytes=len(content), store=store)


def find_copies(models: list[ModelInfo]) -> list[tuple[str, list[FileCopy]]]:
    return [duplicate for group in find_suspects(models) for duplicate in find_equal(group, lambda _file, _more: None)]


def test_only_what_is_equal_throughout_is_a_duplicate(tmp_path: Path) -> None:
    long = bytes(200_000)
    models = [
        model(tmp_path / "a.gguf", b"1" + long + b"1"),
        model(tmp_path / "b.gguf", b"1" + long + b"1"),
        model(tmp_path / "c.gguf", b"1" + long + b"2"),
        model(tmp_path / "d.gguf", b"1" + long[:100_000] + b"x" + long[:99_999] + b"1"),
        model(tmp_path / "e.gguf", b"short"),
    ]
    ((_, copies),) = find_copies(models)
    assert [copy.path.name for copy in copies] == ["a.gguf", "b.gguf"]


def test_two_names_of_one_file_are_no_duplicate(tmp_path: Path) -> None:
    first = model(tmp_path / "a.gguf", b"weights")
    os.link(tmp_path / "a.gguf", tmp_path / "b.gguf")
    second = ModelInfo(name="b", title="b", path=str(tmp_path / "b.gguf"), format="gguf", size_bytes=7)
    assert find_copies([first, second]) == []


def test_copies_share_the_space_of_one_and_stay_readable(tmp_path: Path) -> None:
    models = [model(tmp_path / name / "m.gguf", b"weights") for name in "abc"]
    ((digest, copies),) = find_copies(models)
    duplicate, kept_copy, free = describe_duplicate(digest, copies)
    assert duplicate.reclaims_bytes == 14
    assert all(share_space(kept_copy, copy) for copy in free)
    assert {Path(item.path).read_bytes() for item in models} == {b"weights"}
    assert [sorted(entry.name for entry in (tmp_path / name).iterdir()) for name in "abc"] == [["m.gguf"]] * 3
    assert (
        find_copies(models) == [] or kept_copy.path.stat().st_nlink == 1
    )  # a file system that clones keeps them apart


def test_models_that_share_their_space_keep_their_names(tmp_path: Path) -> None:
    for name in ("one", "two"):
        TinyLlama().write(tmp_path / f"{name}.gguf")
    library = Library(lambda: [tmp_path], tmp_path / "state" / "models.json", tmp_path / "none.gguf")
    ((digest, copies),) = find_copies(library.list_models())
    _, kept_copy, free = describe_duplicate(digest, copies)
    assert share_space(kept_copy, free[0])
    assert [model.name for model in library.list_models()] == ["guide", "one", "two"]


def test_a_link_of_the_hubs_cache_stays_a_link(tmp_path: Path) -> None:
    own = model(tmp_path / "a.gguf", b"weights")
    blob = tmp_path / "hub" / "blobs" / "abc"
    model(blob, b"weights")
    link = tmp_path / "hub" / "m.gguf"
    link.symlink_to(blob)
    cached_model = ModelInfo(name="m", title="m", path=str(link), format="gguf", size_bytes=7)
    ((digest, copies),) = find_copies([own, cached_model])
    _, kept_copy, free = describe_duplicate(digest, copies)
    assert share_space(kept_copy, free[0])
    assert link.is_symlink()
    assert link.read_bytes() == b"weights"


def test_another_programs_file_is_kept_and_never_replaced(tmp_path: Path) -> None:
    own = model(tmp_path / "a.gguf", b"weights")
    theirs = model(tmp_path / "ollama" / "x", b"weights", store="Ollama")
    also = model(tmp_path / "jan" / "y", b"weights", store="Jan")
    ((digest, copies),) = find_copies([own, theirs, also])
    duplicate, kept_copy, free = describe_duplicate(digest, copies)
    assert (kept_copy.store, [copy.path.name for copy in free]) == ("Jan", ["a.gguf"])
    assert any("belongs to Ollama" in note for note in duplicate.notes)


@pytest.mark.parametrize("changed_copy", ["kept", "copy"])
def test_what_changed_since_it_was_read_is_left_alone(tmp_path: Path, changed_copy: str) -> None:
    models = [model(tmp_path / f"{name}.gguf", b"weights") for name in "ab"]
    ((digest, copies),) = find_copies(models)
    _, kept_copy, free = describe_duplicate(digest, copies)
    file = (kept_copy if changed_copy == "kept" else free[0]).path
    file.write_bytes(b"changed")
    os.utime(file, ns=(0, 0))
    assert not share_space(kept_copy, free[0])
    assert file.read_bytes() == b"changed"


def test_another_disk_another_owner_and_a_closed_folder_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [model(tmp_path / f"{name}.gguf", b"weights") for name in "ab"]
    ((digest, (first, second)),) = find_copies(models)
    assert "another disk" in describe_duplicate(digest, [first, second._replace(device=first.device + 1)])[0].notes[0]
    assert "another user" in describe_duplicate(digest, [first, second._replace(owner=second.owner + 1)])[0].notes[0]
    monkeypatch.setattr("app.hub.disk.duplicates.os.access", lambda _path, _mode: False)
    assert "is not writable" in describe_duplicate(digest, [first, second])[0].notes[0]
