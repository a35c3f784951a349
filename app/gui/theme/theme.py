"""The theme: resolves tokens to Qt values for the present mode and scale, and says when they change.

Widgets ask it while painting and keep nothing; `changed` means: lay out and paint again. They ask thousands of times
for a few lengths and fonts: it keeps those until the scale changes. Mode "system" follows the desktop's colour scheme
as it changes.

Lucide's outline icons (ISC), tinted while they are rendered. Drawn on 24 px with 2 px strokes: 1.5 px at 18 px.
"""

from functools import cache
from typing import Literal

from PySide6.QtCore import QByteArray, QObject, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontDatabase,
    QGuiApplication,
    QIcon,
    QPainter,
    QPalette,
    QPixmap,
    QPixmapCache,
)
from PySide6.QtSvg import QSvgRenderer

from app.config.paths import RESOURCES
from app.gui.theme.tokens import (
    DARK,
    ICON_SIZE,
    LIGHT,
    MONO_FAMILY,
    SCALE_RANGE,
    TYPE,
    UI_FACES,
    FontRole,
    Palette,
)

Mode = Literal["system", "light", "dark"]
_ALIASES = frozenset({"", "Sans Serif", "Sans", "sans-serif", "Helvetica"})
_FEATURE_TABULAR = QFont.Tag.fromString("tnum")


class _Lengths(dict[float, int]):
    """Logical pixels by unscaled ones at one scale, each computed once; never 0 for something visible."""

    def __init__(self, percent: int) -> None:
        super().__init__()
        self._percent = percent

    def __missing__(self, size: float) -> int:
        length = self[size] = max(1, round(size * self._percent / 100)) if size else 0
        return length


class Theme(QObject):
    """Tokens for the present mode and scale. One per application."""

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._mode: Mode = "system"
        self._percent = 100
        self._reduce_motion = False
        self._palette = self._resolve_palette()
        self._icons: dict[tuple[str, str, int, float], QPixmap] = {}
        self._lengths = _Lengths(self._percent)
        self._fonts: dict[tuple[str, int | None], QFont] = {}
        self._families = {"ui": _ui_family(), "mono": _mono_family()}
        hints = QGuiApplication.styleHints()
        hints.colorSchemeChanged.connect(self._follow_system)

    @property
    def mode(self) -> Mode:
        """What was asked for, not what it resolves to."""
        return self._mode

    @property
    def is_dark(self) -> bool:
        """Whether dark colours are shown now."""
        return self._palette is DARK

    @property
    def percent(self) -> int:
        """The size of everything, 80 to 200."""
        return self._percent

    def color(self, name: str) -> QColor:
        """Return a colour of the table."""
        return QColor(self._palette[name])

    def px(self, size: float) -> int:
        """Return a length in unscaled pixels as logical pixels; never 0 for something visible."""
        return self._lengths[size]

    def duration(self, milliseconds: int) -> int:
        """Return how long a movement may take; 0 when motion is reduced."""
        return 0 if self._reduce_motion else milliseconds

    def font(self, role: str, weight: int | None = None) -> QFont:
        """Return the font of a role; figures in it keep their width."""
        key = role, weight
        if key not in self._fonts:
            self._fonts[key] = self._make_font(role, weight)
        return QFont(self._fonts[key])  # one of the caller's own, which may be changed

    def _make_font(self, role: str, weight: int | None) -> QFont:
        size, usual = TYPE[FontRole(role)]
        font = QFont(self._families["mono" if role == FontRole.MONO else "ui"])
        font.setPixelSize(self.px(size))
        font.setWeight(QFont.Weight(weight or usual))
        font.setFeature(_FEATURE_TABULAR, 1)
        if role in {FontRole.TITLE, FontRole.HERO}:
            font.setLetterSpacing(QFont.SpacingType.PercentageSpacing, 98.5)
        return font

    def pixmap(self, name: str, color: str = "ink-2", *, size: int = ICON_SIZE, ratio: float = 1.0) -> QPixmap:
        """Return an icon of the set in a token's colour, `size` unscaled pixels wide, sharp at device `ratio`."""
        key = (name, self.color(color).name(QColor.NameFormat.HexArgb), self.px(size), ratio)
        if key not in self._icons:
            self._icons[key] = render_icon(name, self.color(color), self.px(size), ratio)
        return self._icons[key]

    def icon(self, name: str, color: str = "ink-2", *, size: int = ICON_SIZE) -> QIcon:
        """Return an icon with pixmaps for plain and double density."""
        icon = QIcon(self.pixmap(name, color, size=size))
        icon.addPixmap(self.pixmap(name, color, size=size, ratio=2.0))
        return icon

    def set_mode(self, mode: Mode) -> None:
        """Follow the system, or keep to light or dark."""
        self._mode = mode
        self._refresh_palette()

    def set_percent(self, percent: int) -> None:
        """Set the size of everything, kept within 80 and 200 %."""
        low, high = SCALE_RANGE
        self._percent = min(high, max(low, percent))
        self._lengths = _Lengths(self._percent)
        self._fonts.clear()
        self._refresh_palette()

    def set_reduce_motion(self, reduce: bool) -> None:  # noqa: FBT001 -- a setter of one flag
        """Show changes at once instead of moving."""
        self._reduce_motion = reduce

    def qt_palette(self) -> QPalette:
        """Return the palette for widgets that paint themselves."""
        palette = QPalette()
        for role, name in _QT_ROLES.items():
            palette.setColor(role, self.color(name))
        for role in (QPalette.ColorRole.Text, QPalette.ColorRole.WindowText, QPalette.ColorRole.ButtonText):
            palette.setColor(QPalette.ColorGroup.Disabled, role, self.color("ink-3"))
        return palette

    def _follow_system(self) -> None:
        if self._mode == "system":
            self._refresh_palette()

    def _refresh_palette(self) -> None:
        self._palette = self._resolve_palette()
        self._icons.clear()
        self.changed.emit()

    def _resolve_palette(self) -> Palette:
        if self._mode == "system":
            return DARK if QGuiApplication.styleHints().colorScheme() == Qt.ColorScheme.Dark else LIGHT
        return DARK if self._mode == "dark" else LIGHT


