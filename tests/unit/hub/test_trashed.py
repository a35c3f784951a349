"""What Roundhouse moved to the trash is told by its own note; exactly that is deleted, and nothing beside it."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from app.core.errors import StorageFault
from app.hub.disk.trash import Trash
from app.hub.disk.trash_contents import ModelsInTrash, delete_entries, find_in_trash

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux's trash")

Thrown = Callable[..., Path]
OURS = "X-Roundhouse=model"


@pytest.fixture
def trash(tmp_path: Path) -> Trash:
    return Trash(tmp_path / "share" / "Trash")


@pytest.fixture
def bin_(tmp_path: Path) -> Path:
    place = tmp_path / "share" / "Trash"
    for folder in ("files", "info", "expunged"):
        (place / folder).mkdir(parents=True)
    (tmp_path / "models").mkdir()
    return place


@pytest.fixture
def throw(bin_: Path) -> Thrown:
    """Puts a file into the trash as Roundhouse does; `lay` is where it was, and `ours` what marks it."""

    def throw(name: str, lay: str | Path, content: str = "1234", ours: str = OURS) -> Path:
        file = bin_ / "files" / name
        file.write_text(content)
        path = quote(str(lay), safe="/%" if "%" in str(lay) else "/")
        note = f"[Trash Info]\nPath={path}\nDeletionDate=2026-01-01T00:00:00\n{ours}\n"
        (bin_ / "info" / f"{name}.trashinfo").write_text(note)
        return file

    return throw


def find_trashed(trash: Trash, tmp_path: Path) -> ModelsInTrash:
    """As on a disk that begins at `tmp_path`: what lies in the trash of the real one is nobody's to delete here."""
    return find_in_trash(trash, tmp_path)


def empty_trash(trash: Trash, what: ModelsInTrash) -> list[dict[str, int]]:
    reports: list[dict[str, int]] = []
    delete_entries(trash, what.entries, lambda _file, _more: None, lambda **changes: reports.append(changes))
    return reports


def list_left(bin_: Path) -> set[str]:
    return {f"{path.parent.name}/{path.name}" for path in bin_.glob("*/*")}


def test_what_roundhouse_threw_away_is_told_and_deleted(trash: Trash, bin_: Path, tmp_path: Path) -> None:
    assert find_trashed(trash, tmp_path) == ModelsInTrash([], None)
    for name in ("alone.gguf", "config.json"):  # registered by itself, not in a folder that is looked through
        (tmp_path / name).write_bytes(b"12345")
        trash.put_file(tmp_path / name)
    what = find_trashed(trash, tmp_path)
    assert what.contents is not None
    assert (what.contents.files, what.contents.size_bytes) == (2, 10)
    assert what.contents.paths == [str(tmp_path / "alone.gguf"), str(tmp_path / "config.json")]
    assert empty_trash(trash, what)[-1] == {"deleted_files": 2, "reclaimed_bytes": 10}
    assert list_left(bin_) == set()
    assert find_trashed(trash, tmp_path).contents is None


def test_what_others_threw_away_stays(trash: Trash, throw: Thrown, bin_: Path, tmp_path: Path) -> None:
    models = tmp_path / "models"
    throw("ours.gguf", models / "ours.gguf")
    throw("theirs.gguf", models / "theirs.gguf", ours="")
    throw("other.gguf", models / "other.gguf", ours="X-Roundhouse=other")
    throw("folder", models / "folder").unlink()
    (bin_ / "files" / "folder").mkdir()
    (bin_ / "files" / "folder" / "model.gguf").write_text("1234")
    before = list_left(bin_)
    empty_trash(trash, find_trashed(trash, tmp_path))
    assert before - list_left(bin_) == {"files/ours.gguf", "info/ours.gguf.trashinfo"}


def test_notes_written_in_percent_or_from_the_top_are_read(trash: Trash, throw: Thrown, tmp_path: Path) -> None:
    throw("one.gguf", f"{tmp_path}/m%6fdels/my%20one.gguf")
    throw("three.gguf", "models/three.gguf")  # from the folder that the trash is in
    throw("two.gguf", "../models/two.gguf")
    throw("up.gguf", f"{tmp_path}/models/../up.gguf")
    assert [entry.original for entry in find_trashed(trash, tmp_path).entries] == [
        tmp_path / "models" / "my one.gguf",
        tmp_path / "share" / "models" / "three.gguf",
    ]


@pytest.mark.parametrize(
    "note",
    [
        "",
        "Path={}\n",
        "[Trash Info]\n",
        "[Trash Info]\nPath=\n",
        "[Trash Info]\nPath={}%00\n",
        "[Trash Info]\nPath={}\n\u00ff\n",
        " [Trash Info]\nPath={}\n",
    ],
)
def test_a_broken_note_makes_it_somebody_elses(
    trash: Trash, throw: Thrown, bin_: Path, tmp_path: Path, note: str
) -> None:
    throw("m.gguf", tmp_path / "models" / "m.gguf")
    (bin_ / "info" / "m.gguf.trashinfo").write_text(f"{note.format(tmp_path / 'models' / 'm.gguf')}{OURS}\n")
    assert find_trashed(trash, tmp_path).entries == []


