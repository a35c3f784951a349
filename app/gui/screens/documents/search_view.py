"""The card that searches collections: a field, which collection, and the passages with where they are."""

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.documents import Collection, Passage, PassageResults, SearchMeans
from app.core.translation import LazyText, tr, tr_plural
from app.gui import phrases
from app.gui.screens.documents.model import DocumentsModel
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, IconButton
from app.gui.widgets.fields import Field
from app.gui.widgets.flow_layout import PairLayout
from app.gui.widgets.layout import HBox, Surface, VBox
from app.gui.widgets.menus import DropDown
from app.gui.widgets.rows import ListRow, RowList
from app.gui.widgets.text import Label, Paragraph

_ALL = ""
_WIDEST = 220
_FIELD_WIDTH = 260
_EXCERPT = 280
"""Characters of a passage that are shown before it is unfolded."""
_MEANS = {
    SearchMeans.WORDS: LazyText("by their words"),
    SearchMeans.MEANING: LazyText("by what they mean"),
    SearchMeans.RERANKER: LazyText("put in order by a reranker"),
}


class PassageSearchCard(Surface):
    """Searches the collections of a `DocumentsModel`."""

    def __init__(self, theme: Theme, model: DocumentsModel) -> None:
        super().__init__(theme)
        self._theme, self._model = theme, model
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(16, 12, 16, 12), gap=8)
        box.addWidget(Label(theme, tr("Search your documents"), weight=500))
        line = PairLayout(theme, gap=8)
        self.field = Field(theme, tr("What to look for"), placeholder=tr("A question, or some words"), icon="search")
        self.field.setMinimumWidth(theme.px(_FIELD_WIDTH))
        self.choice = DropDown(theme, tr("Where to look"), [(_ALL, tr("All collections"))], widest=_WIDEST)
        self.button = Button(theme, tr("Search"), name=tr("Search the passages"), action=self.find_passages)
        self.field.returnPressed.connect(self.find_passages)
        self.choice.chosen.connect(lambda _value: self.find_passages())
        words, where = HBox(theme), HBox(theme, gap=8)
        words.addWidget(self.field)
        where.addWidget(self.choice)
        where.addWidget(self.button)
        line.addLayout(words)
        line.addLayout(where)
        box.addLayout(line)
        self.outcome = Paragraph(theme, role="meta", color="ink-2")
        self.note = Paragraph(theme, role="meta", color="ink-2")
        self.rows = RowList(theme, tr("Passages"), inset=12)
        for widget in (self.outcome, self.note, self.rows):
            box.addWidget(widget)
        model.search.changed.connect(self._show_results)
        self._show_results()

    def show_collections(self, collections: Sequence[Collection]) -> None:
        """Offer these; nothing to search is no reason for a card."""
        self.choice.set_options([(_ALL, tr("All collections")), *((item.id, item.name) for item in collections)])
        self.choice.setVisible(len(collections) > 1)
        if self.choice.value not in {_ALL, *(item.id for item in collections)}:
            self.choice.set_value(_ALL)
        self.setVisible(any(item.passages for item in collections))

    def find_passages(self) -> None:
        """Look for what is in the field; an empty field takes the passages away."""
        everywhere = [collection.id for collection in self._model.collections]
        chosen_ids = everywhere if self.choice.value == _ALL else [self.choice.value]
        self._model.search.find_passages(self.field.text(), chosen_ids)

    def _show_results(self) -> None:
        search = self._model.search
        self.outcome.set_color("bad" if search.problem else "ink-2")
        self.outcome.setText(self._describe_outcome())
        self.outcome.setVisible(bool(self.outcome.text()))
        self.note.setText(phrases.drop_commands(search.results.note) if search.results else "")
        self.note.setVisible(bool(self.note.text()))
        passages = search.results.passages if search.results else []
        self.rows.sync(
            {f"{item.file}:{item.start}": item for item in passages},
            lambda _passage: PassageRow(self._theme),
            PassageRow.show_passage,
        )
        self.rows.setVisible(bool(passages))

    def _describe_outcome(self) -> str:
        search = self._model.search
        if search.is_searching:
            return tr("Searching…")
        if search.problem is not None:
            return search.problem.sentence
        return describe_results(search.results) if search.results else ""


class PassageRow(QWidget):
    """One passage: where it is, how it begins, and the whole of it when it is unfolded."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._passage: Passage | None = None
        box = VBox(theme, self, margins=(0, 0, 0, 8), gap=0)
        self.row = ListRow(theme, inset=12)
        self.open = IconButton(theme, "external-link", tr("Open file"), action=self._open_file)
        self.row.tail.addWidget(self.open)
        box.addWidget(self.row)
        inner = VBox(theme, margins=(12, 0, 12, 0), gap=0)
        self.text = Paragraph(theme, color="ink-2")
        self.fold = Button(
            theme, tr("Show all of it"), look=ButtonLook.BARE, action=partial(self._unfold, is_open=True)
        )
        inner.addWidget(self.text)
        inner.addWidget(self.fold, 0, Qt.AlignmentFlag.AlignLeft)
        box.addLayout(inner)

    def show_passage(self, passage: Passage) -> None:
        """Show another passage, folded."""
        self._passage = passage
        place = phrases.describe_passage_place(passage)
        self.row.show_text(place, passage.path)
        self.setAccessibleName(place)
        self.open.setAccessibleName(tr("Open the file of {place}", place=place))
        self.fold.setAccessibleName(tr("Show all of {place}", place=place))
        self._unfold(is_open=False)

    def _unfold(self, *, is_open: bool) -> None:
        text = self._passage.text if self._passage else ""
        is_long = len(text) > _EXCERPT
        line = " ".join(text.split())
        self.text.setText(text if is_open else f"{line[:_EXCERPT]}…" if is_long else line)
        self.setAccessibleDescription(self.text.text())
        self.fold.setVisible(is_long and not is_open)

    def _open_file(self) -> None:
        if self._passage is not None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(self._passage.path))


def describe_results(results: PassageResults) -> str:
    """Return how many passages were found, and how."""
    if not results.passages:
        return tr("Nothing was found.")
    count = tr_plural("{count} passage", "{count} passages", len(results.passages))
    means = ", ".join(_MEANS[mean].tr() for mean in results.means)
    return tr(
        "{passages} found {means}, in {number:,.0f} ms.", passages=count, means=means, number=results.seconds * 1e3
    )
