"""The engines page: a card for each engine that suits this machine, best first; the others folded, and why."""

from PySide6.QtWidgets import QWidget

from app.core.engine_store import EngineStock
from app.gui.net.stores import Stores
from app.gui.screens.engines.card import EngineCard
from app.gui.screens.engines.model import EnginesModel
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.layout import Column
from app.gui.widgets.panels import ErrorPanel, Fold, Page
from app.gui.widgets.rows import Row, RowList
from app.gui.widgets.status import Skeleton
from app.gui.widgets.text import Paragraph

_ABOUT = (
    "A new version is installed beside the others and must answer a test question before it is used. If it fails "
    "later, Roundhouse goes back to the previous one by itself."
)


class EnginesScreen(Page):
    """Shows an `EnginesModel`."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell) -> None:
        super().__init__(theme, "Engines")
        self.model = EnginesModel(stores, shell)
        self._trouble = ErrorPanel(theme)
        self._skeleton = Skeleton(theme, 4, is_card=True)
        self._cards: dict[str, EngineCard] = {}
        holder = QWidget()
        self._box = Column(theme, holder, gap=12)
        self._others = RowList(theme, "Engines that cannot run here")
        place = QWidget()
        Column(theme, place, gap=0).addWidget(self._others)
        self._fold = Fold(theme, "Not for this machine", place)
        self.body.addWidget(Paragraph(theme, _ABOUT, color="ink-2"))
        for part in (self._trouble, self._skeleton, holder, self._fold):
            self.body.addWidget(part)
        self.body.addStretch(1)
        self.model.changed.connect(self._show)
        self.model.said.connect(shell.toast)
        self._show()

    def _show(self) -> None:
        model = self.model
        self.about.setText(model.summary)
        self._sync(model.suited)
        self._others.sync(
            {one.id: one for one in model.others},
            lambda _one: Row(self.theme),
            lambda row, one: row.say(one.name, one.advice),
        )
        self._fold.setVisible(bool(model.others))
        self._fold.set_title(f"Not for this machine ({len(model.others)})")
        self._skeleton.setVisible(not model.stock.is_known and model.stock.error is None)
        self._trouble.setVisible(model.stock.error is not None)
        if model.stock.error is not None:
            self._trouble.say(model.stock.error, "Try again", model.stock.read)

    def _sync(self, engines: list[EngineStock]) -> None:
        """Keep one card per engine, in order; a card that stays keeps the focus and what is unfolded."""
        for engine in set(self._cards) - {one.id for one in engines}:
            card = self._cards.pop(engine)
            card.hide()
            card.deleteLater()
        for place, one in enumerate(engines):
            card = self._cards.get(one.id) or EngineCard(self.theme, self.model, one)
            self._cards[one.id] = card
            if self._box.indexOf(card) != place:
                self._box.removeWidget(card)
                self._box.insertWidget(place, card)
            card.show_stock(one)
