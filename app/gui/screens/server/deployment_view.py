"""Files for a cluster: what is to be served, and the files with their reasons, to read, to copy and to save."""

from pathlib import Path

from PySide6.QtCore import QDir
from PySide6.QtGui import QIntValidator
from PySide6.QtWidgets import QFileDialog, QSizePolicy, QWidget

from app.core.deployments import ENGINE_TITLES, TARGET_TITLES, TARGETS, DeploymentRequest
from app.core.translation import LazyText, tr
from app.gui.screens.server.deployment_model import DeploymentModel
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.code import Snippet
from app.gui.widgets.fields import Field, Stepper
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import HBox, Surface, VBox
from app.gui.widgets.menus import DropDown
from app.gui.widgets.panels import ErrorPanel, Section
from app.gui.widgets.text import Label, Paragraph

_ABOUT = LazyText(
    "Kubernetes manifests or a compose file that serve replicas of a model elsewhere. A cluster downloads the model "
    "from Hugging Face by itself. Nothing is run here."
)
_USUAL = DeploymentRequest(model="")
_MOST_REPLICAS, _MOST_CARDS, _MOST_DISK_GIB, _MOST_CONTEXT = 1000, 16, 100_000, 10_000_000
_MODEL_WIDTH, _NUMBER_WIDTH = 320, 140


