"""The look is a table, and the table keeps the contrast rule."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFontInfo
from pytestqt.qtbot import QtBot

from app.config.paths import RESOURCES
from app.gui.theme import theme
from app.gui.theme.stylesheet import make_stylesheet
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import CONTROLS, DARK, GROUNDS, LIGHT, TEXT, TYPE, FontRole, Palette

PALETTES = {"light": LIGHT, "dark": DARK}


def luminance(color: QColor) -> float:
    parts = [color.redF(), color.greenF(), color.blueF()]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, other: str) -> float:
    low, high = sorted((luminance(QColor(first)), luminance(QColor(other))))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_computed_as_wcag_does() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast("#767676", "#FFFFFF") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("name", TEXT)
def test_words_can_be_read_on_every_ground(palette: Palette, ground: str, name: str) -> None:
    assert contrast(palette[name], palette[ground]) >= 4.5


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("name", CONTROLS)
def test_controls_can_be_seen_on_every_ground(palette: Palette, ground: str, name: str) -> None:
    assert contrast(palette[name], palette[ground]) >= 3.0


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
@pytest.mark.parametrize(
    ("words", "below"),
    [
        ("on-accent", "accent-fill"),
        ("accent-ink", "accent-soft"),
        ("ink", "accent-soft"),
        ("ink", "bad-soft"),
        ("ink-2", "bad-soft"),
        ("bad", "bad-soft"),
        ("ink", "warn-soft"),
        ("warn", "warn-soft"),
        ("ok", "ok-soft"),
    ],
)
def test_words_can_be_read_on_coloured_sheets(palette: Palette, words: str, below: str) -> None:
    assert contrast(palette[words], palette[below]) >= 4.5


def test_both_palettes_have_the_same_names() -> None:
    assert LIGHT.keys() == DARK.keys()


def test_forcing_a_mode_changes_colours_and_says_so(theme: Theme, qtbot: QtBot) -> None:
    with qtbot.waitSignal(theme.changed):
        theme.set_mode("dark")
    assert theme.is_dark
    assert theme.color("ground") == QColor(DARK["ground"])


def test_system_mode_follows_the_desktop(theme: Theme, monkeypatch: pytest.MonkeyPatch) -> None:
    theme.set_mode("system")
    assert not theme.is_dark
    monkeypatch.setattr(
        "app.gui.theme.theme.QGuiApplication.styleHints",
        lambda: type("Hints", (), {"colorScheme": staticmethod(lambda: Qt.ColorScheme.Dark)}),
    )
    theme._follow_system()
    assert theme.is_dark


@pytest.mark.parametrize(("percent", "expected_percent"), [(20, 80), (80, 80), (150, 150), (200, 200), (900, 200)])
def test_size_stays_within_its_range(theme: Theme, percent: int, expected_percent: int) -> None:
    theme.set_percent(percent)
    assert theme.percent == expected_percent
    assert theme.px(100) == expected_percent
    assert theme.font("body").pixelSize() == round(13 * expected_percent / 100)


def test_lengths_never_vanish(theme: Theme) -> None:
    theme.set_percent(80)
    assert theme.px(0.4) == 1
    assert theme.px(0) == 0


@pytest.mark.parametrize("role", TYPE)
def test_every_role_has_a_font(theme: Theme, role: FontRole) -> None:
    assert theme.font(role).pixelSize() == TYPE[role][0]
    assert theme.font(role, 500).weight() == 500


def test_the_bundled_monospaced_face_is_used(theme: Theme) -> None:
    assert QFontInfo(theme.font("mono")).family() == "JetBrains Mono"
    assert (RESOURCES / "fonts" / "OFL.txt").read_text(encoding="utf-8").startswith("Copyright 2020 The JetBrains Mono")


def test_icons_are_tinted_and_sharp(theme: Theme) -> None:
    plain = theme.pixmap("cpu", "accent")
    sharp = theme.pixmap("cpu", "accent", ratio=2.0)
    assert (plain.width(), sharp.width()) == (18, 36)
    image = sharp.toImage()
    colors = {
        image.pixelColor(x, y).name() for x in range(36) for y in range(36) if image.pixelColor(x, y).alpha() == 255
    }
    assert colors == {LIGHT["accent"].lower()}


def test_an_icon_that_is_not_in_the_set_is_an_error(theme: Theme) -> None:
    with pytest.raises(FileNotFoundError):
        theme.pixmap("no-such-icon")


def test_every_icon_of_the_set_is_drawn_somewhere() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (RESOURCES.parent / "app" / "gui").rglob("*.py"))
    unused_icons = [icon.stem for icon in theme.FOLDER.glob("*.svg") if f'"{icon.stem}' not in code]
    assert unused_icons == []


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_stylesheet_holds_only_colours_of_the_table(theme: Theme, mode: str) -> None:
    theme.set_mode("dark" if mode == "dark" else "light")
    sheet = make_stylesheet(theme)
    table = {
        f"rgba({color.red()},{color.green()},{color.blue()},{color.alphaF():.3f})"
        for color in map(QColor, PALETTES[mode].values())
    }
    used_colors = {part[: part.index(")") + 1] for part in sheet.split("rgba")[1:]}
    assert used_colors
    assert {f"rgba{part}" for part in used_colors} <= table
    assert "#" not in sheet.replace("QWidget#qt_scrollarea_viewport", "")
