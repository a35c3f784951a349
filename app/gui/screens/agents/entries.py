"""What happened in a session, one widget for each entry; each is changed in place as its entry grows."""

from collections.abc import Callable
from functools import partial

from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.agents import (
    AgentAnswer,
    AgentCallStatus,
    AgentDiff,
    AgentEntry,
    AgentNote,
    AgentOptionKind,
    AgentPermission,
    AgentPlan,
    AgentPrompt,
    AgentTerminal,
    AgentThought,
    AgentToolCall,
)
from app.core.translation import LazyText, tr
from app.gui.screens.chat.transcript.answer_view import AnswerView
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.code import DiffView, LogView
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import Surface, VBox
from app.gui.widgets.panels import Fold
from app.gui.widgets.text import Label, Paragraph

Decide = Callable[[AgentPermission, str], object]
_MOST_LINES = 10
_OUTPUT_MARGIN = 20
"""Room for a horizontal scroll bar below the lines."""
_STATUSES = {
    AgentCallStatus.PENDING: LazyText("Waiting"),
    AgentCallStatus.IN_PROGRESS: LazyText("Running…"),
    AgentCallStatus.COMPLETED: LazyText("Done"),
    AgentCallStatus.FAILED: LazyText("Failed"),
    AgentCallStatus.CANCELLED: LazyText("Cancelled"),
}
_MARKS = {AgentCallStatus.COMPLETED: "✓", AgentCallStatus.IN_PROGRESS: "●"}
_OPTIONS = {
    AgentOptionKind.ALLOW_ONCE: ButtonLook.PRIMARY,
    AgentOptionKind.ALLOW_ALWAYS: ButtonLook.PLAIN,
    AgentOptionKind.REJECT_ONCE: ButtonLook.PLAIN,
    AgentOptionKind.REJECT_ALWAYS: ButtonLook.QUIET,
}


class DiffList(QWidget):
    """Changes of files, each below its path."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme, self._diffs = theme, list[AgentDiff]()
        self._box = VBox(theme, self, gap=4)

    def show_diffs(self, diffs: list[AgentDiff]) -> None:
        """Show other changes."""
        self.setVisible(bool(diffs))
        if diffs == self._diffs:
            return
        self._diffs = diffs
        while (box_item := self._box.takeAt(0)) is not None:
            if (widget := box_item.widget()) is not None:
                widget.deleteLater()
        for diff in diffs:
            words = tr("{path} (new)", path=diff.path) if diff.is_new else diff.path
            self._box.addWidget(Paragraph(self._theme, words, role="mono", color="ink-2"))
            view = DiffView(self._theme, tr("Change to {name}", name=diff.path))
            view.show_difference(diff.diff)
            self._box.addWidget(view)
            if not diff.diff:
                self._box.addWidget(Paragraph(self._theme, tr("Too long to be shown."), role="meta", color="ink-2"))


class TextEntry(QWidget):
    """A prompt, an answer, a thought, a plan or a note."""

    def __init__(self, theme: Theme, entry: AgentEntry) -> None:
        super().__init__()
        box = VBox(theme, self, gap=2)
        who = {AgentPrompt: tr("You"), AgentPlan: tr("Plan")}.get(type(entry), "")
        if who:
            box.addWidget(Label(theme, who, role="meta", color="ink-3"))
        if isinstance(entry, AgentAnswer):
            self.answer = AnswerView(theme)
            box.addWidget(self.answer)
            return
        is_quiet = isinstance(entry, (AgentThought, AgentNote))
        is_problem = isinstance(entry, AgentNote) and entry.is_problem
        self.words = Paragraph(theme, color="bad" if is_problem else "ink-2" if is_quiet else "ink")
        is_thought = isinstance(entry, AgentThought)
        box.addWidget(Fold(theme, tr("Thoughts"), self.words) if is_thought else self.words)

    def show_entry(self, entry: AgentEntry) -> None:
        """Show what is there now."""
        match entry:
            case AgentAnswer(text=text):
                self.answer.show_markdown(text)
            case AgentPrompt(text=text) | AgentThought(text=text) | AgentNote(text=text):
                self.words.setText(text)
            case AgentPlan(steps=steps):
                self.words.setText("\n".join(f"{_MARKS.get(step.status, '○')}  {step.text}" for step in steps))


class ToolEntry(Surface):
    """A call of a tool, or a command: what it is, how far it is, what it changes or writes."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(theme)
        self._theme = theme
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(14, 10, 14, 10), gap=6)
        self.title = Paragraph(theme)
        self.state = Label(theme, role="meta", color="ink-3")
        self.diffs = DiffList(theme)
        self.output = LogView(theme, tr("Output"))
        self._written_text = ""
        for widget in (self.title, self.state, self.diffs, self.output):
            box.addWidget(widget)

    def show_entry(self, entry: AgentEntry) -> None:
        """Show what is there now."""
        match entry:
            case AgentToolCall():
                self.title.setText(entry.title or entry.kind)
                self.state.setText(_STATUSES[entry.status].tr())
                self.diffs.show_diffs(entry.diffs)
                self._show_output("" if entry.diffs else entry.text)
            case AgentTerminal():
                self.title.setText(f"$ {entry.command}")
                code = entry.exit_code
                self.state.setText(tr("Running…") if code is None else tr("Exit code {code}", code=code))
                self.diffs.show_diffs([])
                self._show_output(entry.output)

    def _show_output(self, text: str) -> None:
        self.output.setVisible(bool(text.strip()))
        if text != self._written_text:
            self._written_text = text
            self.output.clear()
            lines = text.splitlines()
            self.output.add_lines([(line, "ink-2") for line in lines])
            shown_height = min(len(lines), _MOST_LINES) * self.output.fontMetrics().lineSpacing()
            self.output.setFixedHeight(shown_height + self._theme.px(_OUTPUT_MARGIN))


