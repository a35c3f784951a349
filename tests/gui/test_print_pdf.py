"""A page on paper: formulas are shapes on their line, as wide as there is room, and nothing is opened."""

import pypdfium2
import pypdfium2.raw as pdfium
import pytest
from pytestqt.qtbot import QtBot

from app.gui.print_pdf import print_pdf
from app.markdown.rendering import PageRenderer

_PAPER_WIDTH = 595
_MARGIN = 56
"""Points: two centimetres."""


class PaperPage:
    """The first page of a PDF: its words, the boxes of its shapes, and how many pictures it has. Points, from below."""

    def __init__(self, markdown: str) -> None:
        page = f"<html><body>{PageRenderer().render_text(markdown)}</body></html>"
        self._document = pypdfium2.PdfDocument(print_pdf(page))
        first = self._document[0]
        self.text = first.get_textpage().get_text_bounded()
        parts = list(first.get_objects())
        self.shapes = [part.get_bounds() for part in parts if part.type == pdfium.FPDF_PAGEOBJ_PATH]
        self.pictures = sum(part.type == pdfium.FPDF_PAGEOBJ_IMAGE for part in parts)

    def letter(self, index: int) -> tuple[float, float, float, float]:
        left, bottom, right, top = self._document[0].get_textpage().get_charbox(index)
        return left, bottom, right, top


def test_formulas_are_shapes_and_no_source_is_seen(qtbot: QtBot) -> None:
    bare = PaperPage("So is it.")
    page = PaperPage("So is \\(x^2\\):\n\n\\[\n\\frac{1}{2}\n\\]\n")
    assert len(page.shapes) >= len(bare.shapes) + 5
    assert page.pictures == 0
    assert not set("\\^{}") & set(page.text)


def test_what_cannot_be_drawn_is_on_paper_as_it_was_written(qtbot: QtBot) -> None:
    assert "\\(\\frobnicate{x}\\)" in PaperPage("So \\(\\frobnicate{x}\\).").text


@pytest.mark.parametrize(
    "after", ["", " and \\(\\frac{\\frac{a}{b}}{c}\\)", " and \\(\\sqrt{\\frac{a}{\\frac{b}{c}}}\\)"]
)
def test_a_formula_stands_on_the_line_of_its_words(after: str, qtbot: QtBot) -> None:
    bare = PaperPage("H")
    page = PaperPage(f"H \\(x\\){after}")
    left, bottom, right, _ = page.letter(0)
    shapes = sorted(shape for shape in page.shapes if shape not in bare.shapes and shape[0] > right)
    assert left < right < shapes[0][0]
    assert abs(shapes[0][1] - bottom) < 1.0


def test_a_wide_formula_is_made_as_wide_as_there_is_room(qtbot: QtBot) -> None:
    page = PaperPage("- in a list\n\n  $$ " + " + ".join(f"a_{{{n}}}" for n in range(60)) + " $$")
    right = max(shape[2] for shape in page.shapes)
    assert _PAPER_WIDTH / 2 < right <= _PAPER_WIDTH - _MARGIN


def test_an_image_that_is_called_like_a_formula_shows_nothing(qtbot: QtBot) -> None:
    page = PaperPage("![a](formula:7) ![b](formula:-1) ![c](formula:) ![d](file:///etc/hostname)")
    assert page.shapes == PaperPage("").shapes
