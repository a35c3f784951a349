"""The card that attaches an endpoint which runs elsewhere: its address, and if it wants them a name and a key."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLineEdit, QSizePolicy

from app.gui.screens.models.model import ModelsModel
from app.gui.theme.theme import Theme
from app.gui.widgets.fields import Field
from app.gui.widgets.layout import Column, Line, Surface
from app.gui.widgets.press import Button, Look
from app.gui.widgets.text import ElidedLabel, Label

_ABOUT = "Any server that speaks OpenAI's API: vLLM, LM Studio, TabbyAPI, another computer's Roundhouse."
_NAME_WIDTH, _KEY_WIDTH = 200, 240


class AttachCard(Surface):
    """Fields for an endpoint. Hidden until somebody asks for it; `closed` says that it is no longer wanted."""

    closed = Signal()

    def __init__(self, theme: Theme, model: ModelsModel) -> None:
        super().__init__(theme)
        self._model = model
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = Column(theme, self, margins=(16, 12, 16, 12), gap=8)
        box.addWidget(Label(theme, "Attach an endpoint", weight=500))
        box.addWidget(ElidedLabel(theme, _ABOUT, role="meta", color="ink-2"))
        self.url = Field(theme, "Address of the endpoint", placeholder="http://box:8000/v1")
        self.name = Field(theme, "Name of the model here", placeholder="Name (optional)")
        self.key = Field(theme, "Key of the endpoint", placeholder="Key, if it wants one")
        self.key.setEchoMode(QLineEdit.EchoMode.Password)
        self.name.setMaximumWidth(theme.px(_NAME_WIDTH))
        self.key.setMaximumWidth(theme.px(_KEY_WIDTH))
        fields = Line(theme, gap=8)
        for field in (self.url, self.name, self.key):
            fields.addWidget(field, 0, Qt.AlignmentFlag.AlignVCenter)
            field.returnPressed.connect(self._attach)
        box.addLayout(fields)
        self.attach_button = Button(theme, "Attach", look=Look.PRIMARY, name="Attach the endpoint", action=self._attach)
        self.cancel_button = Button(theme, "Cancel", look=Look.QUIET, name="Attach nothing", action=self.put_away)
        buttons = Line(theme, gap=8)
        buttons.addStretch(1)
        buttons.addWidget(self.cancel_button)
        buttons.addWidget(self.attach_button)
        box.addLayout(buttons)
        self.url.textChanged.connect(self._show)
        model.changed.connect(self._show)
        model.attached.connect(self.put_away)
        self._show()
        self.hide()

    def open(self, url: str = "", name: str = "") -> None:
        """Show the card, with what is known already."""
        self.url.setText(url)
        self.name.setText(name)
        self.show()
        (self.key if url else self.url).setFocus()

    def put_away(self) -> None:
        """Hide it, and forget what was typed."""
        for field in (self.url, self.name, self.key):
            field.clear()
        self.hide()
        self.closed.emit()

    def _attach(self) -> None:
        if self.attach_button.isEnabled():
            self._model.attach(self.url.text().strip(), self.name.text().strip(), self.key.text().strip())

    def _show(self) -> None:
        self.attach_button.setEnabled(bool(self.url.text().strip()) and not self._model.is_attaching)
        self.attach_button.setText("Attaching" if self._model.is_attaching else "Attach")
