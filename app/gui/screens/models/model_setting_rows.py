"""Rows of one model's settings: a number, a choice, a switch, the sampling, a template, an adapter."""

import shlex
from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from app.core.models import Companion
from app.core.translation import tr
from app.gui import phrases
from app.gui.screens.chat.options import NumberOption
from app.gui.screens.models import model_settings
from app.gui.screens.models.model_settings import ModelSettingsModel
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, Toggle
from app.gui.widgets.fields import Field
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import HBox, VBox
from app.gui.widgets.menus import DropDown
from app.gui.widgets.prompt_field import PromptField
from app.gui.widgets.rows import ControlRow, ListRow
from app.gui.widgets.text import Label

_NUMBER_WIDTH, _CHOICE_WIDTH, _CELL = 144, 340, 176
_TEMPLATE_HEIGHT = 160


class ModelSettingRow(ControlRow):
    """A row of the sheet; what the gateway says against its value stands below it."""

    def __init__(self, theme: Theme, model: ModelSettingsModel, name: str, *, title: str, help_: str) -> None:
        super().__init__(theme, title, help_)
        self.name, self.model = name, model
        self.control: QWidget | None = None
        model.problem.connect(self._show_problem)

    def show_value(self) -> None:
        """Show what is set; rows with something of their own to show do."""

    def _show_problem(self, name: str, sentence: str) -> None:
        if name == self.name:
            self.say_wrong(sentence, self.control)


class NumberRow(ModelSettingRow):
    """A number; nothing in it means: as for all models."""

    def __init__(self, theme: Theme, model: ModelSettingsModel, limits: NumberOption, *, unit: str = "") -> None:
        super().__init__(theme, model, limits.name, title=limits.words.tr(), help_=limits.tip.tr())
        self.field = self.control = Field(theme, limits.words.tr(), placeholder=tr("default"))
        self.field.setFixedWidth(theme.px(_NUMBER_WIDTH))
        self.field.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.field.set_unit(unit)
        self.field.editingFinished.connect(lambda: model.type_in(limits.name, self.field.text()))
        self.tools.addWidget(self.field)
        self.add_problem_line()

    def show_value(self) -> None:
        """Show what is set, unless somebody types."""
        _show_number(self.field, getattr(self.model.settings, self.name))


class ChoiceRow(ModelSettingRow):
    """One of several; the empty value leaves it to Roundhouse."""

    def __init__(self, theme: Theme, model: ModelSettingsModel, name: str, *, title: str, help_: str) -> None:
        super().__init__(theme, model, name, title=title, help_=help_)
        self.choice = self.control = DropDown(theme, title, [("", "")], widest=_CHOICE_WIDTH)
        self.choice.chosen.connect(lambda value: model.change_setting(name, value or None))
        self.tools.addWidget(self.choice)
        self.add_problem_line()

    def show_options(self, options: Sequence[tuple[str, str]]) -> None:
        """Show what there is, and what is chosen."""
        self.choice.set_options(options)
        self.choice.set_value(getattr(self.model.settings, self.name) or "")


class EngineRow(ChoiceRow):
    """The engine that runs a model, and the way to find out which is fastest here."""

    def __init__(self, theme: Theme, model: ModelSettingsModel) -> None:
        super().__init__(theme, model, "engine", title=tr("Engine"), help_=tr("The program that runs the model."))
        name = tr("Find the fastest engine for this model")
        self.race = Button(theme, tr("Find the fastest"), look=ButtonLook.QUIET, name=name, action=model.show_race)
        settings_name = tr("Find the fastest settings for this model")
        self.tune = Button(theme, tr("Tune"), look=ButtonLook.QUIET, name=settings_name, action=model.tune_by_measuring)
        self.tools.insertWidget(0, self.race)
        self.tools.insertWidget(1, self.tune)


class DraftRow(ChoiceRow):
    """What drafts for a model, why, and a trial of it on this machine."""

    def __init__(self, theme: Theme, model: ModelSettingsModel) -> None:
        super().__init__(theme, model, "draft", title=tr("Drafts"), help_=model_settings.DRAFT_HELP.tr())
        name = tr("Try drafts on this machine")
        self.attempt = Button(theme, tr("Try"), look=ButtonLook.QUIET, name=name, action=self._press)
        self.tools.insertWidget(0, self.attempt)

    def show_value(self) -> None:
        """Show why it is so, or how far the trial is."""
        choices, trial = self.model.choices, self.model.trial
        if choices is None:
            return
        self.attempt.setVisible(bool(choices.draft_candidate) or trial is not None)
        self.attempt.set_text(tr("Stop") if trial is not None else tr("Try"))
        self.help.setText(trial.stage if trial is not None else model_settings.draft_text(choices))

    def _press(self) -> None:
        if self.model.trial is None:
            self.model.try_drafts()
        else:
            self.model.stop_trial()


