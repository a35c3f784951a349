"""The lower half of the sampling card: thinking, where answers end, and what they are held to.

What is offered follows the model: one that does not think has no choice there, and an engine that holds answers to no
grammar is named. A schema or grammar counts once it is right; until then its line that is wrong is told.
"""

from collections.abc import Sequence

from msgspec.structs import replace
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.core.chats import LONGEST_STOP, MOST_STOPS, MOST_THINKING, Sampling
from app.core.errors import BadRequest
from app.core.models import AnswerChoices
from app.core.thinking import ThinkingLevel
from app.core.translation import LazyText, tr
from app.gui.theme.theme import Theme
from app.gui.widgets.fields import Field
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import VBox
from app.gui.widgets.menus import DropDown
from app.gui.widgets.prompt_field import PromptField
from app.gui.widgets.text import Label, Paragraph

_LEVELS = {
    ThinkingLevel.DEFAULT: LazyText("As the model does"),
    ThinkingLevel.OFF: LazyText("Off"),
    ThinkingLevel.ON: LazyText("On"),
    ThinkingLevel.LOW: LazyText("A little"),
    ThinkingLevel.MEDIUM: LazyText("Medium"),
    ThinkingLevel.HIGH: LazyText("A lot"),
}
_OTHER_LEVELS = {ThinkingLevel.MINIMAL: ThinkingLevel.LOW, ThinkingLevel.MAX: ThinkingLevel.HIGH}
"""What other programs call the least and the most; models know three steps."""
_SWITCH = (ThinkingLevel.OFF, ThinkingLevel.ON)
_STEPS = (ThinkingLevel.LOW, ThinkingLevel.MEDIUM, ThinkingLevel.HIGH)
_FREE, _SCHEMA, _GRAMMAR = "free", "json_schema", "grammar"
_FORM_EXAMPLES = {
    _SCHEMA: '{"type": "object",\n "properties": {"city": {"type": "string"}},\n "required": ["city"]}',
    _GRAMMAR: 'root ::= "yes" | "no"',
}
_STOPS_HEIGHT, _FORM_HEIGHT = 56, 96


class AnswerFormFields(QWidget):
    """Thinking, stop texts and the form of answers, below each other."""

    changed = Signal()
    """Something that makes sense was chosen: `sampling` has it."""
    refused = Signal(str)
    """Something that was typed makes no sense, and why."""
    resized = Signal()
    """Other fields are shown."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._sampling, self._choices = Sampling(), AnswerChoices()
        self._problem = ""
        box = VBox(theme, self, gap=12)
        self._thinking = DropDown(theme, tr("Thinking"), [])
        self._budget = Field(theme, tr("Thinking at most, in tokens"), placeholder=tr("no limit"))
        self._stops = PromptField(theme, tr("Stop texts"), height=_STOPS_HEIGHT, role="mono")
        self._kind = DropDown(theme, tr("Form of answers"), [])
        self._form = PromptField(theme, tr("Form of answers"), height=_FORM_HEIGHT, role="mono")
        self._about = Paragraph(theme, role="meta", color="ink-2")
        row = FlowLayout(theme, gap=12)
        row.addWidget(_make_cell(theme, tr("Thinking"), self._thinking))
        row.addWidget(_make_cell(theme, tr("Thinking at most"), self._budget))
        row.addWidget(_make_cell(theme, tr("Form of answers"), self._kind))
        box.addLayout(row)
        box.addWidget(self._about)
        box.addWidget(self._form)
        box.addWidget(_make_cell(theme, tr("Stop at: one text per line, \\n for a line break"), self._stops))
        self._thinking.chosen.connect(self._choose_thinking)
        self._kind.chosen.connect(self._choose_kind)
        self._budget.editingFinished.connect(self._read_budget)
        self._stops.focus_left.connect(self._read_stops)
        self._form.focus_left.connect(self._read_form)
        self._shown_kind = _FREE
        self._show_all()

    @property
    def sampling(self) -> Sampling:
        """What is chosen here; the rest of it is the model's own."""
        return self._sampling

    @property
    def problem(self) -> str:
        """What is typed and makes no sense; empty where all of it counts."""
        return self._problem

    def show_sampling(self, sampling: Sampling) -> None:
        """Show what is chosen in another chat; what is being typed stays."""
        form = _form_of(sampling)
        if self._form.hasFocus() or (self._problem and form == _form_of(self._sampling)):
            return
        self._sampling = sampling
        self._shown_kind = form[0]
        self._set_problem("")
        self._show_all()

    def show_choices(self, choices: AnswerChoices) -> None:
        """Offer what the model and its engine can."""
        self._choices = choices
        self._show_all()

    def clear(self) -> None:
        """Leave all of it to the model."""
        self._sampling, self._shown_kind = Sampling(), _FREE
        self._set_problem("")
        self._form.setPlainText("")
        self._stops.setPlainText("")
        self._show_all()

    def show_problem(self) -> None:
        """Give the keyboard to the field that is wrong."""
        self._form.setFocus()

    def _show_all(self) -> None:
        self._thinking.set_options(thinking_options(self._choices, self._sampling.thinking))
        self._thinking.set_value(_OTHER_LEVELS.get(self._sampling.thinking, self._sampling.thinking))
        self._thinking.setEnabled(self._choices.thinks)
        budget = self._sampling.thinking_budget
        self._budget.setEnabled(self._choices.takes_budget or budget is not None)
        if not self._budget.hasFocus():
            self._budget.setText("" if budget is None else str(budget))
        self._stops.set_text("\n".join(map(_escape, self._sampling.stops)))
        self._kind.set_options(_kind_options(self._choices, self._shown_kind))
        self._kind.set_value(self._shown_kind)
        if not self._problem:
            self._form.set_text(_form_of(self._sampling)[1] if self._shown_kind != _FREE else "")
        self._form.setVisible(self._shown_kind != _FREE)
        self._form.setPlaceholderText(_FORM_EXAMPLES.get(self._shown_kind, ""))
        about = about_answers(self._choices, self._shown_kind)
        self._about.setText(about)
        self._about.setVisible(bool(about))
        self.resized.emit()

    def _choose_thinking(self, value: str) -> None:
        self._sampling = replace(self._sampling, thinking=ThinkingLevel(value))
        self.changed.emit()

    def _choose_kind(self, kind: str) -> None:
        self._shown_kind = kind
        self._set_problem("")
        self._show_all()
        if kind == _FREE:
            self._take_form("", "")
        else:
            self._form.setFocus()

    def _read_budget(self) -> None:
        text = self._budget.text().strip()
        is_right = not text or (text.isdecimal() and 1 <= int(text[:9]) <= MOST_THINKING)
        self._budget.set_wrong(not is_right)
        if not is_right:
            self.refused.emit(tr("Thinking at most takes a whole number from 1 to {most:,}.", most=MOST_THINKING))
        elif (budget := int(text) if text else None) != self._sampling.thinking_budget:
            self._sampling = replace(self._sampling, thinking_budget=budget)
            self.changed.emit()

    def _read_stops(self) -> None:
        stops = [_unescape(line) for line in self._stops.toPlainText().splitlines() if line]
        is_right = len(stops) <= MOST_STOPS and all(len(stop) <= LONGEST_STOP for stop in stops)
        self._stops.set_wrong(not is_right)
        if not is_right:
            self.refused.emit(
                tr(
                    "There may be {count} stop texts, of {letters} characters each.",
                    count=MOST_STOPS,
                    letters=LONGEST_STOP,
                )
            )
        elif stops != self._sampling.stops:
            self._sampling = replace(self._sampling, stops=stops)
            self.changed.emit()

    def _read_form(self) -> None:
        text = self._form.toPlainText().strip()
        if self._shown_kind == _SCHEMA:
            self._take_form(text, "")
        elif self._shown_kind == _GRAMMAR:
            self._take_form("", text)

    def _take_form(self, schema: str, grammar: str) -> None:
        sampling = replace(self._sampling, json_schema=schema, grammar=grammar)
        try:
            sampling.check_forms()
        except BadRequest as error:
            self._set_problem(error.body.sentence)
            return
        was_wrong = bool(self._problem)
        self._set_problem("")
        if sampling != self._sampling or was_wrong:
            self._sampling = sampling
            self.changed.emit()

    def _set_problem(self, words: str) -> None:
        self._problem = words
        self._form.set_wrong(bool(words))
        if words:
            self.refused.emit(words)


