"""Colours of code read in runs."""

from app.gui.markdown.highlight import Ink, highlight_code


def words(language: str, text: str, carry: str = "") -> dict[str, Ink]:
    runs, _ = highlight_code(language, text, carry)
    wide = text.encode("utf-16-le")
    return {wide[run.start * 2 : (run.start + run.length) * 2].decode("utf-16-le"): run.ink for run in runs}


def test_a_language_is_coloured() -> None:
    inks = words("python", "def area(r):  # of a circle\n    return 3.14 * r\n")
    assert inks["def"] is Ink.KEYWORD
    assert inks["# of a circle"] is Ink.COMMENT
    assert inks["3.14"] is Ink.NUMBER


def test_an_unknown_language_is_plain() -> None:
    assert highlight_code("klingon", "def x") == ((), "")


def test_positions_count_utf16_units() -> None:
    assert words("python", '"🚂"; return')["return"] is Ink.KEYWORD


def test_a_string_over_two_runs_stays_a_string() -> None:
    _, carry = highlight_code("python", 'def f():\n    """One\n\n    two\n')
    assert carry
    inks = words("python", 'three\n"""\n    return 1\n', carry)
    assert inks["return"] is Ink.KEYWORD
    assert next(ink for text, ink in inks.items() if "three" in text) is Ink.STRING


def test_closed_code_carries_nothing() -> None:
    assert highlight_code("rust", "fn main() {\n}\n")[1] == ""


def test_changes_are_coloured_by_what_they_add_and_remove() -> None:
    change = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n kept\n-old\n+new"
    for language in ("diff", "patch"):
        runs, _ = highlight_code(language, change)
        inks = {change[run.start : run.start + run.length].strip(): run.ink for run in runs}
        assert inks["+new"] is Ink.ADDED
        assert inks["-old"] is Ink.REMOVED
        assert "kept" not in inks
