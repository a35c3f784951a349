"""A text turned into boxes, whole or while it arrives. Boxes of finished pieces are kept for good."""

from msgspec.structs import replace

from app.gui.markdown.pieces import MarkdownPiece, PieceKind
from app.gui.markdown.splitter import MarkdownSplitter
from app.gui.screens.chat.transcript.box import Box
from app.gui.screens.chat.transcript.code_box import CodeBox, CodeCard
from app.gui.screens.chat.transcript.formula_box import FormulaBox
from app.gui.screens.chat.transcript.look import Tone
from app.gui.screens.chat.transcript.table_box import TableBox
from app.gui.screens.chat.transcript.text_box import RuleBox, TextBox
from app.markdown.formulas import block_tex, draw_formula


class BoxFlow:
    """The boxes of one text. Everything before `frozen` will never change."""

    def __init__(self, *, tone: Tone | None = None, is_literal: bool = False, name: str = "text") -> None:
        self.boxes: list[Box] = []
        self.frozen = 0
        self.length = 0
        self._tone, self._is_literal = tone, is_literal
        self._cutter = MarkdownSplitter(is_literal=is_literal)
        self._pieces: list[MarkdownPiece] = []
        self._cards: dict[str, CodeCard] = {}
        self._name = name

    def feed(self, text: str) -> None:
        """Take more text; the boxes from `frozen` on are made anew where they differ."""
        self.length += len(text)
        self._replace_boxes(self._cutter.feed(text), self._cutter.preview_tail())

    def finish(self, text: str = "") -> None:
        """Take the last text; everything is frozen then."""
        self.length += len(text)
        pieces = self._cutter.feed(text) if text else []
        self._replace_boxes([*pieces, *self._cutter.finish()], [])

    def set_tone(self, tone: Tone | None) -> None:
        """Use another tone, when the theme changed."""
        if self._tone is not None:
            self._tone = tone
            self.boxes = []
            pieces, self._pieces, self.frozen = self._pieces, [], 0
            self._cards = {}
            self._replace_boxes(pieces, self._cutter.preview_tail())

    def code_source(self, key: str) -> str:
        """Return the source of one code block; nothing for a key of another text."""
        parts = []
        for piece in self._pieces:
            if piece.kind is PieceKind.CODE and self._card_key(piece) == key:
                parts += ["" if piece.is_first or piece.is_glued else "\n", piece.source]
        return "".join(parts)

    def table_pieces(self, key: str) -> list[MarkdownPiece]:
        """Return the pieces of one table; none for a key of another text."""
        return [piece for piece in self._pieces if piece.kind is PieceKind.TABLE and self._card_key(piece) == key]

    def code_card(self, key: str) -> CodeCard | None:
        """Return what the boxes of one code block share."""
        return self._cards.get(key)

    def _card_key(self, piece: MarkdownPiece) -> str:
        return f"{self._name} {piece.group}"

    def _replace_boxes(self, pieces: list[MarkdownPiece], tail: list[MarkdownPiece]) -> None:
        old = dict(enumerate(zip(self._pieces[self.frozen :], self.boxes[self.frozen :], strict=True)))
        del self._pieces[self.frozen :], self.boxes[self.frozen :]
        for place, piece in enumerate([*pieces, *tail]):
            previous = old.get(place)
            is_same = previous is not None and previous[0] == piece
            box = previous[1] if previous is not None and is_same else self._make_box(piece)
            box.bars_above = self._pieces[-1].quote if self._pieces else 0
            self._pieces.append(piece)
            self.boxes.append(box)
        self.frozen += len(pieces)

    def _make_box(self, piece: MarkdownPiece) -> Box:
        above = self.boxes[-1] if self.boxes and not piece.is_first else None
        if piece.kind is PieceKind.CODE:
            key = self._card_key(piece)
            card = self._cards.setdefault(key, CodeCard(key))
            return CodeBox(piece, card, above if isinstance(above, CodeBox) else None)
        if piece.kind is PieceKind.TABLE:
            leader = above.leader if isinstance(above, TableBox) else None
            return TableBox(piece, leader, self._card_key(piece))
        if piece.kind is PieceKind.RULE:
            return RuleBox(piece)
        if piece.kind is PieceKind.MATH:
            return _make_formula_box(piece, self._tone)
        return TextBox(piece, self._tone, shrinks=self._is_literal)


def _make_formula_box(piece: MarkdownPiece, tone: Tone | None) -> Box:
    """Return the formula as it looks; the source as code where it cannot be drawn."""
    formula_drawing = draw_formula(block_tex(piece.source), is_display=True)
    if formula_drawing is not None:
        return FormulaBox(piece, formula_drawing, tone)
    return TextBox(replace(piece, kind=PieceKind.TEXT, is_literal=True), tone)
