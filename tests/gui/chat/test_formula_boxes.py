"""Formulas in the transcript: beside words and by themselves, in the text's colour, selected and copied as TeX."""

import pytest
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from app.gui.screens.chat.transcript.formula_box import FormulaBox
from app.gui.screens.chat.transcript.table_box import TableBox
from app.gui.screens.chat.transcript.text_box import TextBox
from app.gui.screens.chat.transcript.transcript import Transcript
from app.gui.screens.chat.turns import TurnView
from app.gui.theme.theme import Theme
from tests.demo import long_chat

WIDE = " + ".join(f"x_{{{number}}}" for number in range(60))
TEXT = (
    r"The value \(\frac{1}{2}\) is a half." + "\n\n\\[\nx = \\frac{a}{b}\n\\]\n\n"
    "| Name | Formula |\n|---|---|\n| Sum | $\\sum_{i=1}^n i$ |\n\nPlain."
)


@pytest.fixture
def area(qtbot: QtBot, theme: Theme) -> Transcript:
    area = Transcript(theme)
    qtbot.addWidget(area)
    area.resize(900, 700)
    area.show()
    return area


def show(area: Transcript, text: str) -> list[object]:
    area.show_turns([TurnView(message=long_chat.make_answer(1, text))])
    area.grab()
    return list(area.document.turns[0].boxes)


def test_each_kind_of_place_shows_formulas(area: Transcript) -> None:
    text, formula, table, plain, _foot = show(area, TEXT)
    assert isinstance(text, TextBox)
    assert isinstance(formula, FormulaBox)
    assert isinstance(table, TableBox)
    assert isinstance(plain, TextBox)
    assert text.height > plain.height, "a line is as high as what stands in it"
    assert "\\" not in text.text


def test_a_selection_is_copied_as_tex(area: Transcript) -> None:
    show(area, TEXT)
    area.document.select_range((0, 0, 4), (0, 3, 5))
    assert area.document.selection_text() == (
        "value \\(\\frac{1}{2}\\) is a half.\n\\[\nx = \\frac{a}{b}\n\\]\nName\tFormula\nSum\t$\\sum_{i=1}^n i$\nPlain"
    )


def test_a_formula_is_selected_from_either_side(area: Transcript) -> None:
    _, formula, *_ = show(area, TEXT)
    assert isinstance(formula, FormulaBox)
    corner = area.document.turns[0].box_corner(1)
    y = corner.y() + formula.height / 2
    assert area.document.position_at(corner.x() + 10, y)[1:] == (1, 0)
    assert area.document.position_at(corner.x() + 700, y)[1:] == (1, 1)


@pytest.mark.parametrize("percent", [100, 200])
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_a_formula_has_the_colour_and_the_size_of_the_text(
    area: Transcript, theme: Theme, mode: str, percent: int
) -> None:
    _, at_first, *_ = show(area, TEXT)
    assert isinstance(at_first, FormulaBox)
    height = at_first.height
    theme.set_mode("dark" if mode == "dark" else "light")
    theme.set_percent(percent)
    _, formula, *_ = show(area, TEXT)
    assert isinstance(formula, FormulaBox)
    assert formula.height == pytest.approx(height * percent / 100, rel=0.05)
    image, ink = area.viewport().grab().toImage(), theme.color("ink")
    corner = area.document.turns[0].box_corner(1)
    top = round(corner.y() - area.offset)
    assert ink.rgb() in colors_in(image, top, top + round(formula.height))


def colors_in(image: QImage, top: int, bottom: int) -> set[int]:
    rows = range(top, min(bottom, image.height()))
    return {image.pixel(x, y) for y in rows for x in range(image.width())}


def test_a_formula_wider_than_the_column_is_made_smaller(area: Transcript) -> None:
    formula, *_ = show(area, f"$${WIDE}$$")
    assert isinstance(formula, FormulaBox)
    assert formula._picture is not None
    assert formula._picture.width <= area.viewport().width()
    text, *_ = show(area, f"So ${WIDE}$ it is")
    assert isinstance(text, TextBox)
    assert text.natural <= area.viewport().width()


def test_what_cannot_be_drawn_stands_there_as_it_was_written(area: Transcript) -> None:
    text, *_ = show(area, "\\[\n\\frobnicate{x}_1 * y_1 * z\n\\]")
    assert isinstance(text, TextBox)
    assert text.text == "\\[\u2028\\frobnicate{x}_1 * y_1 * z\u2028\\]"
