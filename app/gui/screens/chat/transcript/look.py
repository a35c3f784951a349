"""The theme as the transcript needs it: fonts, formats, colours and lengths resolved once, not at every paint."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPen, QPixmap, QTextCharFormat

from app.core.attachments import Attachment
from app.gui.markdown.highlight import Ink
from app.gui.markdown.pieces import TextStyle
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


FindThumbnail = Callable[[Attachment], QPixmap | None]


def find_nothing(_attachment: Attachment) -> None:
    """Have no pictures of files."""


class TranscriptLook:
    """One state of the theme. Made anew when the theme changes."""

    def __init__(self, theme: "Theme", find_thumbnail: FindThumbnail = find_nothing) -> None:
        self.theme = theme
        self.find_thumbnail = find_thumbnail
        self.px = theme.px
        self._colors: dict[str, QColor] = {}
        self._formats: dict[tuple[str, TextStyle, bool], QTextCharFormat] = {}
        self.answer = self._make_tone("chat", "ink", CHAT_LINE_HEIGHT)
        self.thought = self._make_tone("body", "ink-2", 1.6)
        self.code = self._make_tone("mono", "ink", 1.6)
        self.meta = self._make_tone("meta", "ink-3", 1.5)
        self.strong_meta = self._make_tone("meta", "ink-2", 1.5, _BOLD)
        self.body = self._make_tone("body", "ink", 1.55)
        self.strong = self._make_tone("body", "ink", 1.55, _BOLD)
        self.button = self._make_tone("body", "ink", 1.55, 500)
        self._headings = {
            1: self._make_tone("title", "ink", 1.35),
            2: self._make_tone("section", "ink", 1.45),
            3: self._make_tone("chat", "ink", CHAT_LINE_HEIGHT, _BOLD),
        }
        self.inks = {ink: self._ink_format(color, is_italic=ink is Ink.COMMENT) for ink, color in _INK_COLORS.items()}
        self.selection_format = QTextCharFormat()
        self.selection_format.setBackground(self._with_opacity("accent", 0.30))
        self.match_format, self.current_match_format = QTextCharFormat(), QTextCharFormat()
        self.match_format.setBackground(self._with_opacity("warn", 0.28))
        self.current_match_format.setBackground(self.color("accent-fill"))
        self.current_match_format.setForeground(self.color("on-accent"))

    def color(self, name: str) -> QColor:
        """Return a colour of the table."""
        if name not in self._colors:
            self._colors[name] = self.theme.color(name)
        return self._colors[name]

    def hairline_pen(self, name: str = "line") -> QPen:
        """Return a pen of one device pixel."""
        return QPen(self.color(name), 0)

    def heading_tone(self, level: int) -> Tone:
        """Return how a heading is set."""
        return self._headings[min(level, 3)]

    def span_format(self, tone: Tone, style: TextStyle, *, is_link: bool) -> QTextCharFormat:
        """Return what makes a span differ from its tone."""
        key = (tone.font.key(), style, is_link)
        if key not in self._formats:
            self._formats[key] = self._make_format(tone, style, is_link=is_link)
        return self._formats[key]

    def _make_format(self, tone: Tone, style: TextStyle, *, is_link: bool) -> QTextCharFormat:
        style_format = QTextCharFormat()
        if style & TextStyle.CODE:
            font = QFont(self.code.font)
            font.setPixelSize(round(tone.font.pixelSize() * 0.88))  # mono letters look larger than they are
            style_format.setFont(font)
        if style & TextStyle.BOLD:
            style_format.setFontWeight(_BOLD)
        if style & TextStyle.ITALIC:
            style_format.setFontItalic(True)
        if style & TextStyle.STRIKE:
            style_format.setFontStrikeOut(True)
        if is_link:
            style_format.setForeground(self.color("accent-ink"))
            style_format.setFontUnderline(True)
        return style_format

    def _make_tone(self, role: str, color: str, line: float, weight: int | None = None) -> Tone:
        font = self.theme.font(role, weight)
        if role == "mono":
            font.setFeature(_LIGATURES, 0)  # code shows the characters it is made of
        return Tone(font, self.color(color), round(font.pixelSize() * line))

    def _ink_format(self, name: str, *, is_italic: bool) -> QTextCharFormat:
        style_format = QTextCharFormat()
        style_format.setForeground(self.color(name))
        if is_italic:
            style_format.setFontItalic(True)
        return style_format

    def _with_opacity(self, name: str, opacity: float) -> QColor:
        color = QColor(self.color(name))
        color.setAlphaF(opacity)
        return color
