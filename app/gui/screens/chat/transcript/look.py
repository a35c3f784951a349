"""The theme as the transcript needs it: fonts, formats, colours and lengths resolved once, not at every paint."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPen, QTextCharFormat

from app.gui.markdown.highlight import Ink
from app.gui.markdown.pieces import Style
from app.gui.theme.tokens import CHAT_LINE_HEIGHT

if TYPE_CHECKING:
    from app.gui.theme.theme import Theme

_INK_COLORS = {
    Ink.KEYWORD: "accent-ink",
    Ink.STRING: "ok",
    Ink.COMMENT: "ink-3",
    Ink.NUMBER: "warn",
    Ink.NAME: "ink",
    Ink.TYPE: "warn",
    Ink.ADDED: "ok",
    Ink.REMOVED: "bad",
}
_BOLD = 600
_LIGATURES = QFont.Tag.fromString("calt")


@dataclass(frozen=True)
class Tone:
    """How one kind of text is set: its font, its colour, the height of a line."""

    font: QFont
    color: QColor
    line_height: float

    @cached_property
    def metrics(self) -> QFontMetricsF:
        """The measures of the font."""
        return QFontMetricsF(self.font)

    @cached_property
    def letter_width(self) -> float:
        """The usual width of a letter, for guessing heights."""
        return self.metrics.averageCharWidth()


class Look:
    """One state of the theme. Made anew when the theme changes."""

    def __init__(self, theme: "Theme") -> None:
        self.theme = theme
        self.px = theme.px
        self._colors: dict[str, QColor] = {}
        self._formats: dict[tuple[str, Style, bool], QTextCharFormat] = {}
        self.answer = self._tone("chat", "ink", CHAT_LINE_HEIGHT)
        self.thought = self._tone("body", "ink-2", 1.6)
        self.code = self._tone("mono", "ink", 1.6)
        self.meta = self._tone("meta", "ink-3", 1.5)
        self.strong_meta = self._tone("meta", "ink-2", 1.5, _BOLD)
        self.body = self._tone("body", "ink", 1.55)
        self.strong = self._tone("body", "ink", 1.55, _BOLD)
        self.button = self._tone("body", "ink", 1.55, 500)
        self._headings = {
            1: self._tone("title", "ink", 1.35),
            2: self._tone("section", "ink", 1.45),
            3: self._tone("chat", "ink", CHAT_LINE_HEIGHT, _BOLD),
        }
        self.inks = {ink: self._coloured(color, is_italic=ink is Ink.COMMENT) for ink, color in _INK_COLORS.items()}
        self.marked = QTextCharFormat()
        self.marked.setBackground(self._faint("accent", 0.30))

    def color(self, name: str) -> QColor:
        """Return a colour of the table."""
        if name not in self._colors:
            self._colors[name] = self.theme.color(name)
        return self._colors[name]

    def hairline(self, name: str = "line") -> QPen:
        """Return a pen of one device pixel."""
        return QPen(self.color(name), 0)

    def heading(self, level: int) -> Tone:
        """Return how a heading is set."""
        return self._headings[min(level, 3)]

    def format(self, tone: Tone, style: Style, *, is_link: bool) -> QTextCharFormat:
        """Return what makes a span differ from its tone."""
        key = (tone.font.key(), style, is_link)
        if key not in self._formats:
            self._formats[key] = self._format(tone, style, is_link=is_link)
        return self._formats[key]

    def _format(self, tone: Tone, style: Style, *, is_link: bool) -> QTextCharFormat:
        made = QTextCharFormat()
        if style & Style.CODE:
            font = QFont(self.code.font)
            font.setPixelSize(round(tone.font.pixelSize() * 0.88))  # mono letters look larger than they are
            made.setFont(font)
        if style & Style.BOLD:
            made.setFontWeight(_BOLD)
        if style & Style.ITALIC:
            made.setFontItalic(True)
        if style & Style.STRIKE:
            made.setFontStrikeOut(True)
        if is_link:
            made.setForeground(self.color("accent-ink"))
            made.setFontUnderline(True)
        return made

    def _tone(self, role: str, color: str, line: float, weight: int | None = None) -> Tone:
        font = self.theme.font(role, weight)
        if role == "mono":
            font.setFeature(_LIGATURES, 0)  # code shows the characters it is made of
        return Tone(font, self.color(color), round(font.pixelSize() * line))

    def _coloured(self, name: str, *, is_italic: bool) -> QTextCharFormat:
        made = QTextCharFormat()
        made.setForeground(self.color(name))
        if is_italic:
            made.setFontItalic(True)
        return made

    def _faint(self, name: str, opacity: float) -> QColor:
        color = QColor(self.color(name))
        color.setAlphaF(opacity)
        return color
