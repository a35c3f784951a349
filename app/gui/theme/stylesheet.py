"""The stylesheet, generated from the tokens. It covers what Qt draws itself: fields, menus, tips, scroll bars.

Everything that has a shape of its own (buttons, cards, rows, the rail) paints itself in `app.gui.widgets`.
"""

from app.gui.theme.theme import Theme
from app.gui.theme.tokens import CONTROL_HEIGHT, Radius


def make_stylesheet(theme: Theme) -> str:
    """Return the stylesheet for the theme as it is now."""
    return "".join(part(theme) for part in (_field_rules, _menu_rules, _scroll_bar_rules, _other_rules))


def _css_color(theme: Theme, name: str) -> str:
    color = theme.color(name)
    return f"rgba({color.red()},{color.green()},{color.blue()},{color.alphaF():.3f})"


def _field_rules(theme: Theme) -> str:
    px = theme.px
    return f"""
QLineEdit, QSpinBox, QDoubleSpinBox, QPlainTextEdit[field="true"], QTextEdit[field="true"] {{
  background: {_css_color(theme, "surface")}; color: {_css_color(theme, "ink")};
  border: 1px solid {_css_color(theme, "edge")}; border-radius: {px(Radius.CONTROL)}px;
  padding: 0 {px(8)}px; min-height: {px(CONTROL_HEIGHT) - 2}px;
  selection-background-color: {_css_color(theme, "accent-fill")}; selection-color: {_css_color(theme, "on-accent")};
}}
QLineEdit:hover, QSpinBox:hover, QDoubleSpinBox:hover {{ border-color: {_css_color(theme, "ink-3")}; }}
QLineEdit:focus, QSpinBox:focus, QDoubleSpinBox:focus, QPlainTextEdit[field="true"]:focus,
QTextEdit[field="true"]:focus {{ border-color: {_css_color(theme, "accent")}; }}
QLineEdit:disabled {{ background: {_css_color(theme, "sunken")}; color: {_css_color(theme, "ink-3")}; }}
QLineEdit[quiet="true"] {{ border: none; background: transparent; padding: 0; min-height: {px(24)}px; }}
QLineEdit[wrong="true"], QPlainTextEdit[wrong="true"] {{ border-color: {_css_color(theme, "bad")}; }}
QPlainTextEdit, QTextEdit, QTextBrowser {{ background: transparent; color: {_css_color(theme, "ink")}; border: none;
  selection-background-color: {_css_color(theme, "accent-fill")}; selection-color: {_css_color(theme, "on-accent")}; }}
"""


def _menu_rules(theme: Theme) -> str:
    px = theme.px
    return f"""
QMenu {{ background: {_css_color(theme, "surface")}; color: {_css_color(theme, "ink")};
  border: 1px solid {_css_color(theme, "line")}; border-radius: {px(Radius.CONTROL) + 2}px; padding: {px(4)}px; }}
QMenu::item {{ padding: {px(6)}px {px(24)}px {px(6)}px {px(12)}px; border-radius: {px(Radius.CONTROL) - 1}px; }}
QMenu::item:selected {{ background: {_css_color(theme, "accent-soft")}; color: {_css_color(theme, "ink")}; }}
QMenu::item:disabled {{ color: {_css_color(theme, "ink-3")}; }}
QMenu::icon {{ padding-left: {px(8)}px; }}
QMenu::separator {{ height: 1px; background: {_css_color(theme, "line")}; margin: {px(4)}px {px(8)}px; }}
QMenuBar {{ background: {_css_color(theme, "ground")}; color: {_css_color(theme, "ink")}; padding: {px(2)}px; }}
QMenuBar::item {{ padding: {px(4)}px {px(8)}px; border-radius: {px(4)}px; background: transparent; }}
QMenuBar::item:selected {{ background: {_css_color(theme, "accent-soft")}; }}
QToolTip {{ background: {_css_color(theme, "ink")}; color: {_css_color(theme, "ground")}; border: none;
  padding: {px(4)}px {px(8)}px; }}
"""


def _scroll_bar_rules(theme: Theme) -> str:
    px = theme.px
    return f"""
QScrollBar:vertical {{ background: transparent; width: {px(10)}px; margin: 0; border: none; }}
QScrollBar:horizontal {{ background: transparent; height: {px(10)}px; margin: 0; border: none; }}
QScrollBar::handle {{ background: {_css_color(theme, "line")}; border-radius: {px(3)}px; margin: {px(2)}px; }}
QScrollBar::handle:vertical {{ min-height: {px(32)}px; }}
QScrollBar::handle:horizontal {{ min-width: {px(32)}px; }}
QScrollBar::handle:hover, QScrollBar::handle:pressed {{ background: {_css_color(theme, "edge")}; }}
QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; border: none; background: none; }}
QScrollBar::add-page, QScrollBar::sub-page {{ background: none; }}
QAbstractScrollArea, QAbstractScrollArea > QWidget#qt_scrollarea_viewport {{ background: transparent; border: none; }}
QAbstractScrollArea::corner {{ background: transparent; }}
"""


def _other_rules(theme: Theme) -> str:
    return f"""
QSplitter::handle {{ background: {_css_color(theme, "line")}; }}
QHeaderView {{ background: {_css_color(theme, "surface")}; }}
QHeaderView::section {{ background: {_css_color(theme, "surface")}; color: {_css_color(theme, "ink-2")}; border: none;
  border-bottom: 1px solid {_css_color(theme, "line")}; padding: {theme.px(4)}px {theme.px(8)}px; }}
QLabel {{ background: transparent; }}
QLabel:disabled {{ color: {_css_color(theme, "ink-3")}; }}
"""
