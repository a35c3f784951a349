r"""Formulas: found by rule and not where dollars are money, drawn or shown as they are, and quiet while they arrive."""

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QByteArray
from PySide6.QtSvg import QSvgRenderer

from app.gui.markdown.pieces import MarkdownPiece, PieceKind, TextStyle, rich_of
from app.gui.markdown.splitter import MarkdownSplitter
from app.markdown.formulas import (
    LONGEST,
    block_tex,
    draw_formula,
    find_formulas,
    half_formula_at,
    speak_formulas,
)

ROOT = Path(__file__).resolve().parents[3]
CORPUS = [
    line for line in (ROOT / "tests/data/formulas.tex").read_text("utf-8").splitlines() if line and line[0] != "%"
]


def pieces_of(text: str) -> list[MarkdownPiece]:
    cutter = MarkdownSplitter()
    return [*cutter.feed(text), *cutter.finish()]


def tex_in(text: str) -> list[str]:
    return [formula.tex for formula in find_formulas(text)]


def test_what_models_write_is_drawn() -> None:
    assert len(set(CORPUS)) >= 500
    undrawn = [tex for tex in CORPUS if draw_formula(tex, is_display=True) is None]
    assert len(undrawn) <= 0.03 * len(CORPUS), undrawn


def test_a_drawing_is_one_that_qt_reads_whole() -> None:
    for tex in CORPUS[::7]:
        formula_drawing = draw_formula(tex, is_display=False)
        if formula_drawing is not None:
            assert QSvgRenderer(QByteArray(formula_drawing.svg.encode())).isValid(), tex
            assert "<text" not in formula_drawing.svg, "nothing but shapes"
            assert formula_drawing.width > 0
            assert formula_drawing.ascent + formula_drawing.descent > 0


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        (r"The \(x^2\) of it", ["x^2"]),
        (r"Then \[x = 1\] follows", ["x = 1"]),
        ("So $$x = 1$$ follows", ["x = 1"]),
        ("for $x$, $y_1$ and $n$th", ["x", "y_1", "n"]),
        ("$O(n \\log n)$ and $f(x)$", ["O(n \\log n)", "f(x)"]),
        ("($a = b$), “$c$”; $AB$.", ["a = b", "c", "AB"]),
        ("$n log n$", ["n log n"]),
        ("$\\text{if it rains}$", ["\\text{if it rains}"]),
        (r"$\$5 + \$6$", [r"\$5 + \$6"]),
        ("其中$x$是变量", []),
        ("其中 $x$ 是变量", ["x"]),
    ],
)
def test_formulas_are_found(text: str, formulas: list[str]) -> None:
    assert tex_in(text) == formulas


@pytest.mark.parametrize(
    "text",
    [
        "It costs $5 and $10.",
        "From $20-$30 to $1,000.",
        "between $20K and $30K",
        "US$ 5, A$7 and 10$ or 20$",
        "$5, you have 10$.",
        "$HOME/bin and $PATH",
        "export FOO=$BAR:$BAZ",
        "${HOME}/a:${PATH}/b",
        "`$x$` in code, `\\(y\\)` too",
        r"\$x\$ is escaped, \\(so\\) is this",
        "the price is $100 (was $200)",
        "$ x $ with blanks",
        "$$$ is how dear it is, $$$$ dearer",
        "a lone $ and a \\( that never ends",
        "I paid $5.50 for it, and they paid $6 = too much",
    ],
)
def test_money_variables_and_code_are_no_formulas(text: str) -> None:
    assert tex_in(text) == []


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("Before:\n\\[\nx = 1\n\\]\nafter", "\\[\nx = 1\n\\]"),
        ("Before:\n\n$$\n- x\n= 1\n\n+ 2\n$$\n\nafter", "$$\n- x\n= 1\n\n+ 2\n$$"),
        ("$$ x = 1 $$", "$$ x = 1 $$"),
        ("\\[ x = 1 \\].", "\\[ x = 1 \\]."),
        ("\\begin{align*}\na &= b \\\\\n&= c\n\\end{align*}", "\\begin{align*}\na &= b \\\\\n&= c\n\\end{align*}"),
        ("> \\[ x \\]", "\\[ x \\]"),
        ("1. First:\n   $$\n   x\n   $$\n2. Second", "$$\nx\n$$"),
    ],
)
def test_a_formula_of_its_own_is_a_piece_of_its_own(text: str, source: str) -> None:
    (formula,) = [piece for piece in pieces_of(text) if piece.kind is PieceKind.MATH]
    assert formula.source == source


def test_delimiters_are_not_drawn_and_what_ends_the_sentence_is() -> None:
    assert block_tex("$$\nx\n$$") == "x"
    assert block_tex("\\[ x \\].") == "x."
    assert block_tex("\\begin{align} x \\end{align}") == "\\begin{align} x \\end{align}"


def test_a_formula_that_never_ends_is_read_as_text() -> None:
    kinds = [piece.kind for piece in pieces_of("$$\n# Title\n\n- item\n")]
    assert PieceKind.MATH not in kinds
    assert PieceKind.HEADING in kinds
    longest = pieces_of("$$\n" + "x + y\n" * LONGEST + "\n# Title\n")
    assert longest[-1].kind is PieceKind.HEADING
    fenced_pieces = pieces_of("$$\nx\n```python\nprint()\n```\n")
    assert fenced_pieces[-1].kind is PieceKind.CODE