def thinking_options(choices: AnswerChoices, present: ThinkingLevel) -> list[tuple[str, str]]:
    """Return the levels that a model knows, and the one that is chosen."""
    levels = [ThinkingLevel.DEFAULT]
    levels += _SWITCH if choices.can_switch_thinking else ()
    levels += _STEPS if choices.takes_effort else ()
    present = _OTHER_LEVELS.get(present, present)
    return [(level, words.tr()) for level, words in _LEVELS.items() if level in {*levels, present}]


def about_answers(choices: AnswerChoices, kind: str) -> str:
    """Return what a model or its engine cannot, and what comes with a form, in sentences; empty for nothing."""
    engine = choices.engine_name
    if not engine:
        return ""
    sentences = []
    if not choices.thinks:
        sentences.append(tr("This model does not think before it answers."))
    elif not choices.can_switch_thinking and not choices.takes_effort:
        sentences.append(tr("This model always thinks before it answers."))
    if kind == _SCHEMA and not choices.takes_schema:
        sentences.append(tr("{engine} does not hold answers to a JSON schema.", engine=engine))
    if kind == _GRAMMAR and not choices.takes_grammar:
        sentences.append(tr("{engine} does not hold answers of this model to a grammar.", engine=engine))
    elif kind == _GRAMMAR and choices.thinks:
        sentences.append(tr("With a grammar the model does not think."))
    return " ".join(sentences)


def _kind_options(choices: AnswerChoices, present: str) -> Sequence[tuple[str, str]]:
    is_offered = {
        _FREE: True,
        _SCHEMA: choices.takes_schema or not choices.engine_name,
        _GRAMMAR: choices.takes_grammar or not choices.engine_name,
    }
    words = {_FREE: tr("Any text"), _SCHEMA: tr("JSON schema"), _GRAMMAR: tr("Grammar (GBNF)")}
    return [(kind, words[kind]) for kind, has in is_offered.items() if has or kind == present]


def _form_of(sampling: Sampling) -> tuple[str, str]:
    if sampling.grammar:
        return _GRAMMAR, sampling.grammar
    return (_SCHEMA, sampling.json_schema) if sampling.json_schema else (_FREE, "")


def _make_cell(theme: Theme, words: str, control: QWidget) -> QWidget:
    cell = QWidget()
    box = VBox(theme, cell, gap=4)
    box.addWidget(Label(theme, words, role="meta", color="ink-2"))
    box.addWidget(control)
    return cell


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def _unescape(line: str) -> str:
    pieces = line.split("\\\\")
    return "\\".join(piece.replace("\\n", "\n").replace("\\t", "\t") for piece in pieces)
