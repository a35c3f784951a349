"""Discover: a field to look for models, what narrows it, and cards; before a word is typed, what suits this machine."""

from functools import partial

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.hub import HubCard, HubPick, HubUse
from app.gui.screens.models import finding
from app.gui.screens.models.card import CardView, Ground
from app.gui.screens.models.fetching import Fetching
from app.gui.screens.models.finding import Finding
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.fields import Field
from app.gui.widgets.flow import Flow
from app.gui.widgets.layout import Column
from app.gui.widgets.menus import Menu
from app.gui.widgets.panels import ErrorPanel
from app.gui.widgets.press import Button, Chip, Look
from app.gui.widgets.rows import RowList
from app.gui.widgets.status import Skeleton
from app.gui.widgets.text import Label, Paragraph

_EMPTY = "Nothing on the hub matches your search. Try fewer words, or remove a filter."


class Discover(QWidget):
    """Shows a `Finding`."""

    def __init__(self, theme: Theme, model: Finding, fetching: Fetching, shell: Shell) -> None:
        super().__init__()
        self._theme, self.model, self._shell = theme, model, shell
        self._ground = Ground(model, fetching)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = Column(theme, self, gap=16)
        self.field = Field(theme, "Search the hub", placeholder="Search Hugging Face for models", icon="search")
        self.field.textChanged.connect(model.type)
        self.field.returnPressed.connect(model.look)
        box.addWidget(self.field)
        box.addLayout(self._filters())
        self._uses = {use: Chip(theme, f"Best for {words.lower()}") for use, words in finding.USES.items()}
        chips = Flow(theme, gap=8)
        for use, chip in self._uses.items():
            chip.act(partial(self._advise, use))
            chips.addWidget(chip)
        self._chips = QWidget()
        Column(theme, self._chips, gap=0).addLayout(chips)
        box.addWidget(self._chips)
        self._note = Paragraph(theme, role="meta", color="warn")
        self._error, self._skeleton = ErrorPanel(theme), Skeleton(theme, is_card=True)
        self._list, self._advice = RowList(theme, "Models found"), RowList(theme, "Models for this machine")
        self._nothing = Label(theme, _EMPTY, color="ink-2")
        self._more = Button(theme, "Show more", look=Look.QUIET, action=model.more)
        for widget in (self._note, self._error, self._skeleton, self._advice, self._list, self._nothing, self._more):
            box.addWidget(widget)
        self.setFocusProxy(self.field)
        model.changed.connect(self._show)
        fetching.changed.connect(self._show)
        self._show()

    def _filters(self) -> Flow:
        line, theme = Flow(self._theme, gap=8), self._theme
        self._task = Chip(theme, "Any task", checkable=False, icon="chevron-down")
        self._format = Chip(theme, "Any format", checkable=False, icon="chevron-down")
        self._size = Chip(theme, "Any size", checkable=False, icon="chevron-down")
        self._licence = Chip(theme, "Any licence", checkable=False, icon="chevron-down")
        self._age = Chip(theme, "Any age", checkable=False, icon="chevron-down")
        self._sort = Chip(theme, finding.SORTS[self.model.query.sort], checkable=False, icon="chevron-down")
        self._open = Chip(theme, "Not gated")
        for chip, action in (
            (self._task, self._choose_task),
            (self._format, self._choose_format),
            (self._size, self._choose_size),
            (self._licence, self._choose_licence),
            (self._age, self._choose_age),
            (self._sort, self._choose_sort),
        ):
            chip.act(action)
            line.addWidget(chip)
        self._open.act(lambda: self.model.narrow(gated=False if self._open.isChecked() else None))
        line.addWidget(self._open)
        return line

    def _show(self) -> None:
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
        self._more.setText("Searching…" if model.is_looking else "Show more")
        self._note.setText(model.note)
        self._note.setVisible(bool(model.note))
        self._show_error()
        if is_searching:
            self._show_cards()
        else:
            self._show_picks()

    def _show_error(self) -> None:
        if self.model.error is not None:
            again = self.model.look if self.model.is_searching else partial(self.model.advise, self.model.use)
            self._error.say(self.model.error, "Try again", again)
        else:
            self._error.hide()

    def _show_cards(self) -> None:
        def made(card: HubCard) -> CardView:
            return CardView(self._theme, self._ground, self._shell, card.base, card)

        self._list.sync({card.base: card for card in self.model.cards}, made, CardView.show_card)

    def _show_picks(self) -> None:
        def made(pick: HubPick) -> CardView:
            return CardView(self._theme, self._ground, self._shell, pick.name, pick.card)

        def shown(view: CardView, pick: HubPick) -> None:
            view.show_card(pick.card, is_best=pick.is_best, reason=pick.reason)

        self._advice.sync({f"{pick.use} {pick.name}": pick for pick in self.model.picks}, made, shown)

    def _advise(self, use: HubUse) -> None:
        self._uses[use].setChecked(True)
        self.model.advise(use)

    def _choose_task(self) -> None:
        self._menu(self._task, {words: {"task": task} for task, words in finding.TASKS.items()})

    def _choose_format(self) -> None:
        self._menu(self._format, {kind.upper() or "Any format": {"format": kind} for kind in finding.FORMATS})

    def _choose_size(self) -> None:
        self._menu(
            self._size,
            {
                words or "Any size": {"min_parameters": least, "max_parameters": most}
                for words, (least, most) in finding.SIZES.items()
            },
        )

    def _choose_licence(self) -> None:
        self._menu(self._licence, {name or "Any licence": {"licence": name} for name in finding.LICENCES})

    def _choose_age(self) -> None:
        self._menu(self._age, {words: {"days": days} for words, days in finding.AGES.items()})

    def _choose_sort(self) -> None:
        self._menu(self._sort, {words: {"sort": sort} for sort, words in finding.SORTS.items()})

    def _menu(self, chip: Chip, choices: dict[str, dict[str, object]]) -> None:
        menu = Menu(self._theme, self, chip.text())
        for words, fields in choices.items():
            icon = "check" if words == chip.text() else ""
            menu.offer(words, partial(self._chose, chip, words, fields), icon=icon)
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(chip.mapToGlobal(QPoint(0, chip.height() + self._theme.px(4))))

    def _chose(self, chip: Chip, words: str, fields: dict[str, object]) -> None:
        chip.setText(words)
        chip.setAccessibleName(words)
        chip.updateGeometry()
        self.model.narrow(**fields)
