"""One model of Discover at a glance: its size, whether it fits, how fast it will be; a sheet below when asked."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core import words
from app.core.hub import HubCard
from app.gui.screens.models import hub_search
from app.gui.screens.models.downloads import DownloadsModel
from app.gui.screens.models.hub_search import HubSearchModel
from app.gui.screens.models.sheet_view import SheetView
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, Chip
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import VBox
from app.gui.widgets.rows import ListRow, Tag
from app.gui.widgets.status import Dot
from app.gui.widgets.text import Label

_FORMATS_SHOWN = 3
_CHIPS = 6


class CardModels(NamedTuple):
    """What a card asks: what is found, and what is fetched."""

    search: HubSearchModel
    downloads: DownloadsModel


class HubCardView(QWidget):
    """Shows a `HubCard`; `show_card` replaces it in place."""

    def __init__(self, theme: Theme, models: CardModels, shell: Shell, key: str, card: HubCard) -> None:
        super().__init__()
        model, downloads = models
        self._theme, self._model, self._key, self._card = theme, model, key, card
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, gap=0)
        self.row = ListRow(theme)
        for word in _card_tags(card):
            self.row.add_tag(Tag(theme, word))
        self._best = Tag(theme, "Best for this machine", color="accent-ink", fill="accent-soft")
        self.row.add_tag(self._best)
        self._best.hide()
        self._dot, self._fits = Dot(theme), Label(theme, role="meta", color="ink-2")
        self.button = Button(
            theme,
            "Details",
            look=ButtonLook.QUIET,
            widest="Close",
            name=f"Details of {card.title}",
            action=self._toggle_sheet,
        )
        for widget in (self._dot, self._fits, self.button):
            self.row.tail.addWidget(widget)
        box.addWidget(self.row)
        self._choice = _RepositoryChips(theme, self._open_sheet)
        box.addWidget(self._choice)
        self.sheet = SheetView(theme, downloads, shell)
        box.addWidget(self.sheet)

    def show_card(self, card: HubCard, *, is_best: bool = False, reason: str = "") -> None:
        """Show what is so now."""
        self._card = card
        self.row.show_text(card.title, reason or hub_search.card_facts(card))
        self._best.setVisible(is_best)
        color, word = hub_search.fit_sign(card)
        self._dot.show_state(color, word)
        self._dot.setToolTip(card.basis)
        details = hub_search.card_figures(card)
        self._fits.setText(f"{word} · {details}" if details else word)
        self._fits.setToolTip(card.basis)
        sheet = self._model.sheet
        is_open = sheet is not None and sheet.card == self._key
        self.button.setText("Close" if is_open else "Details")
        self.sheet.setVisible(is_open)
        self._choice.setVisible(is_open and len(card.repositories) > 1)
        if sheet is not None and is_open:
            self._choice.show_choice([entry.repository for entry in card.repositories], sheet.repository)
            self.sheet.show_sheet(sheet)

    def _toggle_sheet(self) -> None:
        sheet = self._model.sheet
        is_open = sheet is not None and sheet.card == self._key
        self._open_sheet(
            sheet.repository if sheet is not None and is_open else hub_search.default_repository(self._card)
        )

    def _open_sheet(self, repository: str) -> None:
        self._model.toggle_sheet(self._key, repository)


class _RepositoryChips(QWidget):
    """Which repository of a model is looked at: the most downloaded ones."""

    def __init__(self, theme: Theme, choose: Callable[[str], object]) -> None:
        super().__init__()
        self._theme, self._choose = theme, choose
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(16, 0, 16, 8), gap=0)
        self._flow = FlowLayout(theme, gap=8)
        box.addLayout(self._flow)
        self._chips: dict[str, Chip] = {}

    def show_choice(self, repositories: list[str], chosen: str) -> None:
        """Offer repositories and mark the one that is looked at."""
        for name in repositories[:_CHIPS]:
            if name not in self._chips:
                chip = self._chips[name] = Chip(self._theme, name)
                chip.setAccessibleName(f"Details of {name}")
                chip.set_action(partial(self._choose_chip, name))
                self._flow.addWidget(chip)
        for name, chip in self._chips.items():
            chip.setChecked(name == chosen)
        self._chosen = chosen

    def _choose_chip(self, name: str) -> None:
        self._chips[name].setChecked(True)
        if name != self._chosen:
            self._choose(name)


def _card_tags(card: HubCard) -> list[str]:
    formats = list(dict.fromkeys(kind.upper() for repository in card.repositories for kind in repository.formats))
    tags = [words.format_parameters(card.parameters)] if card.parameters else []
    tags += formats[:_FORMATS_SHOWN]
    if len(formats) > _FORMATS_SHOWN:
        tags.append(f"+{len(formats) - _FORMATS_SHOWN}")
    if all(repository.gated for repository in card.repositories):
        tags.append("Gated")
    if any(repository.is_here for repository in card.repositories):
        tags.append("Installed")
    return tags
