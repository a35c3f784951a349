"""Files of the same content: looked for, shown with what sharing would free, and made to share."""

from functools import partial

from PySide6.QtWidgets import QSizePolicy

from app.core import words
from app.core.library import Duplicate, JobKind
from app.gui.screens.models import work
from app.gui.screens.models.job_view import JobView
from app.gui.screens.models.work import LibraryWork
from app.gui.theme.theme import Theme
from app.gui.widgets.panels import Section
from app.gui.widgets.press import Button, Look
from app.gui.widgets.rows import Row, RowList
from app.gui.widgets.text import Paragraph

_ABOUT = (
    "Models installed by several programs are often stored more than once. Files of the same size are compared by "
    "content, which means reading them."
)
_KINDS = frozenset({JobKind.DUPLICATES, JobKind.RECLAIM, JobKind.SEPARATE})


class DuplicatesView(Section):
    """Shows what a `LibraryWork` found."""

    def __init__(self, theme: Theme, model: LibraryWork) -> None:
        super().__init__(theme, "Duplicate files")
        self._theme, self._model = theme, model
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.search_button = Button(
            theme, "Find duplicates", name="Find duplicate files", widest="Search again", action=model.search
        )
        self.reclaim_button = Button(theme, "Reclaim", look=Look.PRIMARY, action=model.reclaim)
        for button in (self.search_button, self.reclaim_button):
            self.head.addWidget(button)
        self._about = Paragraph(theme, _ABOUT, color="ink-2")
        self.list = RowList(theme, "Duplicate files")
        for widget in (self._about, JobView(theme, model, _KINDS), self.list):
            self.body.addWidget(widget)
        model.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        model, found = self._model, self._model.duplicates
        is_told = model.was_searched or bool(found)
        self._about.setText(work.offer(found) if is_told else _ABOUT)
        self.search_button.setText("Search again" if is_told else "Find duplicates")
        self.search_button.setEnabled(not model.is_busy)
        self.reclaim_button.setVisible(bool(model.reclaims_bytes))
        self.reclaim_button.setEnabled(not model.is_busy)
        self.reclaim_button.set_text(f"Reclaim {words.size(model.reclaims_bytes)}")
        self.list.setVisible(bool(found))
        self.list.sync({one.sha256: one for one in found}, self._row, DuplicateRow.show_duplicate)

    def _row(self, one: Duplicate) -> "DuplicateRow":
        return DuplicateRow(self._theme, self._model, one)


class DuplicateRow(Row):
    """One content that is here more than once."""

    def __init__(self, theme: Theme, model: LibraryWork, one: Duplicate) -> None:
        super().__init__(theme)
        self._model = model
        self._places = Paragraph(theme, role="meta", color="ink-2")
        self.words.insertWidget(self.words.count() - 1, self._places)
        self.button = Button(theme, "", look=Look.QUIET, action=partial(model.reclaim, [one.sha256]))
        self.tail.addWidget(self.button)

    def show_duplicate(self, one: Duplicate) -> None:
        """Show what is so now."""
        self.say(work.name(one), work.copies(one))
        self._places.setText("\n".join(work.places(one)))
        self.button.setVisible(bool(one.reclaims_bytes))
        self.button.setEnabled(not self._model.is_busy)
        self.button.setText(f"Reclaim {words.size(one.reclaims_bytes)}")
        self.button.setAccessibleName(f"Reclaim {words.size(one.reclaims_bytes)} of {work.name(one)}")
        self.button.updateGeometry()
