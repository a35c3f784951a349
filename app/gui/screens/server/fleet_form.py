"""The card that starts a fleet: its file, written here or opened, and the key that its replicas elsewhere ask for."""

from pathlib import Path

from PySide6.QtCore import QDir
from PySide6.QtWidgets import QFileDialog, QLineEdit, QSizePolicy

from app.core.translation import LazyText, tr
from app.gui.screens.server.fleets_model import FleetsModel
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.fields import Field
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import Surface, VBox
from app.gui.widgets.panels import ErrorPanel
from app.gui.widgets.prompt_field import PromptField
from app.gui.widgets.text import Label, Paragraph

_ABOUT = LazyText(
    "Several engines serve one model under one name, and a router decides which of them answers. "
    "After replicas stands how many engines this computer starts, or a list of addresses and engines. "
    "The router, smg unless the file names vllm-router, is installed first, on the page Engines."
)
_TEXT_HEIGHT, _KEY_WIDTH = 132, 320


class FleetForm(Surface):
    """Hidden until somebody asks for it."""

    def __init__(self, theme: Theme, model: FleetsModel) -> None:
        super().__init__(theme)
        self._model = model
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.text = PromptField(theme, tr("Fleet file"), height=_TEXT_HEIGHT, role="mono")
        self.key = Field(
            theme, tr("Key of the replicas elsewhere"), placeholder=tr("Key, if replicas elsewhere need one")
        )
        self.key.setEchoMode(QLineEdit.EchoMode.Password)
        self.key.setMaximumWidth(theme.px(_KEY_WIDTH))
        self.start = Button(
            theme, tr("Start"), look=ButtonLook.PRIMARY, name=tr("Start this fleet"), action=self._submit_form
        )
        self.open_file = Button(theme, tr("Open a file…"), look=ButtonLook.QUIET, action=self._choose_file)
        self.cancel = Button(
            theme, tr("Cancel"), look=ButtonLook.QUIET, name=tr("Cancel starting a fleet"), action=self.put_away
        )
        self.error = ErrorPanel(theme)
        self._lay_out(theme)
        self.text.textChanged.connect(self._show_state)
        model.changed.connect(self._show_state)
        model.started.connect(self.put_away)
        self._show_state()
        self.hide()

    def _lay_out(self, theme: Theme) -> None:
        box = VBox(theme, self, margins=(16, 12, 16, 12), gap=8)
        buttons = FlowLayout(theme, gap=8)
        for button in (self.start, self.open_file, self.cancel):
            buttons.addWidget(button)
        for widget in (
            Label(theme, tr("Start a fleet"), weight=500),
            Paragraph(theme, _ABOUT.tr(), role="meta", color="ink-2"),
            self.text,
            self.key,
            self.error,
        ):
            box.addWidget(widget)
        box.addLayout(buttons)

    def open(self) -> None:
        """Show the card with a file to begin with."""
        if self.isHidden():
            self.text.setPlainText(self._model.example)
        self.show()
        self.text.setFocus()

    def put_away(self) -> None:
        """Hide it, and forget what was typed."""
        self.text.clear()
        self.key.clear()
        self.hide()
        self._model.forget_problem()

    def _choose_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(
            self, tr("Open a fleet file"), QDir.homePath(), tr("Fleet files (*.toml)")
        )
        text = self._model.read_file(Path(path)) if path else ""
        if text:
            self.text.setPlainText(text)

    def _submit_form(self) -> None:
        self._model.start_fleet(self.text.toPlainText(), self.key.text())

    def _show_state(self) -> None:
        is_starting = self._model.is_starting
        self.start.set_text(tr("Starting…") if is_starting else tr("Start"))
        self.start.setEnabled(not is_starting and bool(self.text.toPlainText().strip()))
        problem = self._model.problem
        if problem is None:
            self.error.hide()
        else:
            self.error.show_error(problem)
