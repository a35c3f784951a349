"""Files of the same content: looked for, shown with what sharing would free, and made to share."""

from functools import partial

from PySide6.QtWidgets import QSizePolicy

from app.core import words
from app.core.library import Duplicate, JobKind
from app.gui.screens.models import library_jobs
from app.gui.screens.models.job_view import JobView
from app.gui.screens.models.library_jobs import LibraryJobsModel
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.panels import Section
from app.gui.widgets.rows import ListRow, RowList
from app.gui.widgets.text import Paragraph

_ABOUT = (
    "Models installed by several programs are often stored more than once. Files of the same size are compared by "
    "content, which means reading them."
)
_KINDS = frozenset({JobKind.DUPLICATES, JobKind.RECLAIM, JobKind.SEPARATE})


class DuplicatesView(Section):
    """Shows what a `LibraryWork` found."""

    def __init__(self, theme: Theme, model: LibraryJobsModel) -> None:
        super().__init__(theme, "Duplicate files")
        self._theme, self._model = theme, model
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.search_button = Button(
            theme, "Find duplicates", name="Find duplicate files", widest="Search again", action=model.find_duplicates
        )
        self.reclaim_button = Button(theme, "Reclaim", look=ButtonLook.PRIMARY, action=model.reclaim_space)
        for button in (self.search_button, self.reclaim_button):
            self.head.addWidget(button)
        self._about = Paragraph(theme, _ABOUT, color="ink-2")
        self.list = RowList(theme, "Duplicate files")
        for widget in (self._about, JobView(theme, model, _KINDS), self.list):
            self.body.addWidget(widget)
        model.changed.connect(self._show_duplicates)
        self._show_duplicates()

    def _show_duplicates(self) -> None:
        model, duplicates = self._model, self._model.duplicates
        is_told = model.was_searched or bool(duplicates)
        self._about.setText(library_jobs.reclaim_offer(duplicates) if is_told else _ABOUT)
        self.search_button.setText("Search again" if is_told else "Find duplicates")
        self.search_button.setEnabled(not model.is_busy)
        self.reclaim_button.setVisible(bool(model.reclaims_bytes))
        self.reclaim_button.setEnabled(not model.is_busy)
        self.reclaim_button.set_text(f"Reclaim {words.format_bytes(model.reclaims_bytes)}")
        self.list.setVisible(bool(duplicates))
        self.list.sync(
            {duplicate.sha256: duplicate for duplicate in duplicates}, self._make_row, DuplicateRow.show_duplicate
        )

    def _make_row(self, duplicate: Duplicate) -> "DuplicateRow":
        return DuplicateRow(self._theme, self._model, duplicate)


class DuplicateRow(ListRow):
    """One content that is here more than once."""

    def __init__(self, theme: Theme, model: LibraryJobsModel, duplicate: Duplicate) -> None:
        super().__init__(theme)
        self._model = model
        self._places = Paragraph(theme, role="meta", color="ink-2")
        self.words.insertWidget(self.words.count() - 1, self._places)
        self.button = Button(theme, "", look=ButtonLook.QUIET, action=partial(model.reclaim_space, [duplicate.sha256]))
        self.tail.addWidget(self.button)

    def show_duplicate(self, duplicate: Duplicate) -> None:
        """Show what is so now."""
        self.show_text(library_jobs.duplicate_name(duplicate), library_jobs.copies_text(duplicate))
        self._places.setText("\n".join(library_jobs.copy_places(duplicate)))
        self.button.setVisible(bool(duplicate.reclaims_bytes))
        self.button.setEnabled(not self._model.is_busy)
        self.button.setText(f"Reclaim {words.format_bytes(duplicate.reclaims_bytes)}")
        self.button.setAccessibleName(
            f"Reclaim {words.format_bytes(duplicate.reclaims_bytes)} of {library_jobs.duplicate_name(duplicate)}"
        )
        self.button.updateGeometry()