def test_a_sentence_that_goes_on_after_a_formula_stays_one() -> None:
    (piece,) = pieces_of("$$x = 1$$ is what we want, and \\[y\\] too.")
    assert piece.kind is PieceKind.TEXT
    assert [formula.source for formula in rich_of(piece).formulas] == ["$$x = 1$$", "\\[y\\]"]


ARRIVING = (
    "We **know** that \\(a_1 * b_1 * c_{1}\\) and $x_1 * y_1$ hold, for $5 *each*; then\n\n"
    "\\[\n- a_1 * b\n# c\n= d\n\\]\n\nand **so** on."
)


def test_half_a_formula_never_becomes_markup_nor_another_paragraph() -> None:
    cutter, frozen_pieces = MarkdownSplitter(), []
    for end in range(1, len(ARRIVING) + 1):
        frozen_pieces += cutter.feed(ARRIVING[end - 1 : end])
        pieces = [*frozen_pieces, *cutter.preview_tail()]
        assert all(piece.kind in {PieceKind.TEXT, PieceKind.MATH} for piece in pieces), ARRIVING[:end]
        texts = [piece for piece in pieces if piece.kind is PieceKind.TEXT]
        assert len(texts) <= 3
        for rich in map(rich_of, texts):
            styled_texts = {rich.text[span.start : span.start + span.length] for span in rich.spans if span.style}
            assert not {word for word in styled_texts if not re.fullmatch(r"kno?w?|k|so?|each?|ea?", word)}, ARRIVING[
                :end
            ]
    assert [piece.kind for piece in [*frozen_pieces, *cutter.finish()]] == [
        PieceKind.TEXT,
        PieceKind.MATH,
        PieceKind.TEXT,
    ]


def test_a_price_is_not_held_back() -> None:
    assert half_formula_at("It costs $5 and") is None
    assert half_formula_at("See \\(x^2") == 4
    assert half_formula_at("See $x^2") == 4
    assert half_formula_at("See `\\(x^2` and `$x") is None
    assert half_formula_at("See $" + "x" * 300) is None


def test_a_long_line_is_not_cut_within_a_formula() -> None:
    text = ("word " * 305) + r"then \(" + "a + " * 100 + r"b\) " + "word " * 600
    sources = [formula.source for piece in pieces_of(text) for formula in rich_of(piece).formulas]
    assert len(sources) == 1


@pytest.mark.parametrize("tex", [r"\frobnicate{x}", r"\frac{1}{", "x" * (LONGEST + 1), r"\hspace{1000000em} x", "质量"])
def test_what_cannot_be_drawn_is_shown_as_it_was_written(tex: str) -> None:
    assert draw_formula(tex, is_display=False) is None
    (piece,) = pieces_of(f"So \\({tex[:900]}\\).")
    rich = rich_of(piece)
    assert (not rich.formulas and f"\\({tex[:900]}\\)" in rich.text) or len(tex) > LONGEST
    assert all(span.style is TextStyle.CODE for span in rich.spans)


@pytest.mark.slow
def test_hostile_formulas_end_in_a_bounded_drawing_or_none() -> None:
    chance = random.Random(7)  # noqa: S311 -- the same signs each time
    signs = [sign for tex in CORPUS for sign in re.findall(r"\\[a-zA-Z]+|\\.|.", tex)]
    hostile = [
        *("{" * 3000, "x^" * 1900, r"\left(" * 600, r"\sqrt[" * 600, "&" * 3000, r"\\" * 1900, r"\begin{matrix}" * 200),
        *(r"\def\a{\a\a}\a", r"\begin{array}{*{1000000}{c}} a \end{array}", r"\rule{1e9em}{1e9em}", "\0", "<script>"),
        *("".join(chance.choices(signs, k=chance.randrange(60))) for _ in range(2000)),
    ]
    for tex in hostile:
        formula_drawing = draw_formula(tex, is_display=True)
        assert formula_drawing is None or ("script" not in formula_drawing.svg and "url(" not in formula_drawing.svg)


def test_markup_within_a_formula_is_none() -> None:
    (piece,) = pieces_of(r"Then \(a < b \text{<b>x</b>}\) and <b>bold</b>")
    (formula,) = rich_of(piece).formulas
    assert "<b>" not in formula.drawing.svg


def test_a_screen_reader_hears_a_formula_in_words() -> None:
    assert speak_formulas(r"So $x^2$ and \(\frac{1}{2}\)") == "So x squared and 1 over 2"
    assert speak_formulas("It costs $5.") == "It costs $5."


def test_the_window_starts_without_what_draws_formulas() -> None:
    code = "import app.gui.main, app.gui.screens.chat.view, sys; sys.exit('mathra' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("See https://example.com/a_b?x=1&y=2.", "https://example.com/a_b?x=1&y=2"),
        ("(http://example.com/wiki/A_(b))", "http://example.com/wiki/A_(b)"),
        ("**https://example.com**", "https://example.com"),
        ("[named](https://example.com/x)", "https://example.com/x"),
    ],
)
def test_a_bare_address_is_a_link(text: str, link: str) -> None:
    (piece,) = pieces_of(text)
    assert [span.link for span in rich_of(piece).spans if span.link] == [link]


@pytest.mark.parametrize("text", ["`https://example.com`", "javascript://example.com", "file:///etc/passwd"])
def test_code_and_other_schemes_are_no_links(text: str) -> None:
    (piece,) = pieces_of(text)
    assert not [span for span in rich_of(piece).spans if span.link]
