"""The card that attaches an endpoint which runs elsewhere, and says of one that is attached what it can do.

Its address is enough; a name, a key, what its models can do and how much they take are said where they are needed.
"""

import msgspec
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QIntValidator
from PySide6.QtWidgets import QLineEdit, QSizePolicy

from app.core.capabilities import Capability, parse_capabilities
from app.core.errors import BadRequest
from app.core.models import AttachEndpoint, CorrectAttached, ModelInfo
from app.core.translation import LazyText, tr
from app.core.words import format_capabilities
from app.gui.screens.models.model import ModelsModel
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.fields import Combo, Field
from app.gui.widgets.layout import HBox, Surface, VBox
from app.gui.widgets.text import Label, Paragraph

_TITLE, _ABOUT = (
    LazyText("Attach an endpoint"),
    LazyText("Any server that speaks OpenAI's API: vLLM, LM Studio, TabbyAPI, another computer's Roundhouse."),
)
_CORRECTION = LazyText(
    "What you enter takes precedence over what the endpoint reports; leave a field empty to use the endpoint's value."
)
_NAME_WIDTH, _KEY_WIDTH, _CONTEXT_WIDTH = 200, 240, 240
_MOST_TOKENS = 2**31 - 1  # what the field's validator counts in
_CAN = (
    ("", LazyText("As reported by the endpoint")),
    ("chat", LazyText("Chat")),
    (format_capabilities({Capability.CHAT, Capability.TOOLS}), LazyText("Chat with tools")),
    (format_capabilities({Capability.CHAT, Capability.VISION}), LazyText("Chat with images")),
    ("embedding", LazyText("Embeddings")),
    ("rerank", LazyText("Ranking")),
)


class AttachCard(Surface):
    """Fields for an endpoint. Hidden until somebody asks for it; `closed` says that it is no longer wanted."""

    closed = Signal()

    def __init__(self, theme: Theme, model: ModelsModel) -> None:
        super().__init__(theme)
        self._model = model
        self._corrected_model = ""
        """The attached model that something is said of; empty while an endpoint is to be attached."""
        self._before = ("", "")
        """What the fields for it said when they were shown: what is left so is nothing that a person says."""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.url = Field(theme, tr("Address of the endpoint"), placeholder="http://box:8000/v1")
        self.name = Field(theme, tr("Local name of the model"), placeholder=tr("Name (optional)"))
        self.key = Field(theme, tr("Key of the endpoint"), placeholder=tr("Key, if it needs one"))
        self.key.setEchoMode(QLineEdit.EchoMode.Password)
        self.can = Combo(theme, tr("Capabilities"), placeholder=tr("Capabilities (optional)"))
        self.can.set_options([(value, words.tr()) for value, words in _CAN])
        self.context = Field(theme, tr("Context in tokens"), placeholder=tr("Context (optional)"))
        self.context.setValidator(QIntValidator(1, _MOST_TOKENS, self.context))
        self._widths = ((self.name, _NAME_WIDTH), (self.key, _KEY_WIDTH), (self.context, _CONTEXT_WIDTH))
        for field, width in self._widths:
            field.setMaximumWidth(theme.px(width))
        for field in self._fields:
            field.returnPressed.connect(self._submit_form)
        self.attach_button = Button(
            theme, tr("Attach"), look=ButtonLook.PRIMARY, name=tr("Attach the endpoint"), action=self._submit_form
        )
        self.cancel_button = Button(
            theme, tr("Cancel"), look=ButtonLook.QUIET, name=tr("Cancel attaching"), action=self.put_away
        )
        self._title = Label(theme, _TITLE.tr(), weight=500)
        self._about = Paragraph(theme, _ABOUT.tr(), role="meta", color="ink-2")
        self._context_label = Label(theme, tr("Context in tokens"), role="meta", color="ink-2")
        self._lay_out(theme)
        self.url.textChanged.connect(self._update_controls)
        model.changed.connect(self._update_controls)
        model.endpoint_attached.connect(self.put_away)
        self._update_controls()
        self.hide()

    @property
    def _fields(self) -> tuple[Field, ...]:
        return (self.url, self.name, self.key, self.can.field, self.context)

    def _lay_out(self, theme: Theme) -> None:
        box = VBox(theme, self, margins=(16, 12, 16, 12), gap=8)
        box.addWidget(self._title)
        box.addWidget(self._about)
        for widgets in ((self.url, self.name, self.key), (self.can, self._context_label, self.context)):
            line = HBox(theme, gap=8)
            for widget in widgets:
                line.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)
            box.addLayout(line)
        buttons = HBox(theme, gap=8)
        buttons.addStretch(1)
        buttons.addWidget(self.cancel_button)
        buttons.addWidget(self.attach_button)
        box.addLayout(buttons)

    def open(self, url: str = "", name: str = "") -> None:
        """Show the card, with what is known already."""
        self._set_mode("")
        self.url.setText(url)
        self.name.setText(name)
        self.show()
        (self.key if url else self.url).setFocus()

    def open_correction(self, model: ModelInfo) -> None:
        """Show the card for what a person knows better of an attached model."""
        self._set_mode(model.name)
        self.url.setText(model.attached)
        self.can.field.setText(format_capabilities(model.capabilities))
        self.context.setText("" if model.trained_context is None else str(model.trained_context))
        self._before = (self.can.field.text(), self.context.text())
        self.show()
        self.can.field.setFocus()

    def put_away(self) -> None:
        """Hide it, and forget what was typed."""
        for field in self._fields:
            field.clear()
        self.hide()
        self.closed.emit()

    def _set_mode(self, corrected_model: str) -> None:
        self._corrected_model = corrected_model
        for field in (self.url, self.name, self.key):
            field.setVisible(not corrected_model)
        self._context_label.setVisible(
            bool(corrected_model)
        )  # a figure in the field leaves no room for its placeholder
        self._title.setText(tr("Capabilities of {model}", model=corrected_model) if corrected_model else _TITLE.tr())
        self._about.setText((_CORRECTION if corrected_model else _ABOUT).tr())
        self._update_controls()

    def _submit_form(self) -> None:
        if not self.attach_button.isEnabled():
            return
        try:
            can: list[Capability] | None = parse_capabilities(self.can.field.text()) or None
        except BadRequest as error:
            self._model.failed.emit(error.body)
            return
        context = int(self.context.text()) if self.context.hasAcceptableInput() else None
        if self._corrected_model:
            self._model.correct_attached(
                self._corrected_model, self._only_changes(CorrectAttached(can=can, context=context))
            )
            return
        endpoint = AttachEndpoint(
            url=self.url.text().strip(), name=self.name.text().strip(), key=self.key.text().strip()
        )
        self._model.attach_endpoint(msgspec.structs.replace(endpoint, can=can, context=context))

    def _only_changes(self, correction: CorrectAttached) -> CorrectAttached:
        can, context = self._before
        return CorrectAttached(
            can=msgspec.UNSET if self.can.field.text() == can else correction.can,
            context=msgspec.UNSET if self.context.text() == context else correction.context,
        )

    def _update_controls(self) -> None:
        self.attach_button.setEnabled(bool(self.url.text().strip()) and not self._model.is_attaching)
        does = tr("Save") if self._corrected_model else tr("Attach")
        self.attach_button.setText(tr("Attaching") if self._model.is_attaching else does)
        self.attach_button.setAccessibleName(
            tr("Save the capabilities") if self._corrected_model else tr("Attach the endpoint")
        )
        self.cancel_button.setAccessibleName(
            tr("Cancel the change") if self._corrected_model else tr("Cancel attaching")
        )
