"""The card of this copy: its version, what is newer and what is new in it, how far an installation is, the way back."""

import time
from datetime import date
from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core import words
from app.core.translation import LazyText, tr, tr_plural
from app.core.updates import InstallationKind, Release, UpdateJob, UpdateState
from app.gui.markdown.pieces import MarkdownPiece, PieceKind, rich_of
from app.gui.markdown.splitter import MarkdownSplitter
from app.gui.net.app_updates import UpdateStore
from app.gui.phrases import time_ago
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.code import Snippet
from app.gui.widgets.flow_layout import FlowLayout, PairLayout
from app.gui.widgets.layout import Hairline, HBox, Surface, VBox, clear_layout
from app.gui.widgets.panels import ErrorPanel, Section
from app.gui.widgets.rows import Tag
from app.gui.widgets.status import ProgressBar
from app.gui.widgets.text import ElidedLabel, Label, Paragraph

_KINDS = {
    InstallationKind.DEB: LazyText("System package"),
    InstallationKind.ARCHIVE: LazyText("Your own folder"),
    InstallationKind.APPIMAGE: LazyText("AppImage"),
    InstallationKind.EXE: LazyText("Installed for this user"),
    InstallationKind.DMG: LazyText("Application"),
    InstallationKind.WHEEL: LazyText("Python package"),
    InstallationKind.SOURCE: LazyText("Source checkout"),
}
_HOW = {
    InstallationKind.ARCHIVE: LazyText(
        "It is checked and tried out first. When no answer is being written, it takes over and this window reopens. "
        "The previous version is kept."
    ),
    InstallationKind.DEB: LazyText(
        "It is checked first. When no answer is being written, the system asks for an administrator's password and "
        "installs it; then this window reopens."
    ),
    InstallationKind.APPIMAGE: LazyText(
        "It is checked first, and used when you next open Roundhouse. The previous version is kept."
    ),
    InstallationKind.EXE: LazyText("It is checked first. When no answer is being written, its installer opens."),
    InstallationKind.DMG: LazyText("It is checked first, then shown for you to drag to Applications."),
}


