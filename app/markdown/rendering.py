"""Markdown as HTML for a page of its own: formulas are drawings in it, which need nothing beside the page."""

import html
import re
from collections.abc import Sequence
from itertools import count

from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from app.markdown.formulas import FormulaDrawing, draw_formula, read_drawing
from app.markdown.parser import markdown_parser

_SHAPE_NAME = re.compile(r'(?<=[#"])mathra-')
_VERSION, _LABEL = re.compile(r' data-mathra-version="[^"]*"'), re.compile(r'aria-labelledby="[^"]*"')

_DRAWING_START, _DRAWING_END = "<svg ", "</svg>"
DRAWING_SCHEME = "formula:"
"""Of the address of an image that stands for a drawing; the drawing's number follows."""


def take_out_drawings(page: str) -> tuple[str, list[FormulaDrawing | None]]:
    """Return a page with images in place of its drawings, and those, for a reader of HTML that knows no SVG."""
    drawings: list[FormulaDrawing | None] = []
    parts: list[str] = []
    done_at = 0
    # A pattern would look for the end from each beginning: where there is none, that grows with the square.
    while (start := page.find(_DRAWING_START, done_at)) >= 0 and (end := page.find(_DRAWING_END, start)) >= 0:
        parts += (page[done_at:start], f'<img src="{DRAWING_SCHEME}{len(drawings)}">')
        done_at = end + len(_DRAWING_END)
        drawings.append(read_drawing(page[start:done_at]))
    return "".join((*parts, page[done_at:])), drawings


class PageRenderer(RendererHTML):
    """Renders the texts of one page. The methods are rules: each renders the tokens that have its name."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = count(1)

    def render_text(self, text: str) -> str:
        """Return a text as HTML."""
        parser = markdown_parser()
        return self.render(parser.parse(text), parser.options, {})

    def formula(self, tokens: Sequence[Token], at: int, _options: OptionsDict, _env: EnvType) -> str:
        """Render a formula in a line; what cannot be drawn stands there as it was written."""
        token = tokens[at]
        formula_drawing = draw_formula(token.content, is_display=token.meta["is_display"])
        if formula_drawing is None:
            return f"<code>{html.escape(token.markup)}</code>"
        return self._show_drawing(formula_drawing, token.markup)

    def formula_block(self, tokens: Sequence[Token], at: int, _options: OptionsDict, _env: EnvType) -> str:
        """Render a formula that stands by itself."""
        token = tokens[at]
        formula_drawing = draw_formula(token.content, is_display=True)
        if formula_drawing is None:
            return f"<pre><code>{html.escape(token.markup)}</code></pre>\n"
        return f'<div class="formula">{self._show_drawing(formula_drawing, token.markup)}</div>\n'

    def _show_drawing(self, formula_drawing: FormulaDrawing, source: str) -> str:
        """Return a drawing that is heard in words and shows its source where the mouse rests."""
        svg = _SHAPE_NAME.sub(
            f"f{next(self._numbers)}-", _VERSION.sub("", formula_drawing.svg)
        )  # names are unique in a page
        svg = _LABEL.sub(lambda _: f'aria-label="{html.escape(formula_drawing.speech)}"', svg, count=1)
        return f'<span title="{html.escape(source)}">{svg}</span>'
