"""The card of presets above the composer: a row for each, the fields for its variables, and what keeps a new one."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec
from PySide6.QtCore import Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget

from app.core.presets import LONGEST_NAME, ChatPreset
from app.core.translation import tr
from app.gui.screens.chat.options import OptionsPanel
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, IconButton
from app.gui.widgets.fields import Field
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import HBox, Scroller, VBox
from app.gui.widgets.rows import ListRow, RowList
from app.gui.widgets.text import Label, Paragraph

_LEAST = 64
_NAME_WIDTH = 220


class PresetsPanel(OptionsPanel):
    """Shows the library. `preset_used` has its variables filled in."""

    preset_used = Signal(object)
    removal_requested = Signal(object)
    save_requested = Signal(str)
    import_requested = Signal()
    export_requested = Signal()

    def __init__(self, theme: Theme, close: Callable[[], object]) -> None:
        super().__init__(theme, tr("Presets"), tr("A model, prompts and sampling under one name."), close)
        self._presets: Sequence[ChatPreset] = ()
        self._limit = theme.px(_LEAST)
        self._page = QWidget()
        page = VBox(theme, self._page, margins=(2, 2, 8, 2), gap=8)
        self._list = RowList(theme, tr("Presets"))
        self._nothing = Paragraph(
            theme,
            tr("No presets yet. Choose a model, a system prompt and sampling, then save them here."),
            color="ink-2",
        )
        self._form = VariablesForm(theme)
        self._form.filled.connect(self._use_filled)
        self._form.left.connect(self._show_list)
        self._foot = self._make_foot()
        for widget in (self._nothing, self._list, self._foot, self._form):
            page.addWidget(widget)
        self._scroller = Scroller(self._page, tr("Presets"))
        self.box.addWidget(self._scroller)
        theme.changed.connect(self._fit_height)
        self._show_list()

    @property
    def field(self) -> QWidget:
        """Where the keyboard begins."""
        first = next(iter(self._list.rows.values()), None)
        return first.use if isinstance(first, PresetRow) and not self._list.isHidden() else self.name

    def limit_height(self, height: int) -> None:
        """Scroll what is higher than this."""
        self._limit = height
        self._fit_height()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 -- Qt's name
        """Fit the height to lines that wrap elsewhere."""
        super().resizeEvent(event)
        self._fit_height()

    def show_presets(self, presets: Sequence[ChatPreset], titles: Mapping[str, str]) -> None:
        """Show the library; `titles` are what models are called."""
        self._presets = presets
        self._list.sync(
            {preset.name: preset for preset in presets},
            self._make_row,
            lambda row, preset: row.show_preset(preset, titles.get(preset.model, preset.model)),
        )
        self._export.setEnabled(bool(presets))
        if self._form.isHidden():
            self._show_list()

    def use_preset(self, preset: ChatPreset) -> None:
        """Use a preset, after its variables were asked for."""
        if not preset.variables:
            self.preset_used.emit(preset)
            return
        self._form.ask_for(preset)
        for widget in (self._list, self._nothing, self._foot):
            widget.hide()
        self._form.show()
        self._fit_height()
        self._form.field.setFocus()

    def _make_row(self, preset: ChatPreset) -> "PresetRow":
        row = PresetRow(self.theme, preset.name)
        row.use.set_action(partial(self._use_named, preset.name))
        row.remove.set_action(partial(self._remove_named, preset.name))
        return row

    def _make_foot(self) -> QWidget:
        theme, place = self.theme, QWidget()
        foot = FlowLayout(theme, place, gap=8)
        self.name = Field(theme, tr("Name of a new preset"), placeholder=tr("Name"))
        self.name.setMaxLength(LONGEST_NAME)
        self.name.setFixedWidth(theme.px(_NAME_WIDTH))
        self.name.returnPressed.connect(self._save)
        self.name.textChanged.connect(self._show_save)
        self._save_button = Button(theme, tr("Save this chat"), icon="plus", action=self._save)
        self._import = Button(
            theme, tr("Import…"), look=ButtonLook.QUIET, name=tr("Import presets"), action=self.import_requested.emit
        )
        self._export = Button(
            theme,
            tr("Export all…"),
            look=ButtonLook.QUIET,
            name=tr("Export presets"),
            action=self.export_requested.emit,
        )
        for widget in (self.name, self._save_button, self._import, self._export):
            foot.addWidget(widget)
        self._show_save()
        return place

    def _save(self) -> None:
        name = " ".join(self.name.text().split())
        if name:
            self.name.clear()
            self.save_requested.emit(name)

    def _show_save(self) -> None:
        self._save_button.setEnabled(bool(self.name.text().strip()))

    def _find(self, name: str) -> ChatPreset | None:
        return next((preset for preset in self._presets if preset.name == name), None)

    def _use_named(self, name: str) -> None:
        preset = self._find(name)
        if preset is not None:
            self.use_preset(preset)

    def _remove_named(self, name: str) -> None:
        preset = self._find(name)
        if preset is not None:
            self.name.setFocus()  # the row that has the keyboard goes away
            self.removal_requested.emit(preset)

    def _use_filled(self, preset: ChatPreset) -> None:
        self._show_list()
        self.preset_used.emit(preset)

    def _show_list(self) -> None:
        self._form.hide()
        self._foot.show()
        self._list.setVisible(bool(self._presets))
        self._nothing.setVisible(not self._presets)
        self._fit_height()

    def _fit_height(self) -> None:
        layout = self._page.layout()
        if layout is not None:
            layout.invalidate()
            wrapped_height = layout.totalHeightForWidth(self._scroller.viewport().width())
            height = layout.sizeHint().height() if wrapped_height < 0 else wrapped_height
            self._page.setMinimumHeight(height)
            self._scroller.setFixedHeight(min(height, max(self.theme.px(_LEAST), self._limit)))


class PresetRow(ListRow):
    """One preset, with the buttons that use and remove it."""

    def __init__(self, theme: Theme, name: str) -> None:
        super().__init__(theme, name)
        self.use = Button(theme, tr("Use"), name=tr("Use {name}", name=name))
        self.remove = IconButton(theme, "trash-2", tr("Remove {name}", name=name))
        self.tail.addWidget(self.use)
        self.tail.addWidget(self.remove)

    def show_preset(self, preset: ChatPreset, model: str) -> None:
        """Show what it holds."""
        self.show_text(preset.name, describe_preset(preset, model))


class VariablesForm(QWidget):
    """A field for each variable of a preset."""

    filled = Signal(object)
    left = Signal()

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._preset = ChatPreset(name="-")
        self._fields: dict[str, Field] = {}
        box = VBox(theme, self, gap=8)
        self._title = Label(theme, "", weight=500)
        box.addWidget(self._title)
        self._rows = VBox(theme, gap=8)
        box.addLayout(self._rows)
        line = HBox(theme, gap=8)
        line.addWidget(Button(theme, tr("Use"), look=ButtonLook.PRIMARY, action=self._submit))
        line.addWidget(Button(theme, tr("Back"), look=ButtonLook.QUIET, action=self.left.emit))
        line.addStretch(1)
        box.addLayout(line)

    @property
    def field(self) -> Field:
        """Where the keyboard begins."""
        return next(iter(self._fields.values()))

    def ask_for(self, preset: ChatPreset) -> None:
        """Ask for the variables of a preset."""
        self._preset = preset
        self._title.setText(tr("“{name}” asks for:", name=preset.name))
        while (item := self._rows.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.hide()
                widget.deleteLater()
        self._fields = {name: self._add_field(name) for name in preset.variables}

    def _add_field(self, name: str) -> Field:
        cell = QWidget()
        box = VBox(self._theme, cell, gap=4)
        box.addWidget(Label(self._theme, name, role="meta", color="ink-2"))
        field = Field(self._theme, name)
        field.returnPressed.connect(self._submit)
        box.addWidget(field)
        self._rows.addWidget(cell)
        return field

    def _submit(self) -> None:
        empty = next((field for field in self._fields.values() if not field.text().strip()), None)
        if empty is not None:
            empty.setFocus()
            return
        self.filled.emit(self._preset.fill_in({name: field.text() for name, field in self._fields.items()}))


def describe_preset(preset: ChatPreset, model: str) -> str:
    """Return in one line what a preset holds."""
    prompt = next(iter((preset.system_prompt or preset.prompt).strip().splitlines()), "")
    settings = msgspec.to_builtins(preset.sampling)
    parts = [model, prompt, tr("own sampling") if settings else ""]
    if preset.variables:
        parts.append(tr("asks for {names}", names=", ".join(preset.variables)))
    return " · ".join(part for part in parts if part)