class DeploymentChoices(FlowLayout):
    """What is to be served, and how."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(theme, gap=12, is_centred=True)
        self._theme = theme
        self.model = Field(theme, tr("Model on Hugging Face"), placeholder=tr("OWNER/NAME"))
        self.model.setFixedWidth(theme.px(_MODEL_WIDTH))
        self.name = Field(theme, tr("Name for clients"), placeholder=tr("From the model"))
        self.name.setFixedWidth(theme.px(_NUMBER_WIDTH))
        self.engine = DropDown(theme, tr("Engine and router"), list(ENGINE_TITLES.items()))
        self.target = DropDown(theme, tr("Target"), [])
        self.replicas = Stepper(theme, tr("Replicas"), low=1, high=_MOST_REPLICAS)
        self.cards = Stepper(theme, tr("Graphics cards of each replica"), low=1, high=_MOST_CARDS)
        self.context = Field(theme, tr("Context in tokens"), placeholder=tr("The model's own"))
        self.context.setValidator(QIntValidator(1, _MOST_CONTEXT, self.context))
        self.context.setFixedWidth(theme.px(_NUMBER_WIDTH))
        self.disk = Stepper(theme, tr("Disk of each replica in GiB"), low=1, high=_MOST_DISK_GIB)
        for label, widget in (
            (tr("Model"), self.model),
            (tr("Engine"), self.engine),
            (tr("Target"), self.target),
            (tr("Replicas"), self.replicas),
            (tr("Cards per replica"), self.cards),
            (tr("Context"), self.context),
            (tr("Disk, GiB"), self.disk),
            (tr("Name"), self.name),
        ):
            self.addWidget(self._pair_with_label(label, widget))
        self.engine.chosen.connect(lambda _value: self._list_targets())
        self._show_usual()

    def _pair_with_label(self, words: str, widget: QWidget) -> QWidget:
        pair = QWidget()
        line = HBox(self._theme, pair, gap=8)
        line.addWidget(Label(self._theme, words, role="meta", color="ink-2"))
        line.addWidget(widget)
        return pair

    def _show_usual(self) -> None:
        self.engine.set_value(_USUAL.engine)
        self.replicas.set_value(_USUAL.replicas)
        self.cards.set_value(_USUAL.cards)
        self.disk.set_value(_USUAL.disk_gib)
        self._list_targets()

    def _list_targets(self) -> None:
        """Offer what there are files for; a target that the engine has too stays chosen."""
        targets = TARGETS[self.engine.value]
        before = self.target.value
        self.target.set_options([(name, TARGET_TITLES[name]) for name in targets])
        self.target.set_value(before if before in targets else targets[0])

    def read_request(self) -> DeploymentRequest:
        """Return what is asked for."""
        context = self.context.text()
        return DeploymentRequest(
            model=self.model.text().strip(),
            engine=self.engine.value,
            target=self.target.value,
            replicas=self.replicas.value,
            cards=self.cards.value,
            context=int(context) if context else None,
            name=self.name.text().strip(),
            disk_gib=self.disk.value,
        )


class DeploymentForm(Surface):
    """Hidden until somebody asks for it."""

    def __init__(self, theme: Theme, model: DeploymentModel) -> None:
        super().__init__(theme)
        self._model = model
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.choices = DeploymentChoices(theme)
        self.render_button = Button(theme, "", look=ButtonLook.PRIMARY, action=self._render_files)
        self.save = Button(theme, tr("Save in a folder…"), look=ButtonLook.QUIET, action=self._choose_folder)
        self.close_button = Button(
            theme, tr("Close"), look=ButtonLook.QUIET, name=tr("Close the files for a cluster"), action=self.put_away
        )
        self.error = ErrorPanel(theme)
        self.notes = Paragraph(theme, role="meta", color="ink-2")
        self.file = DropDown(theme, tr("File"), [])
        self.text = Snippet(theme, tr("Text of the file"), model.copy_file)
        self._lay_out(theme)
        self.choices.model.returnPressed.connect(self._render_files)
        self.file.chosen.connect(lambda _value: self._show_text())
        self._forget_when_changed()
        model.changed.connect(self._show_state)
        self._show_state()
        self.hide()

    def _lay_out(self, theme: Theme) -> None:
        box = VBox(theme, self, margins=(16, 12, 16, 12), gap=8)
        buttons = FlowLayout(theme, gap=8)
        for button in (self.render_button, self.save, self.close_button):
            buttons.addWidget(button)
        files = FlowLayout(theme, gap=8)
        files.addWidget(self.file)
        box.addWidget(Paragraph(theme, _ABOUT.tr(), role="meta", color="ink-2"))
        box.addLayout(self.choices)
        box.addWidget(self.error)
        box.addLayout(buttons)
        box.addWidget(self.notes)
        box.addLayout(files)
        box.addWidget(self.text)

    def _forget_when_changed(self) -> None:
        choices, forget = self.choices, self._model.forget_files
        for field in (choices.model, choices.context, choices.name):
            field.textChanged.connect(lambda _text: forget())
        for menu in (choices.engine, choices.target):
            menu.chosen.connect(lambda _value: forget())
        for stepper in (choices.replicas, choices.cards, choices.disk):
            stepper.changed.connect(lambda _value: forget())

    def put_away(self) -> None:
        """Hide it; what was chosen stays for the next time."""
        self.hide()
        self._model.forget_files()

    def _render_files(self) -> None:
        if self.render_button.isEnabled():
            self._model.render_files(self.choices.read_request())

    def _choose_folder(self) -> None:
        path = QFileDialog.getExistingDirectory(self, tr("Save the files in a folder"), QDir.homePath())
        if path:
            self._model.save_files(Path(path))

    def _show_state(self) -> None:
        model, deployment = self._model, self._model.deployment
        self.render_button.set_text(tr("Writing…") if model.is_rendering else tr("Show the files"))
        self.render_button.setEnabled(not model.is_rendering and bool(self.choices.model.text().strip()))
        self.error.setVisible(model.problem is not None)
        if model.problem is not None:
            self.error.show_error(model.problem)
        for widget in (self.save, self.notes, self.file, self.text):
            widget.setVisible(deployment is not None)
        if deployment is not None:
            names = [file.name for file in deployment.files]
            self.notes.setText("\n".join(deployment.notes))
            self.file.set_options([(name, name) for name in names])
            self.file.set_value(self.file.value if self.file.value in names else names[0])
            self._show_text()

    def _show_text(self) -> None:
        files = self._model.deployment.files if self._model.deployment is not None else []
        self.text.set_text(next((file.text for file in files if file.name == self.file.value), ""))


class DeploymentSection(Section):
    """Shows a `DeploymentModel`."""

    def __init__(self, theme: Theme, model: DeploymentModel) -> None:
        super().__init__(theme, tr("Files for a cluster"))
        self.form = DeploymentForm(theme, model)
        self.open_button = Button(theme, tr("Write files…"), look=ButtonLook.QUIET, icon="plus", action=self._open_form)
        self.open_button.setAccessibleName(tr("Write files for a cluster"))
        self.head.addWidget(self.open_button)
        self.body.addWidget(self.form)

    def _open_form(self) -> None:
        self.form.show()
        self.form.choices.model.setFocus()
