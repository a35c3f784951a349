"""The engines page: a card for each engine that suits this machine, best first; the others folded, and why."""

from PySide6.QtWidgets import QWidget

from app.core.engine_store import EngineListing
from app.gui.net.remote_lists import Stores
from app.gui.screens.engines.engine_card import EngineCard
from app.gui.screens.engines.model import EnginesModel
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.layout import VBox
from app.gui.widgets.panels import ErrorPanel, Fold, PageFrame
from app.gui.widgets.rows import ListRow, RowList
from app.gui.widgets.status import Skeleton
from app.gui.widgets.text import Paragraph

_ABOUT = (
    "A new version is installed beside the others and must answer a test question before it is used. If it fails "
    "later, Roundhouse goes back to the previous one by itself."
)


class EnginesScreen(PageFrame):
    """Shows an `EnginesModel`."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell) -> None:
        super().__init__(theme, "Engines")
        self.model = EnginesModel(stores, shell)
        self._trouble = ErrorPanel(theme)
        self._skeleton = Skeleton(theme, 4, is_card=True)
        self._cards: dict[str, EngineCard] = {}
        holder = QWidget()
        self._box = VBox(theme, holder, gap=12)
        self._others = RowList(theme, "Engines that cannot run here")
        place = QWidget()
        VBox(theme, place, gap=0).addWidget(self._others)
        self._fold = Fold(theme, "Not for this machine", place)
        self.body.addWidget(Paragraph(theme, _ABOUT, color="ink-2"))
        for part in (self._trouble, self._skeleton, holder, self._fold):
            self.body.addWidget(part)
        self.body.addStretch(1)
        self.model.changed.connect(self._show_engines)
        self.model.toast_requested.connect(shell.show_toast)
        self._show_engines()

    def _show_engines(self) -> None:
        model = self.model
        self.about.setText(model.summary)
        self._sync_cards(model.suitable_engines)
        self._others.sync(
            {engine.id: engine for engine in model.other_engines},
            lambda _listing: ListRow(self.theme),
            lambda row, engine: row.show_text(engine.name, engine.advice),
        )
        self._fold.setVisible(bool(model.other_engines))
        self._fold.set_title(f"Not for this machine ({len(model.other_engines)})")
        self._skeleton.setVisible(not model.listings.is_known and model.listings.error is None)
        self._trouble.setVisible(model.listings.error is not None)
        if model.listings.error is not None:
            self._trouble.show_error(model.listings.error, "Try again", model.listings.read)

    def _sync_cards(self, engines: list[EngineListing]) -> None:
        """Keep one card per engine, in order; a card that stays keeps the focus and what is unfolded."""
        for engine in set(self._cards) - {listing.id for listing in engines}:
            card = self._cards.pop(engine)
            card.hide()
            card.deleteLater()
        for place, listing in enumerate(engines):
            card = self._cards.get(listing.id) or EngineCard(self.theme, self.model, listing)
            self._cards[listing.id] = card
            if self._box.indexOf(card) != place:
                self._box.removeWidget(card)
                self._box.insertWidget(place, card)
            card.show_stock(listing)
