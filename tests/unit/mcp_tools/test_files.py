"""Files of chosen folders for models: listed, read, searched, and nothing outside of them."""

import sys
from pathlib import Path

import msgspec
import pytest

from app.mcp_tools import files
from app.mcp_tools.files import FindText, FolderReader, ListFolder, ReadFile, make_tools
from app.mcp_tools.toolbox import ToolMistake


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "trips").mkdir(parents=True)
    (folder / "trips" / "vienna.md").write_text("# Vienna\nTrain at 07:28\nHotel\n", "utf-8")
    (folder / "list.txt").write_text("milk\nBREAD\n", "utf-8")
    (folder / "photo.jpg").write_bytes(b"\xff\xd8\0\0")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("train", "utf-8")
    (tmp_path / "secret.txt").write_text("train of thought", "utf-8")
    return folder


@pytest.fixture
def reader(notes: Path) -> FolderReader:
    return FolderReader([notes])


def test_folders_are_listed(reader: FolderReader, notes: Path) -> None:
    assert reader.list_folder(ListFolder()).startswith(str(notes))
    listing = reader.list_folder(ListFolder(str(notes))).splitlines()
    assert [line.split(" ")[0].rstrip("/\\") for line in listing] == [".git", "trips", "list.txt", "photo.jpg"]
    assert reader.list_folder(ListFolder("trips")) == "vienna.md (30 bytes)"
    with pytest.raises(ToolMistake, match="is no folder"):
        reader.list_folder(ListFolder("list.txt"))


def test_lines_of_a_text_are_read(reader: FolderReader) -> None:
    assert reader.read_file(ReadFile("list.txt")) == "1: milk\n2: BREAD"
    assert reader.read_file(ReadFile("trips/vienna.md", first_line=2, lines=1)) == "2: Train at 07:28\n(1 more lines)"
    assert reader.read_file(ReadFile("list.txt", first_line=9)) == "(The file has 2 lines.)"
    for path, sentence in (("photo.jpg", "no text file"), ("trips", "is no file")):
        with pytest.raises(ToolMistake, match=sentence):
            reader.read_file(ReadFile(path))


def test_texts_are_found_in_any_case(reader: FolderReader, notes: Path) -> None:
    assert reader.find_text(FindText("train")) == f"{notes / 'trips' / 'vienna.md'}:2: Train at 07:28"
    assert reader.find_text(FindText("bread", path="list.txt")).endswith("list.txt:2: BREAD")
    assert reader.find_text(FindText("train", ending=".txt")) == "Nothing in 1 files has this text."


@pytest.mark.parametrize("path", ["../secret.txt", "/etc/passwd", "~/x", "trips/../../secret.txt", "gone.txt"])
def test_nothing_outside_is_read(reader: FolderReader, path: str) -> None:
    with pytest.raises(ToolMistake, match="in the folders that can be read"):
        reader.read_file(ReadFile(path))


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_links_lead_nowhere_outside(reader: FolderReader, notes: Path) -> None:
    (notes / "link.txt").symlink_to(notes.parent / "secret.txt")
    (notes / "folder").symlink_to(notes.parent)
    (notes / "inside.txt").symlink_to(notes / "list.txt")
    for path in ("link.txt", "folder/secret.txt"):
        with pytest.raises(ToolMistake):
            reader.read_file(ReadFile(path))
    assert reader.read_file(ReadFile("inside.txt")) == "1: milk\n2: BREAD"
    assert "thought" not in reader.find_text(FindText("train"))


def test_much_is_cut(reader: FolderReader, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (notes / "long.txt").write_text("word\n" * 500 + "x" * 5000, "utf-8")
    assert "More was found" in reader.find_text(FindText("word"))
    monkeypatch.setattr(files, "_MOST_ENTRIES", 2)
    assert reader.list_folder(ListFolder(str(notes))).endswith("(3 more)")
    monkeypatch.setattr(files, "_LARGEST_BYTES", 100)
    with pytest.raises(ToolMistake, match="is larger than"):
        reader.read_file(ReadFile("long.txt"))
    monkeypatch.setattr(files, "_MOST_SEARCHED", 1)
    assert "Only the first 1 files" in reader.find_text(FindText("bread"))


def test_what_can_be_read_is_in_the_description(notes: Path) -> None:
    tools = make_tools([str(notes)])
    assert str(notes) in tools[0].description
    result = tools[1].call({"path": "list.txt", "lines": 100_000})
    assert result.is_error
    assert isinstance(msgspec.json.encode(tools[1].schema), bytes)
