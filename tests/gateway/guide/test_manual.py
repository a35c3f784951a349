"""The manual that comes with the program: its index, what is left out, and a version with other texts."""

from pathlib import Path

import pytest

from app.config.paths import DOCS
from app.core.errors import NotFound
from app.core.guide import MANUAL
from app.gateway.guide.manual import PARTS, Manual

CHAPTER = (
    "# Trams\n\n![A tram](../images/tram.png)\nTrams are for [short ways](other.md).\n\n"
    "## Depots\n\nA tram sleeps here.\n"
)


@pytest.fixture(name="docs")
def fixture_docs(tmp_path: Path) -> Path:
    for part in (*PARTS, "internals"):
        (tmp_path / "docs" / part).mkdir(parents=True)
    (tmp_path / "docs" / "guide" / "trams.md").write_text(CHAPTER)
    (tmp_path / "docs" / "internals" / "wires.md").write_text("# Wires\n\nTrams have wires.\n")
    return tmp_path / "docs"


def test_chapters_for_people_and_programs_are_searched_without_links_and_pictures(docs: Path, tmp_path: Path) -> None:
    manual = Manual(docs, tmp_path / "index")
    assert list(manual.texts) == ["guide/trams.md"]
    assert "Trams are for short ways." in manual.read_text("guide/trams.md")
    assert "tram.png" not in manual.read_text("guide/trams.md")
    (passage, *_) = manual.search("depots", count=3)
    assert (passage.collection, passage.file) == (MANUAL, "guide/trams.md")
    assert manual.read_text("guide/trams.md")[passage.start : passage.end] == passage.text
    with pytest.raises(NotFound):
        manual.read_text("internals/wires.md")


def test_a_section_is_found_by_how_its_heading_begins(docs: Path, tmp_path: Path) -> None:
    manual = Manual(docs, tmp_path / "index")
    section = manual.find_section("guide/trams.md", "Trams")
    assert section is not None
    assert section.text.startswith("# Trams")
    assert manual.find_section("guide/trams.md", "Buses") is None
    assert manual.find_section("guide/buses.md", "Buses") is None


def test_another_version_of_the_texts_is_read_again(docs: Path, tmp_path: Path) -> None:
    assert Manual(docs, tmp_path / "index").search("sleeps", count=3)
    (docs / "guide" / "trams.md").write_text(CHAPTER.replace("sleeps", "rests"))
    (docs / "guide" / "buses.md").write_text("# Buses\n\nA bus sleeps outside.\n")
    later = Manual(docs, tmp_path / "index")
    assert [passage.file for passage in later.search("sleeps", count=3)] == ["guide/buses.md"]
    assert [passage.file for passage in later.search("rests", count=3)] == ["guide/trams.md"]
    (docs / "guide" / "buses.md").unlink()
    assert Manual(docs, tmp_path / "index").search("sleeps", count=3) == []


@pytest.mark.slow
def test_the_real_manual_answers_what_is_in_its_headings(tmp_path: Path) -> None:
    passage = Manual(DOCS, tmp_path / "index").find_answer("how does xet storage work with downloads")
    assert passage is not None
    assert (passage.path, passage.heading) == ("guide/downloads.md", "Downloads > Xet storage")
    assert Manual(DOCS, tmp_path / "index").find_answer("how do I bake bread") is None
