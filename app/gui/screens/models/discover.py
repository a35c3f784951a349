"""Discover: a field to look for models, what narrows it, and what was found in the catalogue and on the hub.

Before a word is typed it is the catalogue: the model that is recommended for this machine, then families.
"""

from functools import partial

from PySide6.QtCore import QPoint
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.hub import HubCard, HubUse
from app.core.translation import LazyText, tr
from app.gui.screens.models import hub_search
from app.gui.screens.models.downloads import DownloadsModel
from app.gui.screens.models.hub_card import CardModels, HubCardView
from app.gui.screens.models.hub_search import HubSearchModel, PickFamily
from app.gui.screens.models.pick_card import FamilyView, PickRow, RecommendationCard
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

_EMPTY = LazyText("Nothing on the hub matches your search. Try fewer words, or remove a filter.")


class DiscoverView(QWidget):
    """Shows a `HubSearchModel`."""

    def __init__(self, theme: Theme, model: HubSearchModel, downloads: DownloadsModel, shell: Shell) -> None:
        super().__init__()
        self._theme, self.model, self._shell = theme, model, shell
        self._card_models = CardModels(model, downloads)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, gap=16)
        self.field = Field(
            theme, tr("Search the hub"), placeholder=tr("Search the catalogue and Hugging Face"), icon="search"
        )
        self.field.textChanged.connect(model.type_query)
        self.field.returnPressed.connect(model.search_now)
        box.addWidget(self.field)
        self._filters = QWidget()
        VBox(theme, self._filters, gap=0).addLayout(self._make_filters())
        box.addWidget(self._filters)
        self._uses = {use: Chip(theme, words.tr()) for use, words in hub_search.USES.items()}
        chips = FlowLayout(theme, gap=8)
        for use, chip in self._uses.items():
            chip.set_action(partial(self._choose_use, use))
            chips.addWidget(chip)
        self._narrow = Chip(theme, tr("Filter the hub"), icon="filter")
        self._narrow.set_action(self._show_results)
        chips.addWidget(self._narrow)
        self._chips = QWidget()
        VBox(theme, self._chips, gap=0).addLayout(chips)
        box.addWidget(self._chips)
        self._note = Paragraph(theme, role="meta", color="warn")
        self._error, self._skeleton = ErrorPanel(theme), Skeleton(theme, is_card=True)
        self._recommendation = RecommendationCard(theme, self._card_models, shell)
        self._is_best_wanted = False
        self._unknown = Paragraph(theme, color="ink-2")
        self._families = RowList(theme, tr("Models of the catalogue"))
        self._more_families = Button(
            theme, tr("Show more families"), look=ButtonLook.QUIET, action=model.show_more_families
        )
        self._foot = QWidget()
        foot = FlowLayout(theme, gap=8)
        VBox(theme, self._foot, gap=0).addLayout(foot)
        foot.addWidget(self._more_families)
        self._refresh = Button(
            theme,
            tr("Refresh the catalogue"),
            look=ButtonLook.QUIET,
            icon="refresh-cw",
            action=model.refresh_catalogue,
        )
        foot.addWidget(self._refresh)
        self._catalogue_heading = Label(theme, tr("In the catalogue"), role="section")
        self._matches = RowList(theme, tr("Models of the catalogue that match"))
        self._on_hub = Label(theme, tr("On Hugging Face"), role="section")
        self._list = RowList(theme, tr("Models found"))
        self._nothing = Label(theme, _EMPTY.tr(), color="ink-2")
        self._more = Button(theme, tr("Show more"), look=ButtonLook.QUIET, action=model.fetch_more)
        for widget in (
            *(self._recommendation, self._unknown, self._families, self._foot, self._catalogue_heading, self._matches),
            *(self._on_hub, self._note, self._error, self._skeleton, self._list, self._nothing, self._more),
        ):
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

    def focus_best(self) -> None:
        """Give the keyboard to the download of the model for this computer, now or once it is known."""
        self._is_best_wanted = not self._recommendation.focus_download()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802 -- Qt's name
        """Remember, once somebody turns to something else, that what the catalogue has was seen."""
        super().hideEvent(event)
        if not event.spontaneous():  # a window that is minimised is still looked at afterwards
            self.model.note_look()

    def _show_results(self) -> None:
        model = self.model
        is_searching = model.is_searching
        self._chips.setVisible(not is_searching)
        self._filters.setVisible(is_searching or self._narrow.isChecked())
        for use, chip in self._uses.items():
            chip.setChecked(use is model.use)
        self._list.setVisible(is_searching and bool(model.cards))
        is_first = model.is_looking and not model.cards if is_searching else not model.picks and model.error is None
        self._skeleton.setVisible(is_first)
        is_empty = is_searching and not model.cards and not model.is_looking and model.error is None
        self._nothing.setVisible(is_empty)
        self._more.setVisible(is_searching and bool(model.next))
        self._more.setText(tr("Searching…") if model.is_looking else tr("Show more"))
        self._note.setText(model.note)
        self._note.setVisible(is_searching and bool(model.note))
        self._show_error()
        self._show_catalogue(is_searching=is_searching)
        self._show_matches(is_searching=is_searching)
        if is_searching:
            self._show_cards()

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

    def _show_catalogue(self, *, is_searching: bool) -> None:
        model = self.model
        families = [] if is_searching else hub_search.list_families(model.picks)
        best_quality = max((pick.quality for pick in model.picks), default=0)
        best = None if is_searching else model.best
        self._recommendation.show_picks(best, model.fast, best_quality)
        if self._is_best_wanted:  # asked for before it was known
            self.focus_best()
        reason = families[0].picks[0].reason if families and best is None else ""
        self._unknown.setText(reason)
        self._unknown.setVisible(bool(reason))
        self._families.setVisible(bool(families))
        self._foot.setVisible(bool(families))
        self._more_families.setVisible(len(families) > model.family_limit)
        if families:
            self._families.sync(
                {family.name: family for family in families[: model.family_limit]},
                self._make_family,
                lambda view, family: self._show_family(view, family, best_quality),
            )

    def _make_family(self, family: PickFamily) -> FamilyView | PickRow:
        if len(family.picks) == 1:
            return PickRow(self._theme, self._card_models, self._shell, family.picks[0])
        return FamilyView(self._theme, self._card_models, self._shell, family)

    def _show_family(self, view: FamilyView | PickRow, family: PickFamily, best_quality: int) -> None:
        if isinstance(view, FamilyView):
            view.show_family(family, best_quality)
        else:
            view.show_pick(family.picks[0], best_quality)

    def _show_matches(self, *, is_searching: bool) -> None:
        matches = self.model.matches if is_searching else []
        best_quality = max((pick.quality for pick in (*self.model.picks, *matches)), default=0)
        for widget in (self._catalogue_heading, self._matches, self._on_hub):
            widget.setVisible(bool(matches))
        self._matches.sync(
            {pick.pull: pick for pick in matches},
            lambda pick: PickRow(self._theme, self._card_models, self._shell, pick),
            lambda row, pick: row.show_pick(pick, best_quality),
        )

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
