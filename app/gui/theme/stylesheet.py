"""The stylesheet, generated from the tokens. It covers what Qt draws itself: fields, menus, tips, scroll bars.

Everything that has a shape of its own (buttons, cards, rows, the rail) paints itself in `app.gui.widgets`.
"""

from app.gui.theme.theme import Theme
from app.gui.theme.tokens import CONTROL_HEIGHT, Radius


def stylesheet(theme: Theme) -> str:
    """Return the stylesheet for the theme as it is now."""
    return "".join(part(theme) for part in (_fields, _menus, _scroll_bars, _plain))


def _hex(theme: Theme, name: str) -> str:
    color = theme.color(name)
    return f"rgba({color.red()},{color.green()},{color.blue()},{color.alphaF():.3f})"


def _fields(theme: Theme) -> str:
    px = theme.px
    return f"""
QLineEdit, QSpinBox, QDoubleSpinBox, QPlainTextEdit[field="true"], QTextEdit[field="true"] {{
  background: {_hex(theme, "surface")}; color: {_hex(theme, "ink")};
  border: 1px solid {_hex(theme, "edge")}; border-radius: {px(Radius.CONTROL)}px;
  padding: 0 {px(8)}px; min-height: {px(CONTROL_HEIGHT) - 2}px;
  selection-background-color: {_hex(theme, "accent-fill")}; selection-color: {_hex(theme, "on-accent")};
}}
QLineEdit:hover, QSpinBox:hover, QDoubleSpinBox:hover {{ border-color: {_hex(theme, "ink-3")}; }}
QLineEdit:disabled {{ background: {_hex(theme, "sunken")}; color: {_hex(theme, "ink-3")}; }}
QLineEdit[quiet="true"] {{ border: none; background: transparent; padding: 0; min-height: {px(24)}px; }}
QLineEdit[wrong="true"] {{ border-color: {_hex(theme, "bad")}; }}
QPlainTextEdit, QTextEdit, QTextBrowser {{ background: transparent; color: {_hex(theme, "ink")}; border: none;
  selection-background-color: {_hex(theme, "accent-fill")}; selection-color: {_hex(theme, "on-accent")}; }}
"""


def _menus(theme: Theme) -> str:
    px = theme.px
    return f"""
QMenu {{ background: {_hex(theme, "surface")}; color: {_hex(theme, "ink")};
  border: 1px solid {_hex(theme, "line")}; border-radius: {px(Radius.CONTROL) + 2}px; padding: {px(4)}px; }}
QMenu::item {{ padding: {px(6)}px {px(24)}px {px(6)}px {px(12)}px; border-radius: {px(Radius.CONTROL) - 1}px; }}
QMenu::item:selected {{ background: {_hex(theme, "accent-soft")}; color: {_hex(theme, "ink")}; }}
QMenu::item:disabled {{ color: {_hex(theme, "ink-3")}; }}
QMenu::icon {{ padding-left: {px(8)}px; }}
QMenu::separator {{ height: 1px; background: {_hex(theme, "line")}; margin: {px(4)}px {px(8)}px; }}
QMenuBar {{ background: {_hex(theme, "ground")}; color: {_hex(theme, "ink")}; padding: {px(2)}px; }}
QMenuBar::item {{ padding: {px(4)}px {px(8)}px; border-radius: {px(4)}px; background: transparent; }}
QMenuBar::item:selected {{ background: {_hex(theme, "accent-soft")}; }}
QToolTip {{ background: {_hex(theme, "ink")}; color: {_hex(theme, "ground")}; border: none;
  padding: {px(4)}px {px(8)}px; }}
"""


def _scroll_bars(theme: Theme) -> str:
    px = theme.px
    return f"""
QScrollBar:vertical {{ background: transparent; width: {px(10)}px; margin: 0; border: none; }}
QScrollBar:horizontal {{ background: transparent; height: {px(10)}px; margin: 0; border: none; }}
QScrollBar::handle {{ background: {_hex(theme, "line")}; border-radius: {px(3)}px; margin: {px(2)}px; }}
QScrollBar::handle:vertical {{ min-height: {px(32)}px; }}
QScrollBar::handle:horizontal {{ min-width: {px(32)}px; }}
QScrollBar::handle:hover, QScrollBar::handle:pressed {{ background: {_hex(theme, "edge")}; }}
QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; border: none; background: none; }}
QScrollBar::add-page, QScrollBar::sub-page {{ background: none; }}
QAbstractScrollArea, QAbstractScrollArea > QWidget#qt_scrollarea_viewport {{ background: transparent; border: none; }}
QAbstractScrollArea::corner {{ background: transparent; }}
"""


def _plain(theme: Theme) -> str:
    return f"""
QSplitter::handle {{ background: {_hex(theme, "line")}; }}
QHeaderView {{ background: {_hex(theme, "surface")}; }}
QHeaderView::section {{ background: {_hex(theme, "surface")}; color: {_hex(theme, "ink-2")}; border: none;
  border-bottom: 1px solid {_hex(theme, "line")}; padding: {theme.px(4)}px {theme.px(8)}px; }}
QLabel {{ background: transparent; }}
QLabel:disabled {{ color: {_hex(theme, "ink-3")}; }}
"""
