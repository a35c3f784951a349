"""Bring a window before the others, from wherever it is: minimised, hidden, behind."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget


def bring_to_front(window: QWidget) -> None:
    """Show it and give it the keyboard, as far as the desktop lets a program do that."""
    window.setWindowState(window.windowState() & ~Qt.WindowState.WindowMinimized)
    window.show()
    window.raise_()
    window.activateWindow()
