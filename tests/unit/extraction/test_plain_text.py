import json

import pytest

from app.core.attachments import LONGEST_TEXT, AttachmentKind, Extraction, ExtractionProblem, FileProblem
from app.extraction.program import extract


def read(name: str, content: bytes) -> Extraction:
    extraction = extract(name, content)
    assert isinstance(extraction, Extraction), extraction
    return extraction


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_text_is_read_in_usual_encodings(encoding: str) -> None:
    assert read("a.txt", "naïve\r\ncafé\rœuvre".encode(encoding)).text == "naïve\ncafé\nœuvre"


def test_a_last_character_that_was_cut_costs_only_itself() -> None:
    assert read("a.txt", "日本".encode()[:-1]).text == "日"
    assert read("a.txt", b"caf\xe9").text == "café"


@pytest.mark.parametrize("content", [b"\0" * 100, bytes(range(1, 32)) * 9, b"MZ\x90\0\x03" * 9, b"\xff\xfea"])
def test_what_is_no_text_is_not_taken_for_some(content: bytes) -> None:
    assert isinstance(extract("a.txt", content), ExtractionProblem)


@pytest.mark.parametrize(
    ("name", "media_type"),
    [("a.py", "text/x-python"), ("a.csv", "text/csv"), ("a.md", "text/markdown"), ("a", "text/plain")],
)
def test_code_and_tables_stay_as_they_are(name: str, media_type: str) -> None:
    text = "a,b\n1,2 <b> </b>\n"
    extraction = read(name, text.encode())
    assert (extraction.kind, extraction.media_type, extraction.text) == (AttachmentKind.TEXT, media_type, text)


def test_a_page_keeps_its_structure_and_loses_its_scripts() -> None:
    page = (
        "<!DOCTYPE html><html><head><title>T</title><style>x{}</style></head><body><h2>Head</h2><script>evil()</script>"
        '<p>One <a href="https://e.org/">link</a></p><ul><li>a</li><li>b</li></ul>'
        "<table><tr><th>x</th><th>y</th></tr><tr><td>1</td><td>2</td></tr></table></body></html>"
    )
    for name in ("a.html", "no-ending"):
        extraction = read(name, page.encode())
        assert extraction.media_type == "text/html"
        assert "## Head" in extraction.text
        assert "[link](https://e.org/)" in extraction.text
        assert "| 1 | 2 |" in extraction.text
        assert "- a" in extraction.text
        assert "evil" not in extraction.text
        assert "x{}" not in extraction.text


def test_a_notebook_is_its_cells_and_their_text() -> None:
    notebook = {
        "nbformat": 4,
        "cells": [
            {"cell_type": "markdown", "source": ["# Title\n", "words"]},
            {
                "cell_type": "code",
                "source": "print(1)",
                "outputs": [
                    {"output_type": "stream", "text": ["1\n"]},
                    {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": "<Figure>"}},
                    {"output_type": "error", "evalue": "division by zero"},
                ],
            },
        ],
    }
    text = read("a.ipynb", json.dumps(notebook).encode()).text
    assert text.startswith("# Title\nwords\n\n```\nprint(1)\n```")
    assert "Output:\n```\n1\n```" in text
    assert "<Figure>" in text
    assert "division by zero" in text
    assert "AAAA" not in text
    problem = extract("a.ipynb", b'{"cells": 1}')
    assert isinstance(problem, ExtractionProblem)
    assert problem.code == FileProblem.BROKEN


def test_a_long_text_is_cut_and_says_so() -> None:
    extraction = read("a.txt", b"x" * (LONGEST_TEXT + 1))
    assert (len(extraction.text), extraction.is_cut) == (LONGEST_TEXT, True)
    assert not read("a.txt", b"x" * LONGEST_TEXT).is_cut