def test_what_has_no_note_or_no_file_is_left_alone(trash: Trash, throw: Thrown, bin_: Path, tmp_path: Path) -> None:
    throw("a.gguf", tmp_path / "models" / "a.gguf")
    (bin_ / "info" / "a.gguf.trashinfo").unlink()
    throw("b.gguf", tmp_path / "models" / "b.gguf").unlink()
    throw("c.gguf", tmp_path / "models" / "c.gguf")
    note = bin_ / "info" / "c.gguf.trashinfo"
    note.rename(tmp_path / "note")
    note.symlink_to(tmp_path / "note")
    if sys.platform != "win32":
        os.mkfifo(bin_ / "info" / "pipe.trashinfo")
    (bin_ / "info" / "folder.trashinfo").mkdir()
    assert find_trashed(trash, tmp_path).entries == []


def test_a_link_in_the_trash_is_deleted_itself_and_never_followed(
    trash: Trash, throw: Thrown, bin_: Path, tmp_path: Path
) -> None:
    kept_file = tmp_path / "kept"
    kept_file.mkdir()
    (kept_file / "weights.gguf").write_text("precious")
    for name, target in (
        ("file.gguf", kept_file / "weights.gguf"),
        ("folder.gguf", kept_file),
        ("broken.gguf", kept_file / "gone"),
    ):
        throw(name, tmp_path / "models" / name).unlink()
        (bin_ / "files" / name).symlink_to(target)
    empty_trash(trash, find_trashed(trash, tmp_path))
    assert list_left(bin_) == set()
    assert (kept_file / "weights.gguf").read_text() == "precious"


def test_a_trash_that_leads_elsewhere_is_not_looked_into(
    trash: Trash, throw: Thrown, bin_: Path, tmp_path: Path
) -> None:
    throw("m.gguf", tmp_path / "models" / "m.gguf")
    (bin_ / "files").rename(tmp_path / "real")
    (bin_ / "files").symlink_to(tmp_path / "real")
    assert find_trashed(trash, tmp_path).entries == []


def test_a_further_name_elsewhere_frees_nothing(trash: Trash, throw: Thrown, bin_: Path, tmp_path: Path) -> None:
    first = throw("a.gguf", tmp_path / "models" / "a.gguf")
    throw("b.gguf", tmp_path / "models" / "b.gguf").unlink()
    os.link(first, bin_ / "files" / "b.gguf")
    contents = find_trashed(trash, tmp_path).contents
    assert contents is not None
    assert (contents.files, contents.size_bytes) == (2, 4), "both names go"
    os.link(first, tmp_path / "models" / "a.gguf")
    what = find_trashed(trash, tmp_path)
    assert what.contents is not None
    assert (what.contents.files, what.contents.size_bytes) == (2, 0)
    assert empty_trash(trash, what)[-1] == {"deleted_files": 2, "reclaimed_bytes": 0}


def test_the_digest_stands_for_exactly_these(trash: Trash, throw: Thrown, bin_: Path, tmp_path: Path) -> None:
    file = throw("a.gguf", tmp_path / "models" / "a.gguf")
    digests = []
    for change in (lambda: None, lambda: throw("b.gguf", tmp_path / "models" / "b.gguf"), file.unlink):
        change()
        contents = find_trashed(trash, tmp_path).contents
        assert contents is not None
        digests.append(contents.digest)
        again = find_trashed(trash, tmp_path).contents
        assert again == contents
    assert len(set(digests)) == 3


def test_what_is_another_by_now_is_left(trash: Trash, throw: Thrown, bin_: Path, tmp_path: Path) -> None:
    throw("a.gguf", tmp_path / "models" / "a.gguf")
    throw("b.gguf", tmp_path / "models" / "b.gguf")
    what = find_trashed(trash, tmp_path)
    (bin_ / "files" / "a.gguf").rename(tmp_path / "models" / "a.gguf")  # brought back
    throw("b.gguf", tmp_path / "letters" / "b.gguf", "another file of that name")
    empty_trash(trash, what)
    assert list_left(bin_) == {"files/b.gguf", "info/b.gguf.trashinfo", "info/a.gguf.trashinfo"}
    assert (tmp_path / "models" / "a.gguf").exists()


def test_what_cannot_be_deleted_is_named_and_the_rest_goes(
    trash: Trash, throw: Thrown, bin_: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    throw("a.gguf", tmp_path / "models" / "theirs.gguf")
    throw("b.gguf", tmp_path / "models" / "b.gguf")
    throw("c.gguf", tmp_path / "models" / "c.gguf")
    really = Path.unlink

    def raise_refusal(path: Path, *, missing_ok: bool = False) -> None:
        if path.name in {"a.gguf", "b.gguf"}:
            raise PermissionError(13, "Permission denied")
        really(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", raise_refusal)
    reports: list[dict[str, int]] = []
    with pytest.raises(StorageFault) as error:
        delete_entries(
            trash,
            find_trashed(trash, tmp_path).entries,
            lambda _file, _more: None,
            lambda **changes: reports.append(changes),
        )
    assert str(error.value) == (
        "theirs.gguf, b.gguf could not be deleted and are still in the trash: Permission denied."
    )
    assert (error.value.code, reports[-1]) == ("trash_kept", {"deleted_files": 1, "reclaimed_bytes": 4})
    assert list_left(bin_) == {"files/a.gguf", "info/a.gguf.trashinfo", "files/b.gguf", "info/b.gguf.trashinfo"}