class UpdatesCard(Section):
    """Shows an `UpdateStore`."""

    def __init__(self, theme: Theme, model: UpdateStore, shell: Shell) -> None:
        super().__init__(theme, tr("This version"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self._model = model
        sheet = Surface(theme)
        sheet.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, sheet, margins=(16, 12, 16, 12), gap=12)
        self.present = _PresentVersionView(theme, model)
        self.error = ErrorPanel(theme)
        self.news = _NewVersionView(theme, model, shell)
        self.job = _UpdateJobView(theme, model)
        self.outcome = Paragraph(theme, weight=500)
        for part in (self.present, self.news, self.job, self.outcome, self.error):
            box.addWidget(part)
        self.body.addWidget(sheet)
        model.changed.connect(self._show_state)
        self._show_state()

    def _show_state(self) -> None:
        model, state = self._model, self._model.value
        self.setVisible(state is not None)
        if state is None:
            return
        job = model.job if model.is_busy else None
        outcome = model.job.said if model.job is not None and model.job.is_done else ""
        self.present.show_state(state, is_busy=job is not None)
        self.news.show_release(state, model.release if job is None and not outcome else None)
        self.job.show_job(job)
        self.outcome.setText(outcome)
        self.outcome.setVisible(bool(outcome))
        self.error.setVisible(model.refusal is not None)
        if model.refusal is not None:
            self.error.show_error(model.refusal, tr("Dismiss"), model.dismiss)


class _PresentVersionView(QWidget):
    """What runs now, how it came here, when somebody looked last; the buttons that look and go back."""

    def __init__(self, theme: Theme, model: UpdateStore) -> None:
        super().__init__()
        self._model = model
        pair = PairLayout(theme, gap=24)
        VBox(theme, self).addLayout(pair)
        texts = VBox(theme, gap=2)
        self.version = Label(theme, weight=500)
        self.about = ElidedLabel(theme, role="meta", color="ink-2", mode=Qt.TextElideMode.ElideMiddle)
        self.check_label = Paragraph(theme, role="meta", color="ink-2")
        for label in (self.version, self.about, self.check_label):
            texts.addWidget(label)
        pair.addLayout(texts)
        buttons = HBox(theme, gap=8)
        self.back = Button(theme, tr("Go back"), look=ButtonLook.QUIET, action=model.go_back)
        self.look = Button(theme, tr("Check for updates"), icon="refresh-cw", action=model.look)
        buttons.addWidget(self.back)
        buttons.addWidget(self.look)
        pair.addLayout(buttons)

    def show_state(self, state: UpdateState, *, is_busy: bool) -> None:
        """Show what is so now."""
        self.version.setText(f"Roundhouse {state.version}")
        self.about.setText(f"{_KINDS[state.kind]} · {state.place}")
        self.check_label.setText(check_words(self._model, state))
        self.look.setVisible(not state.unavailable)
        self.look.setEnabled(not is_busy)
        self.back.setVisible(bool(state.previous))
        self.back.setEnabled(not is_busy)
        if state.previous == "before":
            self.back.set_text(tr("Go back to the previous version"))
        else:
            self.back.set_text(tr("Go back to {version}", version=state.previous))


class _NewVersionView(QWidget):
    """A newer version: its notes, and what can be done about it."""

    def __init__(self, theme: Theme, model: UpdateStore, shell: Shell) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, gap=12)
        box.addWidget(Hairline(theme))
        head, title = VBox(theme, gap=2), HBox(theme, gap=8)
        self.title = Label(theme, role="section")
        title.addWidget(self.title)
        title.addWidget(Tag(theme, tr("New"), color="accent-ink", fill="accent-soft"))
        title.addStretch(1)
        self.facts = Paragraph(theme, role="meta", color="ink-2")
        head.addLayout(title)
        head.addWidget(self.facts)
        box.addLayout(head)
        self.notes = ReleaseNotes(theme)
        box.addWidget(self.notes)
        self.problem = Paragraph(theme, color="ink-2")
        box.addWidget(self.problem)
        self.command = Snippet(
            theme, tr("The command that updates it"), partial(shell.copy_text, message=tr("The command was copied"))
        )
        box.addWidget(self.command)
        self.how = Paragraph(theme, role="meta", color="ink-2")
        box.addWidget(self.how)
        buttons = FlowLayout(theme, gap=8)
        self.install = Button(theme, tr("Install"), look=ButtonLook.PRIMARY, action=model.install)
        self.skip = Button(theme, tr("Skip this version"), look=ButtonLook.QUIET, action=model.skip)
        buttons.addWidget(self.install)
        buttons.addWidget(self.skip)
        box.addLayout(buttons)

    def show_release(self, state: UpdateState, release: Release | None) -> None:
        """Show a version; hidden while there is none."""
        self.setVisible(release is not None)
        if release is None:
            return
        self.title.setText(f"Roundhouse {release.version}")
        size = words.format_bytes(release.size_bytes) if release.size_bytes else ""
        self.facts.setText(" · ".join(filter(None, (format_day(release.released), size))))
        self.notes.show_markdown(release.notes)
        self.problem.setText(release.problem)
        self.problem.setVisible(bool(release.problem))
        self.command.set_text(state.command)
        self.command.setVisible(bool(state.command))
        can_install = not state.command and not release.problem
        self.how.setText(str(_HOW.get(state.kind, "")))
        self.how.setVisible(can_install)
        self.install.setVisible(can_install)
        self.install.setAccessibleName(tr("Install version {version}", version=release.version))


