"""One model of Discover at a glance: its size, whether it fits, how fast it will be; a sheet below when asked."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core import words
from app.core.hub import HubCard
from app.gui.screens.models import finding
from app.gui.screens.models.fetching import Fetching
from app.gui.screens.models.finding import Finding
from app.gui.screens.models.sheet import SheetView
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.flow import Flow
from app.gui.widgets.layout import Column
from app.gui.widgets.press import Button, Chip, Look
from app.gui.widgets.rows import Row, Tag
from app.gui.widgets.status import Dot
from app.gui.widgets.text import Label

_FORMATS_SHOWN = 3
_CHIPS = 6


class Ground(NamedTuple):
    """What a card asks: what is found, and what is fetched."""

    finding: Finding
    fetching: Fetching


class CardView(QWidget):
    """Shows a `HubCard`; `show_card` replaces it in place."""

    def __init__(self, theme: Theme, ground: Ground, shell: Shell, key: str, card: HubCard) -> None:
        super().__init__()
        model, fetching = ground
        self._theme, self._model, self._key, self._card = theme, model, key, card
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = Column(theme, self, gap=0)
        self.row = Row(theme)
        for word in _tags(card):
            self.row.add_tag(Tag(theme, word))
        self._best = Tag(theme, "Best for this machine", color="accent-ink", fill="accent-soft")
        self.row.add_tag(self._best)
        self._best.hide()
        self._dot, self._fits = Dot(theme), Label(theme, role="meta", color="ink-2")
        self.button = Button(
            theme, "Details", look=Look.QUIET, widest="Close", name=f"Details of {card.title}", action=self._look
        )
        for widget in (self._dot, self._fits, self.button):
            self.row.tail.addWidget(widget)
        box.addWidget(self.row)
        self._choice = _Repositories(theme, self._look_at)
        box.addWidget(self._choice)
        self.sheet = SheetView(theme, fetching, shell)
        box.addWidget(self.sheet)

    def show_card(self, card: HubCard, *, is_best: bool = False, reason: str = "") -> None:
        """Show what is so now."""
        self._card = card
        self.row.say(card.title, reason or finding.about(card))
        self._best.setVisible(is_best)
        color, word = finding.fit(card)
        self._dot.say(color, word)
        self._dot.setToolTip(card.basis)
        said = finding.figures(card)
        self._fits.setText(f"{word} · {said}" if said else word)
        self._fits.setToolTip(card.basis)
        sheet = self._model.sheet
        is_open = sheet is not None and sheet.card == self._key
        self.button.setText("Close" if is_open else "Details")
        self.sheet.setVisible(is_open)
        self._choice.setVisible(is_open and len(card.repositories) > 1)
        if sheet is not None and is_open:
            self._choice.show_choice([one.repository for one in card.repositories], sheet.repository)
            self.sheet.show_sheet(sheet)

    def _look(self) -> None:
        sheet = self._model.sheet
        is_open = sheet is not None and sheet.card == self._key
        self._look_at(sheet.repository if sheet is not None and is_open else finding.usual(self._card))

    def _look_at(self, repository: str) -> None:
        self._model.look_at(self._key, repository)


class _Repositories(QWidget):
    """Which repository of a model is looked at: the most downloaded ones."""

    def __init__(self, theme: Theme, choose: Callable[[str], object]) -> None:
        super().__init__()
        self._theme, self._choose = theme, choose
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = Column(theme, self, margins=(16, 0, 16, 8), gap=0)
        self._flow = Flow(theme, gap=8)
        box.addLayout(self._flow)
        self._chips: dict[str, Chip] = {}

    def show_choice(self, repositories: list[str], chosen: str) -> None:
        """Offer repositories and mark the one that is looked at."""
        for name in repositories[:_CHIPS]:
            if name not in self._chips:
                chip = self._chips[name] = Chip(self._theme, name)
                chip.setAccessibleName(f"Details of {name}")
                chip.act(partial(self._chose, name))
                self._flow.addWidget(chip)
        for name, chip in self._chips.items():
            chip.setChecked(name == chosen)
        self._chosen = chosen

    def _chose(self, name: str) -> None:
        self._chips[name].setChecked(True)
        if name != self._chosen:
            self._choose(name)


def _tags(card: HubCard) -> list[str]:
    formats = list(dict.fromkeys(kind.upper() for one in card.repositories for kind in one.formats))
    shown = [words.parameters(card.parameters)] if card.parameters else []
    shown += formats[:_FORMATS_SHOWN]
    if len(formats) > _FORMATS_SHOWN:
        shown.append(f"+{len(formats) - _FORMATS_SHOWN}")
    if all(one.gated for one in card.repositories):
        shown.append("Gated")
    if any(one.is_here for one in card.repositories):
        shown.append("Installed")
    return shown
