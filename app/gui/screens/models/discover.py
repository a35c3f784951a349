"""Discover: a field to look for models, what narrows it, and cards; before a word is typed, what suits this machine."""

from functools import partial

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.hub import HubCard, HubPick, HubUse
from app.core.translation import LazyText, tr
from app.gui.screens.models import hub_search
from app.gui.screens.models.downloads import DownloadsModel
from app.gui.screens.models.hub_card import CardModels, HubCardView
from app.gui.screens.models.hub_search import HubSearchModel
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, Chip
from app.gui.widgets.fields import Field
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import VBox
from app.gui.widgets.menus import Menu
from app.gui.widgets.panels import ErrorPanel
from app.gui.widgets.rows import RowList
from app.gui.widgets.status import Skeleton
from app.gui.widgets.text import Label, Paragraph

_MOST_PICKS = 24
"""Rows of advice: what comes after is slower or smaller than anybody looks for."""
_EMPTY = LazyText("Nothing on the hub matches your search. Try fewer words, or remove a filter.")


class DiscoverView(QWidget):
    """Shows a `HubSearchModel`."""

    def __init__(self, theme: Theme, model: HubSearchModel, downloads: DownloadsModel, shell: Shell) -> None:
        super().__init__()
        self._theme, self.model, self._shell = theme, model, shell
        self._card_models = CardModels(model, downloads)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, gap=16)
        self.field = Field(theme, tr("Search the hub"), placeholder=tr("Search Hugging Face for models"), icon="search")
        self.field.textChanged.connect(model.type_query)
        self.field.returnPressed.connect(model.search_now)
        box.addWidget(self.field)
        box.addLayout(self._make_filters())
        self._uses = {use: Chip(theme, words.tr()) for use, words in hub_search.USES.items()}
        chips = FlowLayout(theme, gap=8)
        for use, chip in self._uses.items():
            chip.set_action(partial(self._choose_use, use))
            chips.addWidget(chip)
        self._chips = QWidget()
        VBox(theme, self._chips, gap=0).addLayout(chips)
        box.addWidget(self._chips)
        self._note = Paragraph(theme, role="meta", color="warn")
        self._error, self._skeleton = ErrorPanel(theme), Skeleton(theme, is_card=True)
        self._list, self._advice = RowList(theme, tr("Models found")), RowList(theme, tr("Models for this machine"))
        self._nothing = Label(theme, _EMPTY.tr(), color="ink-2")
        self._more = Button(theme, tr("Show more"), look=ButtonLook.QUIET, action=model.fetch_more)
        for widget in (self._note, self._error, self._skeleton, self._advice, self._list, self._nothing, self._more):
            box.addWidget(widget)
        self.setFocusProxy(self.field)
        model.changed.connect(self._show_results)
        downloads.changed.connect(self._show_results)
        self._show_results()

    def _make_filters(self) -> FlowLayout:
        line, theme = FlowLayout(self._theme, gap=8), self._theme
        self._task = Chip(theme, tr("Any task"), checkable=False, icon="chevron-down")
        self._format = Chip(theme, tr("Any format"), checkable=False, icon="chevron-down")
        self._size = Chip(theme, tr("Any size"), checkable=False, icon="chevron-down")
        self._licence = Chip(theme, tr("Any licence"), checkable=False, icon="chevron-down")
        self._age = Chip(theme, tr("Any age"), checkable=False, icon="chevron-down")
        self._sort = Chip(theme, hub_search.SORTS[self.model.query.sort].tr(), checkable=False, icon="chevron-down")
        self._open = Chip(theme, tr("Not gated"))
        for chip, action in (
            (self._task, self._choose_task),
            (self._format, self._choose_format),
            (self._size, self._choose_size),
            (self._licence, self._choose_licence),
            (self._age, self._choose_age),
            (self._sort, self._choose_sort),
        ):
            chip.set_action(action)
            line.addWidget(chip)
        self._open.set_action(lambda: self.model.set_filters(gated=False if self._open.isChecked() else None))
        line.addWidget(self._open)
        return line

    def _show_results(self) -> None:
        model = self.model
        is_searching = model.is_searching
        self._chips.setVisible(not is_searching)
        for use, chip in self._uses.items():
            chip.setChecked(use is model.use)
        self._advice.setVisible(not is_searching and bool(model.picks))
        self._list.setVisible(is_searching and bool(model.cards))
        is_first = model.is_looking and not model.cards if is_searching else not model.picks and model.error is None
        self._skeleton.setVisible(is_first)
        self._nothing.setVisible(is_searching and not model.cards and not model.is_looking and model.error is None)
        self._more.setVisible(is_searching and bool(model.next))
        self._more.setText(tr("Searching…") if model.is_looking else tr("Show more"))
        self._note.setText(model.note)
        self._note.setVisible(bool(model.note))
        self._show_error()
        if is_searching:
            self._show_cards()
        else:
            self._show_picks()

    def _show_error(self) -> None:
        if self.model.error is not None:
            again = (
                self.model.search_now if self.model.is_searching else partial(self.model.fetch_picks, self.model.use)
            )
            self._error.show_error(self.model.error, tr("Try again"), again)
        else:
            self._error.hide()

    def _show_cards(self) -> None:
        def make_card(card: HubCard) -> HubCardView:
            return HubCardView(self._theme, self._card_models, self._shell, card.base, card)

        self._list.sync({card.base: card for card in self.model.cards}, make_card, HubCardView.show_card)

    def _show_picks(self) -> None:
        def make_card(pick: HubPick) -> HubCardView:
            return HubCardView(self._theme, self._card_models, self._shell, pick.name, pick.card)

        picks = self.model.picks[:_MOST_PICKS]
        self._advice.sync({f"{pick.use} {pick.name}": pick for pick in picks}, make_card, HubCardView.show_pick)

    def _choose_use(self, use: HubUse) -> None:
        self._uses[use].setChecked(True)
        self.model.fetch_picks(use)

    def _choose_task(self) -> None:
        self._open_menu(self._task, {words.tr(): {"task": task} for task, words in hub_search.TASKS.items()})

    def _choose_format(self) -> None:
        self._open_menu(
            self._format, {kind.upper() or tr("Any format"): {"format": kind} for kind in hub_search.FORMATS}
        )

    def _choose_size(self) -> None:
        self._open_menu(
            self._size,
            {
                words.tr(): {"min_parameters": least, "max_parameters": most}
                for words, (least, most) in hub_search.SIZES.items()
            },
        )

    def _choose_licence(self) -> None:
        self._open_menu(self._licence, {name or tr("Any licence"): {"licence": name} for name in hub_search.LICENCES})

    def _choose_age(self) -> None:
        self._open_menu(self._age, {words.tr(): {"days": days} for words, days in hub_search.AGES.items()})

    def _choose_sort(self) -> None:
        self._open_menu(self._sort, {words.tr(): {"sort": sort} for sort, words in hub_search.SORTS.items()})

    def _open_menu(self, chip: Chip, choices: dict[str, dict[str, object]]) -> None:
        menu = Menu(self._theme, self, chip.text())
        for words, fields in choices.items():
            icon = "check" if words == chip.text() else ""
            menu.add_entry(words, partial(self._apply_filter, chip, words, fields), icon=icon)
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(chip.mapToGlobal(QPoint(0, chip.height() + self._theme.px(4))))

    def _apply_filter(self, chip: Chip, words: str, fields: dict[str, object]) -> None:
        chip.setText(words)
        chip.setAccessibleName(words)
        chip.updateGeometry()
        self.model.set_filters(**fields)
