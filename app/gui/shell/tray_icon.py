"""The tray's icon, drawn for each sign: the panel's colour is not ours to know, so it brings its ground along."""

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPixmap

from app.gui.shell.tray_model import TraySign
from app.gui.theme.icons import render_icon
from app.gui.theme.tokens import DARK, LIGHT

SIZES = (16, 22, 24, 32, 44, 48, 64)
"""Panels ask for these, in pixels of the screen."""
_GROUNDS = {TraySign.OFF: LIGHT["edge"], TraySign.PAUSED: LIGHT["edge"]}
_MARKS = {TraySign.READY: DARK["ok"], TraySign.COMING: DARK["warn"], TraySign.FAILED: DARK["bad"]}
_CORNER, _GLYPH, _MARK, _RIM, _BAR, _TALL = 0.22, 0.72, 0.2, 0.07, 0.16, 0.5
"""Shares of the side: the ground's corner, the drawing, the mark's radius, what keeps it apart, the bars of a pause."""


def tray_icon(sign: TraySign) -> QIcon:
    """Return the icon in every size a panel may want."""
    icon = QIcon()
    for size in SIZES:
        icon.addPixmap(_draw_icon(sign, size))
    return icon


def _draw_icon(sign: TraySign, size: int) -> QPixmap:
    picture = QPixmap(size, size)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(_GROUNDS.get(sign, LIGHT["accent"])))
    painter.drawRoundedRect(QRectF(0, 0, size, size), size * _CORNER, size * _CORNER)
    if sign is TraySign.PAUSED:
        _draw_bars(painter, size)
    else:
        glyph = round(size * _GLYPH)
        at = (size - glyph) // 2
        painter.drawPixmap(at, at, render_icon("train-front", QColor(LIGHT["on-accent"]), glyph, 1.0))
    if sign in _MARKS:
        _draw_mark(painter, size, QColor(_MARKS[sign]))
    painter.end()
    return picture


def _draw_bars(painter: QPainter, size: int) -> None:
    """Draw the sign of a pause on whole pixels: outlines as thin as the other icons' vanish in a panel."""
    width, height = max(2, round(size * _BAR)), round(size * _TALL)
    top, gap = (size - height) // 2, max(1, width // 2)
    for left in (size // 2 - gap - width, size // 2 + gap):
        painter.fillRect(left, top, width, height, QColor(LIGHT["on-accent"]))


def _draw_mark(painter: QPainter, size: int, color: QColor) -> None:
    """Put a dot into the corner, with nothing of the icon right beside it."""
    radius = size * _MARK
    middle = QPointF(size - radius, size - radius)
    painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Clear)
    painter.drawEllipse(middle, radius + size * _RIM, radius + size * _RIM)
    painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_SourceOver)
    painter.setBrush(color)
    painter.drawEllipse(middle, radius, radius)