_R = QPalette.ColorRole
_QT_ROLES = {
    _R.Window: "ground",
    _R.WindowText: "ink",
    _R.Base: "surface",
    _R.AlternateBase: "sunken",
    _R.Text: "ink",
    _R.PlaceholderText: "ink-3",
    _R.Button: "surface",
    _R.ButtonText: "ink",
    _R.BrightText: "bad",
    _R.Highlight: "accent-fill",
    _R.HighlightedText: "on-accent",
    _R.Accent: "accent",
    _R.Link: "accent-ink",
    _R.LinkVisited: "accent-ink",
    _R.ToolTipBase: "surface",
    _R.ToolTipText: "ink",
    _R.Mid: "line",
    _R.Light: "surface",
    _R.Dark: "edge",
    _R.Shadow: "shadow",
}


def _ui_family() -> str:
    family = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont).family()
    if family not in _ALIASES:
        return family
    return next((face for face in UI_FACES if QFontDatabase.hasFamily(face)), family)


@cache
def _load_fonts() -> None:
    """Add the fonts that we bring, once in a process: each time Qt forgets all fonts, and keeps a copy."""
    for file in sorted((RESOURCES / "fonts").glob("*.ttf")):
        QFontDatabase.addApplicationFont(str(file))


def _mono_family() -> str:
    _load_fonts()
    if QFontDatabase.hasFamily(MONO_FAMILY):
        return MONO_FAMILY
    return QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()


FOLDER = RESOURCES / "icons"


def render_icon(name: str, color: QColor, size: int, ratio: float) -> QPixmap:
    """Render icon `name` at `size` logical pixels. Raises FileNotFoundError for one the set lacks.

    Qt keeps what is rendered for as long as its cache has room.
    """
    key, pixmap = f"{name} {color.name(QColor.NameFormat.HexArgb)} {size} {ratio}", QPixmap()
    if not QPixmapCache.find(key, pixmap):
        pixmap = _draw_icon(name, color, size, ratio)
        QPixmapCache.insert(key, pixmap)
    return pixmap


def _draw_icon(name: str, color: QColor, size: int, ratio: float) -> QPixmap:
    source = (FOLDER / f"{name}.svg").read_bytes().replace(b"currentColor", color.name().encode())
    pixels = round(size * ratio)
    pixmap = QPixmap(QSize(pixels, pixels))
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setOpacity(color.alphaF())
    QSvgRenderer(QByteArray(source)).render(painter, QRectF(0, 0, pixels, pixels))
    painter.end()
    pixmap.setDevicePixelRatio(ratio)
    return pixmap
