"""Cutting Markdown into pieces: the same whatever the packets, and bounded however long the text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.gui.markdown.pieces import MarkdownPiece, PieceKind
from app.gui.markdown.splitter import LONG_CODE, LONG_TABLE, LONG_TEXT, MarkdownSplitter

LINES = st.sampled_from(
    [
        "",
        "plain words",
        "- item",
        "  - nested",
        "1. one",
        "12. twelve",
        "   in the item",
        "- [x] done",
        "```python",
        "```",
        "    indented",
        "> quoted",
        "> - in a quote",
        ">",
        "# Head",
        "---",
        "===",
        "| a | b |",
        "|---|:-:|",
        "| 1 | 2 |",
        "* * *",
        "tab\tin it",
        "~~~",
    ]
)


def cut(text: str) -> list[MarkdownPiece]:
    cutter = MarkdownSplitter()
    return cutter.feed(text) + cutter.finish()


def describe_pieces(text: str) -> list[tuple[str, int, str, str]]:
    return [(piece.kind.value, piece.depth, piece.marker, piece.source) for piece in cut(text)]


@given(st.lists(LINES, max_size=14), st.data())
def test_packets_make_no_difference(lines: list[str], data: st.DataObject) -> None:
    text = "\n".join(lines)
    cutter, pieces, at = MarkdownSplitter(), [], 0
    while at < len(text):
        size = data.draw(st.integers(1, 9))
        pieces += cutter.feed(text[at : at + size])
        cutter.preview_tail()
        at += size
    assert pieces + cutter.finish() == cut(text)


@given(st.lists(LINES, max_size=14))
def test_no_word_is_lost(lines: list[str]) -> None:
    words = "".join(piece.source + piece.language for piece in cut("\n".join(lines)))
    for word in ("plain", "nested", "twelve", "quoted", "Head"):
        count = sum(word in line for line in lines)
        assert words.count(word) >= count or "~~~" in lines  # an open fence has a language of any words


def test_the_tail_changes_nothing() -> None:
    cutter = MarkdownSplitter()
    cutter.feed("- one\n- two **bo")
    first = cutter.preview_tail()
    assert cutter.preview_tail() == first
    assert [piece.source for piece in first] == ["one", "two **bo**"]


def test_lists_nest_by_indentation() -> None:
    assert describe_pieces("1. one\n   - deep\n     more\n\n   still one\n2. two\nplain after\n\nout") == [
        ("text", 1, "1.", "one"),
        ("text", 2, "◦", "deep\nmore"),
        ("text", 1, "", "still one"),
        ("text", 1, "2.", "two\nplain after"),
        ("text", 0, "", "out"),
    ]


def test_two_blanks_are_enough_to_nest_below_a_number() -> None:
    assert [piece[1] for piece in describe_pieces("1. one\n  - deep\n2. two")] == [1, 2, 1]


def test_tasks_show_their_boxes() -> None:
    assert describe_pieces("- [ ] open\n- [x] done") == [("text", 1, "☐", "open"), ("text", 1, "☑", "done")]


def test_code_in_a_list_keeps_its_own_indentation() -> None:
    assert describe_pieces("- see\n  ```py\n  if x:\n      y\n  ```\n  after") == [
        ("text", 1, "•", "see"),
        ("code", 1, "", "if x:\n    y"),
        ("text", 1, "", "after"),
    ]


def test_a_fence_closes_only_with_as_many_marks() -> None:
    assert describe_pieces("````\n```\n````\nx") == [("code", 0, "", "```"), ("text", 0, "", "x")]


def test_headings_rules_and_underlines() -> None:
    assert describe_pieces("# One #\nTwo\n===\nThree\n---\n\n---\n- four\n---") == [
        ("heading", 0, "", "One"),
        ("heading", 0, "", "Two"),
        ("heading", 0, "", "Three"),
        ("rule", 0, "", ""),
        ("text", 1, "•", "four"),
        ("rule", 0, "", ""),
    ]


def test_quotes_hold_any_block() -> None:
    pieces = cut("> a\n> > b\n> - c\n>\n> ```\n> d\n> ```\nout")
    assert [(piece.kind, piece.quote, piece.source) for piece in pieces] == [
        (PieceKind.TEXT, 1, "a"),
        (PieceKind.TEXT, 2, "b"),
        (PieceKind.TEXT, 1, "c"),
        (PieceKind.CODE, 1, "d"),
        (PieceKind.TEXT, 0, "out"),
    ]


def test_a_table_may_follow_a_paragraph_directly() -> None:
    assert describe_pieces("see:\n| a | b |\n|---|---|\n| 1 | 2 |\nend") == [
        ("text", 0, "", "see:"),
        ("table", 0, "", "| a | b |\n|---|---|\n| 1 | 2 |"),
        ("text", 0, "", "end"),
    ]


def test_a_number_other_than_one_goes_on_with_the_paragraph() -> None:
    assert describe_pieces("It was in\n1984. A year") == [("text", 0, "", "It was in\n1984. A year")]


def test_half_a_fence_is_not_shown() -> None:
    cutter = MarkdownSplitter()
    cutter.feed("text\n\n``")
    assert [piece.source for piece in cutter.preview_tail()] == []


def test_literal_text_keeps_its_signs_and_its_code() -> None:
    cutter = MarkdownSplitter(is_literal=True)
    pieces = cutter.feed("- no *list*\n  kept\n\n```sh\nls\n```\n") + cutter.finish()
    assert [(piece.kind, piece.source) for piece in pieces] == [
        (PieceKind.TEXT, "- no *list*\n  kept"),
        (PieceKind.CODE, "ls"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("packet", [7, 100_000])
def test_an_endless_paragraph_is_cut_and_nothing_is_lost(packet: int) -> None:
    text = "word after word, " * 6000
    cutter, pieces = MarkdownSplitter(), []
    for at in range(0, len(text), packet):
        pieces += cutter.feed(text[at : at + packet])
        assert sum(len(piece.source) for piece in cutter.preview_tail()) <= 2 * LONG_TEXT + packet
    pieces += cutter.finish()
    assert max(len(piece.source) for piece in pieces) <= 2 * LONG_TEXT
    assert "".join(piece.source for piece in pieces) == text
    assert len({piece.group for piece in pieces}) == 1
    assert [piece.is_glued for piece in pieces] == [False] + [True] * (len(pieces) - 1)


def test_a_word_without_an_end_is_cut_too() -> None:
    assert max(len(piece.source) for piece in cut("x" * 50_000)) <= 2 * LONG_TEXT


def test_long_code_is_cut_between_lines_of_one_block() -> None:
    source = "\n".join(f"line {number}" if number % 10 else "" for number in range(1, 5001))
    cutter = MarkdownSplitter()
    pieces = cutter.feed(f"```py\n{source}\n")
    assert len(cutter.preview_tail()[-1].source.splitlines()) <= LONG_CODE * 2
    pieces += cutter.feed("```\n") + cutter.finish()
    assert "\n".join(piece.source for piece in pieces) == source
    assert {(piece.group, piece.language) for piece in pieces} == {(1, "py")}
    assert [piece.is_first for piece in pieces] == [True] + [False] * (len(pieces) - 1)
    assert [piece.is_last for piece in pieces] == [False] * (len(pieces) - 1) + [True]


def test_a_long_table_repeats_its_header_in_every_piece() -> None:
    rows = "\n".join(f"| {number} | x |" for number in range(200))
    pieces = cut(f"| a | b |\n|---|---|\n{rows}\n")
    assert all(piece.source.startswith("| a | b |\n|---|---|") for piece in pieces)
    assert sum(piece.source.count("\n") - 1 for piece in pieces) == 200
    assert max(piece.source.count("\n") for piece in pieces) < LONG_TABLE


def test_control_characters_get_a_shape_and_carriage_returns_go() -> None:
    assert describe_pieces("a\x00b\x1bc\r\nd\te") == [("text", 0, "", "a\ufffdb\ufffdc\nd   e")]