class PermissionEntry(Surface):
    """A request for permission: what would be done, and the answers there are; later what was decided."""

    def __init__(self, theme: Theme, decide: Decide) -> None:
        super().__init__(theme)
        self._theme, self._decide = theme, decide
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(14, 12, 14, 12), gap=8)
        self.title = Paragraph(theme, weight=500)
        self.details = Paragraph(theme, role="mono", color="ink-2")
        self.diffs = DiffList(theme)
        self.buttons = QWidget()
        self._flow = FlowLayout(theme, self.buttons, gap=8)
        self.result = Paragraph(theme, role="meta", color="ink-2")
        for widget in (self.title, self.details, self.diffs, self.buttons, self.result):
            box.addWidget(widget)

    def show_entry(self, entry: AgentEntry) -> None:
        """Show what is asked, or what was decided."""
        if not isinstance(entry, AgentPermission):
            return
        self.title.setText(tr("The agent asks: {what}", what=entry.title))
        self.details.setText("" if entry.diffs else "\n".join(filter(None, (entry.arguments, entry.text))))
        self.details.setVisible(bool(self.details.text()))
        self.diffs.show_diffs(entry.diffs)
        if entry.is_open and not self._flow.count():
            for option in entry.options:
                action = partial(self._decide, entry, option.id)
                self._flow.addWidget(Button(self._theme, option.name, look=_OPTIONS[option.kind], action=action))
        self.buttons.setVisible(entry.is_open)
        chosen_name = next((option.name for option in entry.options if option.id == entry.answer), "")
        self.result.setText(tr("Answered: {answer}", answer=chosen_name) if chosen_name else tr("Not answered."))
        self.result.setVisible(not entry.is_open)


EntryWidget = TextEntry | ToolEntry | PermissionEntry


def make_entry(theme: Theme, entry: AgentEntry, decide: Decide) -> EntryWidget:
    """Return the widget for an entry."""
    match entry:
        case AgentPermission():
            return PermissionEntry(theme, decide)
        case AgentToolCall() | AgentTerminal():
            return ToolEntry(theme)
    return TextEntry(theme, entry)
