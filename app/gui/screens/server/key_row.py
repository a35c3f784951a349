"""A key in the list: what it may do, what is used of its limits, whether it is held back; unfolded, a form for them."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.keys import MAX_NAME, NO_LIMITS, KeyInfo, Scope
from app.core.translation import tr
from app.gui.screens.server.key_limits_model import (
    LIMIT_TITLES,
    MODELS_FIELD,
    LimitProblem,
    continue_names,
    hold_text,
    limit_levels,
    limit_texts,
    put_name,
    read_limits,
    usage_text,
)
from app.gui.screens.server.keys_model import KeysModel, key_facts, name_problem
from app.gui.theme.theme import Theme
from app.gui.widgets.bars import Meter
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.fields import Combo, Field
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import HBox, VBox
from app.gui.widgets.rows import ListRow
from app.gui.widgets.text import Label, Paragraph

_METER_WIDTH, _NUMBER_WIDTH, _NAME_WIDTH, _MODELS_WIDTH = 264, 148, 148, 312
_NAME_FIELD = "name"
_MOST_NAMES = 20
"""In its list; whoever has more types a few letters first."""


class KeyRow(QWidget):
    """One key."""

    def __init__(self, theme: Theme, model: KeysModel, key: KeyInfo) -> None:
        super().__init__()
        self._theme, self._model, self._key = theme, model, key
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, gap=0)
        self._row = ListRow(theme)
        self.edit_button = Button(theme, tr("Edit"), look=ButtonLook.QUIET, action=self._open_form)
        self._revoke = Button(theme, tr("Revoke"), look=ButtonLook.QUIET, action=lambda: model.revoke(self._key.name))
        for button in (self.edit_button, self._revoke):
            self._row.tail.addWidget(button)
        box.addWidget(self._row)
        box.addWidget(self._make_levels())
        self.form = KeyForm(theme, model, self._close_form)
        self.form.hide()
        box.addWidget(self.form)

    def show_key(self, key: KeyInfo) -> None:
        """Show how it stands; what is typed into its form stays."""
        self._key = key
        self._row.show_text(key.name, key_facts(key))
        self.edit_button.setAccessibleName(tr("Edit the key {name}", name=key.name))
        self._revoke.setAccessibleName(tr("Revoke the key {name}", name=key.name))
        levels = limit_levels(key)
        for name, meter in self.meters.items():
            meter.setVisible(name in levels)
            if name in levels:
                fraction, figures, color = levels[name]
                meter.show_level(fraction, figures, color=color)
        self._meter_sheet.setVisible(bool(levels))
        usage, held_back = usage_text(key), hold_text(key)
        self.usage.setText(usage)
        self.usage.setVisible(bool(usage))
        self.held_back.setText(held_back)
        self.held_back.set_color("bad" if key.usage is not None and key.usage.limit_reached else "ink-2")
        self.held_back.setVisible(bool(held_back))
        self._levels.setVisible(bool(levels or usage or held_back))

    def _make_levels(self) -> QWidget:
        theme = self._theme
        self._levels = sheet = QWidget()
        box = VBox(theme, sheet, margins=(16, 0, 16, 12), gap=8)
        self.held_back = Paragraph(theme, role="meta", weight=500)
        self.usage = Paragraph(theme, role="meta", color="ink-2")
        self._meter_sheet = QWidget()
        flow = FlowLayout(theme, self._meter_sheet, gap=24, line_gap=12)
        self.meters = {name: Meter(theme, title.tr(), width=_METER_WIDTH) for name, title in LIMIT_TITLES.items()}
        for meter in self.meters.values():
            flow.addWidget(meter)
        for widget in (self.held_back, self._meter_sheet, self.usage):
            box.addWidget(widget)
        return sheet

    def _open_form(self) -> None:
        if not self.form.isHidden():
            self._close_form()
            return
        self.form.begin_edit(self._key)
        self.form.show()
        self.form.fields[_NAME_FIELD].setFocus()

    def _close_form(self) -> None:
        self.form.hide()
        self.edit_button.setFocus()


class KeyForm(QWidget):
    """The name and the limits of a key, to be changed together; `close_form` puts it away."""

    def __init__(self, theme: Theme, model: KeysModel, close_form: Callable[[], object]) -> None:
        super().__init__()
        self._theme, self._model, self._close_form = theme, model, close_form
        self._key: KeyInfo | None = None
        box = VBox(theme, self, margins=(16, 4, 16, 16), gap=12)
        self.fields: dict[str, Field] = {}
        sheet = QWidget()
        flow = FlowLayout(theme, sheet, gap=12, line_gap=12)
        flow.addWidget(self._make_cell(_NAME_FIELD, tr("Name")))
        for name, title in LIMIT_TITLES.items():
            flow.addWidget(self._make_cell(name, title.tr(), tr("no limit")))
        self.models = ModelNames(theme, tr("Only these models"), lambda: model.model_names)
        self.models.chosen.connect(lambda _text: self._show_problem(None))
        flow.addWidget(self._make_cell(MODELS_FIELD, tr("Only these models"), control=self.models))
        self.fields[_NAME_FIELD].setMaxLength(MAX_NAME)
        self._about = Paragraph(theme, role="meta", color="ink-2")
        self.problem = Paragraph(theme, role="meta", color="bad")
        self.save_button = Button(theme, tr("Save"), look=ButtonLook.PRIMARY, action=self._save_changes)
        self._cancel = Button(theme, tr("Cancel"), look=ButtonLook.QUIET, action=close_form)
        buttons = HBox(theme, gap=8)
        for button in (self.save_button, self._cancel):
            buttons.addWidget(button)
        buttons.addStretch(1)
        for widget in (sheet, self._about, self.problem):
            box.addWidget(widget)
        box.addLayout(buttons)
        theme.changed.connect(self._restyle)
        self._restyle()

    def begin_edit(self, key: KeyInfo) -> None:
        """Show what a key has now."""
        self._key = key
        may_manage = Scope.MANAGE in key.scopes
        for name, text in {_NAME_FIELD: key.name, **limit_texts(key.limits or NO_LIMITS)}.items():
            self.fields[name].setText(text)
            self.fields[name].setCursorPosition(0)
            self.fields[name].setEnabled(name == _NAME_FIELD or not may_manage)
        self.models.setEnabled(not may_manage)
        self._about.setText(
            tr("This key may manage Roundhouse and could lift any limit itself, so it has none.")
            if may_manage
            else tr(
                "Tokens are those of prompts and answers together. Separate models by commas; * stands for any "
                "letters, as in qwen*. Programs over a limit are told when to try again."
            )
        )
        self._show_problem(None)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 -- Qt's name
        """Put it away with Escape."""
        if event.key() == Qt.Key.Key_Escape:
            self._close_form()
            return
        super().keyPressEvent(event)

    def _make_cell(
        self, name: str, title: str, placeholder: str = "", *, control: "ModelNames | None" = None
    ) -> QWidget:
        cell, field = (
            QWidget(),
            Field(self._theme, title, placeholder=placeholder) if control is None else control.field,
        )
        self.fields[name] = field
        field.returnPressed.connect(self._save_changes)
        field.textEdited.connect(lambda _text: self._show_problem(None))
        box = VBox(self._theme, cell, gap=4)
        box.addWidget(Label(self._theme, title, role="meta", color="ink-2"))
        box.addWidget(control or field)
        return cell

    def _save_changes(self) -> None:
        texts = {name: field.text() for name, field in self.fields.items()}
        limits, sentence = read_limits(texts), name_problem(texts[_NAME_FIELD])
        if sentence:
            self._show_problem(LimitProblem(_NAME_FIELD, sentence))
        elif isinstance(limits, LimitProblem):
            self._show_problem(limits)
        elif self._key is not None:
            self._model.change_key(self._key, texts[_NAME_FIELD].strip(), limits, self._close_form)

    def _show_problem(self, problem: LimitProblem | None) -> None:
        for name, field in self.fields.items():
            field.set_wrong(problem is not None and name == problem.field)
        self.problem.setText("" if problem is None else problem.sentence)
        self.problem.setVisible(problem is not None)
        if problem is not None:
            self.fields[problem.field].setFocus()

    def _restyle(self) -> None:
        widths = {_NAME_FIELD: _NAME_WIDTH, MODELS_FIELD: _MODELS_WIDTH}
        for name, field in self.fields.items():
            field.setFixedWidth(self._theme.px(widths.get(name, _NUMBER_WIDTH)))


class ModelNames(Combo):
    """Names of models with commas between them; its list has those of the library that continue the last one."""

    def __init__(self, theme: Theme, name: str, list_names: Callable[[], Sequence[str]]) -> None:
        super().__init__(theme, name, placeholder=tr("every model"))
        self._list_names = list_names

    def open_list(self) -> None:
        """Show what may follow, if anything may."""
        names = continue_names(self.field.text(), self._list_names())
        self.set_options([(name, name) for name in names[:_MOST_NAMES]])
        if names:
            super().open_list()

    def _choose_value(self, value: str) -> None:
        super()._choose_value(put_name(self.field.text(), value))
        self.field.setFocus()
        self.field.end(False)  # noqa: FBT003 -- Qt takes it by position
