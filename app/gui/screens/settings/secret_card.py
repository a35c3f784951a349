"""A secret on the settings page: what is known of it, a field to give one, and a way to remove it; never the secret."""

from PySide6.QtWidgets import QLineEdit, QSizePolicy

from app.core.errors import ErrorBody
from app.core.translation import tr
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.fields import Field
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import HBox, Surface, VBox
from app.gui.widgets.panels import ErrorPanel, Section
from app.gui.widgets.text import Paragraph


class SecretCard(Section):
    """One secret: what is typed is hidden, and gone once it is kept."""

    def __init__(self, theme: Theme, shell: Shell, title: str, about: str) -> None:
        super().__init__(theme, title)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        sheet = Surface(theme)
        sheet.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, sheet, margins=(16, 12, 16, 12), gap=8)
        self.state_text = Paragraph(theme, weight=500)
        self.field = Field(theme, title)
        self.keep_button = Button(theme, tr("Save"), action=self._submit_typed)
        self.error = ErrorPanel(theme)
        self.forget_button = Button(theme, tr("Remove"), look=ButtonLook.DANGER, action=self.forget_secret)
        self.buttons = FlowLayout(theme, gap=8)
        line = HBox(theme, gap=8)
        line.addWidget(self.field, 1)
        line.addWidget(self.keep_button)
        box.addWidget(self.state_text)
        box.addWidget(Paragraph(theme, about, role="meta", color="ink-2"))
        box.addLayout(line)
        box.addWidget(self.error)
        box.addLayout(self.buttons)
        self.body.addWidget(sheet)
        self.field.setEchoMode(QLineEdit.EchoMode.Password)
        self.field.returnPressed.connect(self._submit_typed)
        self.field.textChanged.connect(self._show_button)
        shell.connected.connect(self.fetch_state)
        self._show_button()

    def fetch_state(self) -> None:
        """Read what is known of the secret."""
        raise NotImplementedError

    def submit_secret(self, secret: str) -> None:
        """Have a secret kept."""
        raise NotImplementedError

    def forget_secret(self) -> None:
        """Have the secret forgotten."""
        raise NotImplementedError

    def show_sentence(self, sentence: str, *, can_forget: bool) -> None:
        """Show what is known of the secret."""
        self.state_text.setText(sentence)
        self.state_text.setVisible(bool(sentence))
        self.forget_button.setVisible(can_forget)

    def show_error(self, error: ErrorBody) -> None:
        """Show why something was refused."""
        self.error.show_error(error)

    def clear_input(self) -> None:
        """Let go of what was typed, as it is kept now."""
        self.field.clear()
        self.error.hide()

    def _submit_typed(self) -> None:
        if self.keep_button.isEnabled():
            self.submit_secret(self.field.text().strip())

    def _show_button(self) -> None:
        self.keep_button.setEnabled(bool(self.field.text().strip()))
