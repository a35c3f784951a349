"""The report before it is saved: what it contains and what not, its whole text, and where to keep it."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QDir
from PySide6.QtWidgets import QFileDialog, QSizePolicy

from app.core.translation import LazyText, tr
from app.gui.screens.machine.report import ReportModel
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.code import Verbatim
from app.gui.widgets.flow_layout import FlowLayout, PairLayout
from app.gui.widgets.layout import Surface, VBox
from app.gui.widgets.panels import ErrorPanel
from app.gui.widgets.status import Skeleton
from app.gui.widgets.text import Label, Paragraph

_ABOUT = LazyText(
    "Facts about this machine, for a bug report. It contains no serial numbers, host names or user names, and none of "
    "your conversations. Read it before you share it."
)
_ABOUT_BUNDLE = LazyText(
    "Facts about this machine, versions, settings, figures from the last requests and the ends of the logs, for a bug "
    "report. Keys, prompts, answers, names, folders and addresses are left out. Read it before you share it."
)
_HEIGHT = 280


class ReportPanel(Surface):
    """Shows a `ReportModel`."""

    def __init__(self, theme: Theme, report: ReportModel, copy: Callable[[str], object]) -> None:
        super().__init__(theme)
        self._report = report
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.setAccessibleName(tr("Report"))
        box = VBox(theme, self, margins=(24, 20, 24, 20), gap=12)
        head = PairLayout(theme, room=240)
        texts = VBox(theme, gap=4)
        texts.addWidget(Label(theme, tr("Report"), role="section"))
        self._about = Paragraph(theme, _ABOUT.tr(), color="ink-2")
        texts.addWidget(self._about)
        head.addLayout(texts)
        tail = FlowLayout(theme, gap=8)
        self._save = Button(
            theme, tr("Save…"), look=ButtonLook.PRIMARY, name=tr("Save the report"), action=self._ask_file
        )
        self._copy = Button(theme, tr("Copy"), name=tr("Copy the report"), action=lambda: copy(report.text))
        self._more = Button(theme, tr("Add logs and settings"), action=lambda: report.open(is_bundle=True))
        self._less = Button(theme, tr("This machine only"), action=report.open)
        for button in (
            self._save,
            self._copy,
            self._more,
            self._less,
            Button(theme, tr("Close"), look=ButtonLook.QUIET, name=tr("Close the report"), action=report.close),
        ):
            tail.addWidget(button)
        head.addLayout(tail)
        box.addLayout(head)
        self._error = ErrorPanel(theme)
        self._parts = Paragraph(theme, role="meta", color="ink-2")
        self._skeleton = Skeleton(theme, 5)
        sheet = Surface(theme, fill="sunken", outline="")
        self._sheet = sheet
        frame = VBox(theme, sheet, margins=(16, 12, 8, 12))
        self.text = Verbatim(theme, tr("Text of the report"))
        self.text.setFixedHeight(theme.px(_HEIGHT))
        frame.addWidget(self.text)
        for widget in (self._error, self._parts, self._skeleton, sheet):
            box.addWidget(widget)

    def show_report(self) -> None:
        """Show it as far as it is there."""
        report = self._report
        self.setVisible(report.is_open)
        has_text = bool(report.text)
        self._skeleton.setVisible(report.is_reading)
        self._about.setText((_ABOUT_BUNDLE if report.is_bundle else _ABOUT).tr())
        self._more.setVisible(not report.is_bundle)
        self._less.setVisible(report.is_bundle)
        self._sheet.setVisible(has_text)
        self._save.setEnabled(has_text)
        self._copy.setEnabled(has_text)
        if self.text.toPlainText() != report.text:
            self.text.setPlainText(report.text)
        self._parts.setText(tr("It contains: {parts}.", parts=", ".join(report.parts)))
        self._parts.setVisible(bool(report.parts))
        if report.error is None:
            self._error.hide()
        else:
            self._error.show_error(
                report.error, "" if has_text else tr("Try again"), None if has_text else report.read_again
            )

    def _ask_file(self) -> None:
        start = str(Path(QDir.homePath()) / self._report.file_name)
        kinds = tr("Archives (*.zip)") if self._report.is_bundle else tr("Reports (*.json)")
        path, _ = QFileDialog.getSaveFileName(self, tr("Save the report"), start, kinds)
        if path:
            self._report.save(Path(path))
