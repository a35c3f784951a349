"""The what-if controls: which model, what for, how many people, how much context, how exact a cache."""

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.advice import Intent
from app.gui import phrases
from app.gui.screens.machine.plan_form import (
    AUTOMATIC,
    INTENTS,
    KV_TYPES,
    MOST_PEOPLE,
    PlanForm,
    context_options,
)
from app.gui.screens.machine.what_if import WhatIf
from app.gui.theme.theme import Theme
from app.gui.widgets.combo import Combo, Stepper
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import VBox
from app.gui.widgets.menus import DropDown
from app.gui.widgets.text import Label

_MODEL_WIDTH, _CONTEXT_WIDTH = 300, 184


class PlanControls(QWidget):
    """Five controls that follow a `WhatIf` and change it."""

    def __init__(self, theme: Theme, what_if: WhatIf) -> None:
        super().__init__()
        self._theme, self._what_if = theme, what_if
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.model = Combo(theme, "Model", placeholder="Any model, or type a name")
        self.intent = DropDown(theme, "Use case", [(intent.value, title) for intent, title in INTENTS.items()])
        self.people = Stepper(theme, "Users at once", low=1, high=MOST_PEOPLE)
        self.context = DropDown(theme, "Context", context_options(None, None))
        self.kv_type = DropDown(theme, "KV cache", [(AUTOMATIC, "Automatic"), *KV_TYPES.items()])
        flow = FlowLayout(theme, self, gap=16, line_gap=12)
        controls = (
            ("Model", self.model),
            ("Use case", self.intent),
            ("Users at once", self.people),
            ("Context", self.context),
            ("KV cache", self.kv_type),
        )
        for name, control in controls:
            flow.addWidget(_with_label(theme, name, control))
        self.model.typed.connect(lambda text: self._change_form(is_typing=True, model=text.strip()))
        self.model.chosen.connect(lambda text: self._change_form(model=text))
        self.intent.chosen.connect(lambda value: self._change_form(intent=Intent(value)))
        self.people.changed.connect(lambda value: self._change_form(users=value))
        self.context.chosen.connect(lambda value: self._change_form(context=int(value) if value else None))
        self.kv_type.chosen.connect(lambda value: self._change_form(kv_type=value or None))
        theme.changed.connect(self._restyle)
        self._restyle()

    def show_form(self) -> None:
        """Show what is wished for now."""
        form = self._what_if.form
        models = [model for model in self._what_if.library.items if not model.problem]
        options = [(model.name, f"{phrases.model_title(model)}   {model.quantization}".rstrip()) for model in models]
        self.model.set_options([("", "Any model"), *options])
        self.model.set_text(form.model)
        self.intent.set_value(form.intent.value)
        self.people.set_value(form.users)
        estimate = self._what_if.estimate
        largest = estimate.largest_context if estimate else None
        self.context.set_options(context_options(form.context, largest))
        self.context.set_value(str(form.context or AUTOMATIC))
        self.kv_type.set_value(form.kv_type or AUTOMATIC)

    def _change_form(self, *, is_typing: bool = False, **change: object) -> None:
        form: PlanForm = msgspec.structs.replace(self._what_if.form, **change)
        self._what_if.submit_form(form, is_typing=is_typing)

    def _restyle(self) -> None:
        self.model.setFixedWidth(self._theme.px(_MODEL_WIDTH))
        self.context.setFixedWidth(self._theme.px(_CONTEXT_WIDTH))  # its words change with each answer


def _with_label(theme: Theme, name: str, control: QWidget) -> QWidget:
    box = QWidget()
    column = VBox(theme, box, gap=4)
    column.addWidget(Label(theme, name, role="meta", color="ink-2"))
    column.addWidget(control, 0, Qt.AlignmentFlag.AlignLeft)
    return box
