"""One setting as a row, with the control its kind asks for."""

from collections.abc import Callable
from typing import cast

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QWidget

from app.core.settings import SettingInfo, SettingValue
from app.gui.screens.settings.model import SettingsModel
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import IconButton, Toggle
from app.gui.widgets.control_row import ControlRow
from app.gui.widgets.fields import Field, ListField
from app.gui.widgets.menus import DropDown
from app.gui.widgets.rows import Tag

_NUMBER_WIDTH = 144
_TEXT_WIDTH = 240
_FOLDERS = "folders"
_MODEL = "models.default"
Show = Callable[[SettingInfo], object]


class SettingRow(ControlRow):
    """One row of the table, with the control its kind asks for."""

    def __init__(self, theme: Theme, model: SettingsModel, info: SettingInfo) -> None:
        super().__init__(theme, info.title, info.help)
        self._theme, self._model, self._info = theme, model, info
        self._fixed = Tag(theme, "Set by the environment")
        self._reset = IconButton(theme, "undo-2", f"Reset {info.title}", action=lambda: model.reset(self._info))
        self.tools.addWidget(self._fixed)
        self.tools.addWidget(self._reset)
        self._control, self._show_value = self._make_control(info)
        if info.kind == "list":
            self.outer.addWidget(self._control)
        else:
            self.tools.addWidget(self._control)
        self.add_problem_line()
        model.problem.connect(self._show_problem)

    @property
    def control(self) -> QWidget:
        """What is operated."""
        return self._control

    def show_info(self, info: SettingInfo) -> None:
        """Show its value now."""
        self._info = info
        is_fixed = info.source == "environment"
        self._fixed.setVisible(is_fixed)
        self._control.setEnabled(not is_fixed)
        self._reset.setVisible(info.source == "file")
        self._show_value(info)

    def _show_problem(self, name: str, sentence: str) -> None:
        if name == self._info.name:
            self.say_wrong(sentence, self._control)

    def _make_control(self, info: SettingInfo) -> tuple[QWidget, Show]:
        if info.name == _MODEL:
            return self._make_model_choice(info)
        make = {"bool": self._make_toggle, "choice": self._make_choice, "list": self._make_list}.get(
            info.kind, self._make_field
        )
        return make(info)

    def _make_toggle(self, info: SettingInfo) -> tuple[QWidget, Show]:
        toggle = Toggle(self._theme, info.title)
        toggle.clicked.connect(lambda: self._change_value(toggle.isChecked()))
        return toggle, lambda now: toggle.setChecked(now.value is True)

    def _make_choice(self, info: SettingInfo) -> tuple[QWidget, Show]:
        choice = DropDown(self._theme, info.title, [(value, value.capitalize()) for value in info.choices])
        choice.chosen.connect(self._change_value)
        return choice, lambda now: choice.set_value(str(now.value))

    def _make_model_choice(self, info: SettingInfo) -> tuple[QWidget, Show]:
        choice = DropDown(self._theme, info.title, self._model.model_options(str(info.value)), widest=_TEXT_WIDTH)
        choice.chosen.connect(self._change_value)

        def show_value(now: SettingInfo) -> None:
            choice.set_options(self._model.model_options(str(now.value)))
            choice.set_value(str(now.value))

        return choice, show_value

    def _make_list(self, info: SettingInfo) -> tuple[QWidget, Show]:
        ask = self._ask_folder if info.name.endswith(_FOLDERS) else None
        field = ListField(self._theme, info.title, ask=ask)
        field.changed.connect(self._change_value)
        return field, lambda now: field.set_items(cast("list[str]", now.value))

    def _make_field(self, info: SettingInfo) -> tuple[QWidget, Show]:
        field = Field(self._theme, info.title)
        is_number = info.kind in {"int", "float"}
        field.setFixedWidth(self._theme.px(_NUMBER_WIDTH if is_number else _TEXT_WIDTH))
        if is_number:
            field.set_unit(info.unit)
            field.setAlignment(Qt.AlignmentFlag.AlignRight)
            field.stepped.connect(lambda by: self._change_value(self._model.step_value(self._info, by)))
        field.textEdited.connect(lambda text: self._model.type_in(self._info, text, is_final=False))
        field.editingFinished.connect(lambda: self._model.type_in(self._info, field.text(), is_final=True))

        def show_value(now: SettingInfo) -> None:
            text = str(now.value)
            if field.text() != text and not (field.hasFocus() and field.isModified()):
                field.setText(text)

        return field, show_value

    def _change_value(self, value: SettingValue) -> None:
        self._model.change(self._info, value)

    def _ask_folder(self) -> str:
        return QFileDialog.getExistingDirectory(self, f"Add to {self._info.title}")