class _UpdateJobView(QWidget):
    """How far an installation is, and the ways out of it."""

    def __init__(self, theme: Theme, model: UpdateStore) -> None:
        super().__init__()
        box = VBox(theme, self, gap=12)
        box.addWidget(Hairline(theme))
        pair = PairLayout(theme)
        column = VBox(theme, gap=6)
        self.title = Label(theme, weight=500)
        self.stage = Paragraph(theme, role="meta", color="ink-2")
        self.bar = ProgressBar(theme, tr("Progress of the update"))
        for part in (self.title, self.stage, self.bar):
            column.addWidget(part)
        pair.addLayout(column)
        buttons = HBox(theme, gap=8)
        self.now = Button(
            theme, tr("Do not wait"), name=tr("Install without waiting"), action=partial(model.install, now=True)
        )
        self.cancel = Button(
            theme, tr("Cancel"), look=ButtonLook.QUIET, name=tr("Cancel the update"), action=model.cancel
        )
        buttons.addWidget(self.now)
        buttons.addWidget(self.cancel)
        pair.addLayout(buttons)
        box.addLayout(pair)

    def show_job(self, job: UpdateJob | None) -> None:
        """Show a job; hidden while there is none."""
        self.setVisible(job is not None)
        if job is None:
            return
        self.title.setText(_job_title(job))
        self.stage.setText(stage_words(job))
        self.bar.set_fraction(job.done_bytes / job.total_bytes if job.total_bytes else None)
        self.now.setVisible(bool(job.waits_for) and job.verb == "install")


class ReleaseNotes(QWidget):
    """Notes of a version, below each other as a message is; links are words, and nothing is fetched for them."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme, self._text = theme, ""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self._box = VBox(theme, self, gap=4)

    def show_markdown(self, markdown: str) -> None:
        """Show other notes."""
        if markdown == self._text:
            return
        self._text = markdown
        clear_layout(self._box)
        cutter = MarkdownSplitter()
        for piece in [*cutter.feed(markdown), *cutter.finish()]:
            self._add_piece(piece)
        self.setVisible(bool(markdown.strip()))

    def _add_piece(self, piece: MarkdownPiece) -> None:
        text = rich_of(piece).text if piece.kind is not PieceKind.RULE else ""
        if not text:
            return
        row, is_heading = QWidget(), piece.kind is PieceKind.HEADING
        above = 8 if is_heading and self._box.count() else 0
        line = HBox(self._theme, row, margins=(16 * max(0, piece.depth - 1), above, 0, 0), gap=8)
        if piece.marker:
            mark = Label(self._theme, piece.marker, color="ink-3")
            line.addWidget(mark, 0, Qt.AlignmentFlag.AlignTop)
        line.addWidget(Paragraph(self._theme, text, weight=600 if is_heading else None), 1)
        self._box.addWidget(row)


def check_words(model: UpdateStore, state: UpdateState) -> str:
    """Return when somebody looked for updates, and what came of it."""
    if state.unavailable:
        return state.unavailable
    if model.is_looking:
        return tr("Checking…")
    newest = tr("This is the newest version.") if model.is_newest else ""
    if not state.checked_at:
        return f"{newest} {tr('Updates have not been checked yet.')}".lstrip()
    checked_words = tr("Updates checked {ago}.", ago=time_ago(time.time() - state.checked_at))
    return f"{newest} {checked_words}".lstrip()


def _job_title(job: UpdateJob) -> str:
    if job.verb != "rollback":
        return tr("Installing {version}", version=job.version)
    if job.version == "before":
        return tr("Going back to the previous version")
    return tr("Going back to {version}", version=job.version)


def stage_words(job: UpdateJob) -> str:
    """Return what is done now."""
    if job.waits_for:
        return tr_plural("Waiting for {count} answer to end", "Waiting for {count} answers to end", job.waits_for)
    if job.total_bytes:
        return tr(
            "{stage}, {done} of {total}",
            stage=job.stage,
            done=words.format_bytes(job.done_bytes),
            total=words.format_bytes(job.total_bytes),
        )
    return job.stage


def format_day(text: str) -> str:
    """Return a day as people write it; what is none stays as it is."""
    try:
        value = date.fromisoformat(text)
    except ValueError:
        return text
    return f"{value.day} {value:%B %Y}"