class SwitchRow(ModelSettingRow):
    """Yes or no."""

    def __init__(self, theme: Theme, model: ModelSettingsModel, name: str, *, title: str, help_: str) -> None:
        super().__init__(theme, model, name, title=title, help_=help_)
        self.toggle = self.control = Toggle(theme, title)
        self.toggle.clicked.connect(lambda: model.change_setting(name, self.toggle.isChecked()))
        self.tools.addWidget(self.toggle)
        self.add_problem_line()

    def show_value(self) -> None:
        """Show what is set."""
        self.toggle.setChecked(bool(getattr(self.model.settings, self.name)))


class CodeRow(ModelSettingRow):
    """Whether the model's own code may run: a question comes before yes."""

    def __init__(self, theme: Theme, model: ModelSettingsModel) -> None:
        super().__init__(theme, model, "allows_code", title=tr("Allow its custom code"), help_=" ")
        self.toggle = self.control = Toggle(theme, tr("Allow its custom code"))
        self.toggle.clicked.connect(lambda: model.allow_code(is_allowed=self.toggle.isChecked()))
        self.tools.addWidget(self.toggle)
        self.add_problem_line()

    def show_value(self) -> None:
        """Show what is so, and what it means."""
        self.toggle.setChecked(self.model.settings.allows_code)
        if self.model.choices is not None:
            self.help.setText(model_settings.code_text(self.model.choices))


class ParserRow(ModelSettingRow):
    """A parser by its engine's name; nothing in it leaves it to Roundhouse."""

    def __init__(self, theme: Theme, model: ModelSettingsModel, name: str, *, title: str, help_: str) -> None:
        super().__init__(theme, model, name, title=title, help_=help_)
        self.field = self.control = Field(theme, title)
        self.field.setFixedWidth(theme.px(_CELL))
        self.field.editingFinished.connect(lambda: model.name_parser(name, self.field.text().strip()))
        self.tools.addWidget(self.field)
        self.add_problem_line()

    def show_value(self) -> None:
        """Show what is set, unless somebody types."""
        if self.model.choices is not None:
            self.field.setPlaceholderText(model_settings.parser_hint(self.model.choices, self.name))
        _show_text(self.field, getattr(self.model.settings, self.name) or "")


class ArgumentsRow(ModelSettingRow):
    """Extra arguments of the engine's command line, on one line."""

    def __init__(self, theme: Theme, model: ModelSettingsModel) -> None:
        help_ = tr(
            "Added to the engine's command line, as in --seed=7. Arguments that Roundhouse sets itself are refused."
        )
        super().__init__(theme, model, "extra_args", title=tr("Extra arguments"), help_=help_)
        self.field = self.control = Field(theme, tr("Extra arguments"), placeholder=tr("none"))
        self.field.editingFinished.connect(lambda: model.type_arguments(self.field.text()))
        self.outer.addWidget(self.field)
        self.add_problem_line()

    def show_value(self) -> None:
        """Show what is set, unless somebody types."""
        _show_text(self.field, shlex.join(self.model.settings.extra_args))


