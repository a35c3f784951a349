"""A job of the library while it goes on: what is done, how far, and the way to call it off."""

from collections.abc import Collection

from PySide6.QtWidgets import QSizePolicy

from app.core.library import JobKind
from app.gui.screens.models import library_jobs
from app.gui.screens.models.library_jobs import LibraryJobsModel
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button
from app.gui.widgets.layout import Surface, VBox
from app.gui.widgets.rows import ListRow
from app.gui.widgets.status import ProgressBar


class JobView(Surface):
    """Shows a `LibraryWork` while a job of these kinds goes on; hidden otherwise."""

    def __init__(self, theme: Theme, model: LibraryJobsModel, kinds: Collection[JobKind]) -> None:
        super().__init__(theme)
        self._model, self._kinds = model, kinds
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self._row = ListRow(theme)
        self._progress = ProgressBar(theme, "Progress")
        end = self._row.words.count() - 1
        self._row.words.insertSpacing(end, theme.px(4))
        self._row.words.insertWidget(end + 1, self._progress)
        self.cancel_button = Button(theme, "Cancel", action=model.cancel)
        self._row.tail.addWidget(self.cancel_button)
        VBox(theme, self, margins=(0, 4, 0, 4), gap=0).addWidget(self._row)
        model.changed.connect(self._show_job)
        self._show_job()

    def _show_job(self) -> None:
        job = self._model.job
        is_shown = job is not None and not job.is_done and job.kind in self._kinds
        self.setVisible(is_shown)
        if job is None or not is_shown:
            return
        self._row.show_text(library_jobs.job_title(job), library_jobs.job_progress(job))
        self._progress.set_fraction(library_jobs.job_fraction(job))
        self.cancel_button.setAccessibleName(f"Cancel: {library_jobs.job_title(job)}")
