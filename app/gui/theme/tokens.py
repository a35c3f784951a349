"""The one table of looks. Colours, spacing, type and motion are written here and nowhere else.

The palette is the design's, except where its own rule (text >= 4.5:1, controls >= 3:1) fails: `ink-3` (light 3.3:1,
dark 3.9:1) and `warn` in light (4.3:1) are deeper; the original `ink-3` lives on as `edge`, the outline of controls.
`accent` stays as it is for marks; `accent-ink` is accent as text and `accent-fill` lies below text.
"""

from enum import StrEnum

Palette = dict[str, str]

LIGHT: Palette = {
    "ground": "#FBFBFA",
    "surface": "#FFFFFF",
    "sunken": "#F3F3F1",
    "line": "#E4E3DF",
    "edge": "#85827C",
    "ink": "#1C1B19",
    "ink-2": "#5E5C57",
    "ink-3": "#6B6862",
    "accent": "#C2571A",
    "accent-ink": "#A84810",
    "accent-fill": "#B95117",
    "accent-soft": "#FBEADF",
    "on-accent": "#FFFFFF",
    "ok": "#2E7D4F",
    "ok-soft": "#EEF7F1",
    "warn": "#8F5A00",
    "warn-soft": "#FAEFD9",
    "bad": "#B3261E",
    "bad-soft": "#FBE9E7",
    "part-1": "#C2571A",
    "part-2": "#2F6F93",
    "part-3": "#7B5AA6",
    "part-4": "#3F8460",
    "part-5": "#A57A12",
    "part-6": "#B0517A",
    "hover": "#0F1C1B19",
    "press": "#1C1C1B19",
    "shadow": "#241C1B19",
}
"""Colours on light ground. Eight digits are #AARRGGBB, drawn over whatever is below."""

DARK: Palette = {
    "ground": "#161514",
    "surface": "#1E1D1B",
    "sunken": "#121110",
    "line": "#33312E",
    "edge": "#7A766F",
    "ink": "#ECEAE6",
    "ink-2": "#A8A49D",
    "ink-3": "#969188",
    "accent": "#F08A4B",
    "accent-ink": "#F08A4B",
    "accent-fill": "#F08A4B",
    "accent-soft": "#3A2518",
    "on-accent": "#1B0E06",
    "ok": "#63C08A",
    "ok-soft": "#17291F",
    "warn": "#E0A84A",
    "warn-soft": "#2E2413",
    "bad": "#F2766B",
    "bad-soft": "#361C1A",
    "part-1": "#F08A4B",
    "part-2": "#6FB1D6",
    "part-3": "#B596E0",
    "part-4": "#74C297",
    "part-5": "#D9B24C",
    "part-6": "#E08BB0",
    "hover": "#12ECEAE6",
    "press": "#22ECEAE6",
    "shadow": "#78000000",
}
"""Colours on dark ground."""

TEXT = ("ink", "ink-2", "ink-3", "accent-ink", "ok", "warn", "bad")
"""Colours words are written in; at least 4.5:1 on every one of `GROUNDS`."""

PARTS = ("part-1", "part-2", "part-3", "part-4", "part-5", "part-6")
"""Colours of the parts of a whole: the accent first, then hues far enough apart. Words stand beside them always."""

CONTROLS = ("edge", "accent", "accent-fill", *PARTS)
"""Colours that alone make a control or a part visible; at least 3:1 on every one of `GROUNDS`."""

GROUNDS = ("ground", "surface", "sunken")
"""Colours words and controls lie on."""


class Radius:
    """Corner radii in unscaled pixels."""

    CONTROL = 6
    CARD = 10
    COMPOSER = 14


class Motion:
    """Durations in milliseconds; both are 0 when motion is reduced."""

    QUICK = 120
    PAGE = 160


class FontRole(StrEnum):
    """What a piece of text is for."""

    META = "meta"
    BODY = "body"
    CHAT = "chat"
    SECTION = "section"
    TITLE = "title"
    HERO = "hero"
    MONO = "mono"


TYPE: dict[FontRole, tuple[int, int]] = {
    FontRole.META: (12, 400),
    FontRole.BODY: (13, 400),
    FontRole.CHAT: (15, 400),
    FontRole.SECTION: (17, 600),
    FontRole.TITLE: (22, 600),
    FontRole.HERO: (34, 600),
    FontRole.MONO: (13, 400),
}
"""Size in unscaled pixels, and the usual weight."""

CHAT_LINE_HEIGHT = 1.55
ICON_SIZE = 18
RAIL_WIDTH = 56
PAGE_WIDTH = 1080
ROW_HEIGHT = 56
CONTROL_HEIGHT = 32
FOCUS_RING = 2
UNBOUNDED = 16_777_215
"""Qt's QWIDGETSIZE_MAX, which PySide6 does not name."""
MINIMUM_WINDOW = (1024, 640)
SCALE_RANGE = (80, 200)
"""Percent."""
MONO_FAMILY = "JetBrains Mono"
UI_FACES = ("Inter", "Inter Variable", "Cantarell", "Ubuntu", "Noto Sans")
"""Taken where the system has no face of its own but an alias such as "Sans Serif", as bare Linux desktops do."""