class SamplingRow(ModelSettingRow):
    """A field for every choice of sampling; what the model recommends stands in the empty ones."""

    def __init__(self, theme: Theme, model: ModelSettingsModel) -> None:
        help_ = tr(
            "For requests and chats that set no value. Leave a field empty to use the model's value, or else the "
            "engine's."
        )
        super().__init__(theme, model, "sampling", title=tr("Values"), help_=help_)
        sheet = QWidget()
        flow = FlowLayout(theme, sheet, gap=12)
        self.fields = {choice.name: Field(theme, f"{choice.words}. {choice.tip}") for choice in model_settings.SAMPLING}
        for choice in model_settings.SAMPLING:
            flow.addWidget(self._make_cell(choice))
        self.outer.addWidget(sheet)
        self.add_problem_line()
        model.problem.connect(self._mark_field)
        theme.changed.connect(self._restyle)
        self._restyle()

    def show_value(self) -> None:
        """Show what is set, and what counts where nothing is."""
        for name, field in self.fields.items():
            field.setPlaceholderText(phrases.sampling_placeholder(self.model.choices, name))
            _show_number(field, getattr(self.model.settings.sampling, name))

    def _make_cell(self, choice: NumberOption) -> QWidget:
        cell, field = QWidget(), self.fields[choice.name]
        box = VBox(self.theme, cell, gap=4)
        box.addWidget(Label(self.theme, choice.words.tr(), role="meta", color="ink-2"))
        field.setToolTip(choice.tip.tr())
        field.editingFinished.connect(lambda: self.model.type_in(choice.name, field.text()))
        box.addWidget(field)
        return cell

    def _mark_field(self, name: str, sentence: str) -> None:
        if name in self.fields:
            self.say_wrong(sentence, self.fields[name])

    def _restyle(self) -> None:
        for field in self.fields.values():
            field.setFixedWidth(self.theme.px(_CELL))


class TemplateRow(ModelSettingRow):
    """A chat template in place of the model's own: typed or begun with that, and kept once it can be read."""

    def __init__(self, theme: Theme, model: ModelSettingsModel) -> None:
        title = tr("Instead of the model's own")
        super().__init__(theme, model, "chat_template", title=title, help_=model_settings.TEMPLATE_HELP.tr())
        self._shown_text = ""
        self._own = Button(theme, tr("Start from the model's own"), look=ButtonLook.QUIET, action=self._insert_own)
        self._clear = Button(
            theme, tr("Use the model's own"), look=ButtonLook.QUIET, action=partial(self._submit_text, "")
        )
        self.keep = Button(
            theme, tr("Save"), name=tr("Save the chat template"), action=lambda: self._submit_text(self._current_text())
        )
        self.edit = PromptField(theme, tr("Chat template"), height=_TEMPLATE_HEIGHT, role="mono")
        self.edit.textChanged.connect(self._show_buttons)
        self.outer.addWidget(self.edit)
        line = HBox(theme, gap=8)
        line.addStretch(1)
        for button in (self._clear, self.keep):
            line.addWidget(button)
        self.tools.addWidget(self._own)
        self.outer.addLayout(line)
        self.add_problem_line()

    def show_value(self) -> None:
        """Show what is set, and what it does; what is being written stays."""
        if self.model.choices is not None:
            self.help.setText(model_settings.template_text(self.model.choices))
        present = self.model.settings.chat_template or ""
        if present != self._shown_text:
            self._shown_text = present
            self.edit.setPlainText(present)
        self._show_buttons()

    def _current_text(self) -> str:
        return self.edit.toPlainText()

    def _insert_own(self) -> None:
        if self.model.choices is not None:
            self.edit.setPlainText(self.model.choices.chat_template)
            self.edit.setFocus()

    def _submit_text(self, text: str) -> None:
        if not text.strip():
            self.edit.setPlainText("")
        self.model.change_setting("chat_template", text if text.strip() else None)

    def _show_buttons(self) -> None:
        text, choices = self._current_text(), self.model.choices
        is_begun = bool(text.strip())
        self.edit.setVisible(is_begun or choices is None or not choices.chat_template or self.edit.hasFocus())
        self._own.setVisible(not is_begun and choices is not None and bool(choices.chat_template))
        self.keep.setVisible(text != self._shown_text)
        self._clear.setVisible(bool(self._shown_text))


class LoraRow(ListRow):
    """One adapter, applied or not."""

    def __init__(self, theme: Theme, apply: Callable[..., object], companion: Companion) -> None:
        super().__init__(theme)
        self.toggle = Toggle(theme, tr("Apply {title}", title=companion.title))
        self.toggle.clicked.connect(lambda: apply(companion.name, is_used=self.toggle.isChecked()))
        self.tail.addWidget(self.toggle)

    def show_companion(self, companion: Companion) -> None:
        """Show it as it is."""
        self.show_text(model_settings.companion_title(companion), companion.problem or companion.name)
        self.toggle.setChecked(companion.is_used)


def _show_number(field: Field, value: float | None) -> None:
    _show_text(field, "" if value is None else str(value).removesuffix(".0"))


def _show_text(field: Field, text: str) -> None:
    if field.hasFocus() and field.isModified():
        return
    if field.text() != text:
        field.setText(text)
