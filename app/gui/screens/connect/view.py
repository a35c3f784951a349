"""The connect page: the tools found on this computer, each with its wiring in place; the others folded."""

from collections.abc import Callable
from functools import partial

from PySide6.QtWidgets import QSizePolicy, QWidget

from app.core.models import Autocomplete
from app.core.tool_prompts import ToolPreflight
from app.core.tools import ToolChange, ToolInfo
from app.core.translation import LazyText, tr
from app.core.words import format_autocomplete, format_duration
from app.gui.net.remote_lists import Stores
from app.gui.screens.benchmarks.run_progress import RunProgress
from app.gui.screens.connect.model import ConnectModel
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.code import DiffView
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import HBox, Surface, VBox
from app.gui.widgets.menus import DropDown
from app.gui.widgets.panels import EmptyState, ErrorPanel, Fold, PageFrame
from app.gui.widgets.rows import ListRow, RowList
from app.gui.widgets.status import Dot, Skeleton
from app.gui.widgets.text import Paragraph

_ABOUT = LazyText(
    "Point the tools you use at this computer's models. You see each change before it is written. The original file "
    "is kept, and Undo restores it byte for byte."
)
_WIDEST = 280


class CompletionRow(ListRow):
    """Which model completes code in editors, whether it has room beside the one for chats, and where there are some."""

    def __init__(self, theme: Theme, model: ConnectModel) -> None:
        super().__init__(theme, tr("Code completion"))
        self._model = model
        self._choice = DropDown(theme, tr("Model for code completion"), model.completion_options(), widest=_WIDEST)
        self._choice.chosen.connect(model.choose_completion)
        self._search = Button(theme, tr("Find a model"), look=ButtonLook.PLAIN, action=model.show_models)
        self.tail.addWidget(self._search)
        self.tail.addWidget(self._choice)
        self.state_words = Paragraph(theme, color="ink-2")
        """Below the row, since a line would be cut off where it says what is missing."""

    def show_state(self) -> None:
        """Show what is so now."""
        state = self._model.autocomplete.value
        if state is None:
            return
        self._choice.set_options(self._model.completion_options())
        self._choice.set_value(state.model)
        self._choice.setVisible(bool(state.choices or state.model))
        self._search.setVisible(not state.choices)
        self.state_words.setText(_completion_words(state))
        self.setAccessibleDescription(_completion_words(state))


def _completion_words(state: Autocomplete) -> str:
    if state.model or state.choices:
        return format_autocomplete(state)
    if state.offer:
        return tr("No model here completes code. {name} would, on this computer.", name=state.offer)
    return tr("No model here completes code.")


class ConnectScreen(PageFrame):
    """Shows a `ConnectModel`."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell) -> None:
        super().__init__(theme, tr("Connect"))
        self._shell = shell
        self.model = ConnectModel(stores, shell)
        self._choice = DropDown(theme, tr("Model for the tools"), self.model.model_options(), widest=_WIDEST)
        self._choice.chosen.connect(self.model.choose_model)
        self.head.addWidget(self._choice)
        self._completion = CompletionRow(theme, self.model)
        self._completion_card = Surface(theme)
        card = VBox(theme, self._completion_card, gap=0)
        card.addWidget(self._completion)
        below = VBox(theme, margins=(16, 0, 16, 12), gap=0)
        below.addWidget(self._completion.state_words)
        card.addLayout(below)
        self._trouble = ErrorPanel(theme)
        self._skeleton = Skeleton(theme, 4, is_card=True)
        self._nothing = EmptyState(
            theme,
            "plug",
            tr("No tools found"),
            tr("You can still look at the tools below, and connect them before you install them."),
        )
        self._here, self._others = RowList(theme, tr("Installed tools")), RowList(theme, tr("Other tools"))
        place = QWidget()
        VBox(theme, place, gap=0).addWidget(self._others)
        self._fold = Fold(theme, tr("Other tools"), place)
        self.body.addWidget(Paragraph(theme, _ABOUT.tr(), color="ink-2"))
        for part in (self._completion_card, self._trouble, self._skeleton, self._nothing, self._here, self._fold):
            self.body.addWidget(part)
        self.body.addStretch(1)
        self.model.changed.connect(self._show_tools)
        self.model.toast_requested.connect(shell.show_toast)
        self._show_tools()

    def _show_tools(self) -> None:
        model = self.model
        here, others, is_known = model.local_tools, model.other_tools, model.tools.is_known
        self._choice.set_options(model.model_options())
        self._completion_card.setVisible(model.autocomplete.is_known)
        self._completion.show_state()
        self._sync_rows(self._here, here)
        self._sync_rows(self._others, others)
        self._skeleton.setVisible(not is_known and model.tools.error is None)
        self._nothing.setVisible(is_known and not here)
        self._here.setVisible(bool(here))
        self._fold.setVisible(bool(others))
        self._fold.set_title(tr("Other tools ({count})", count=len(others)))
        self._trouble.setVisible(model.tools.error is not None)
        if model.tools.error is not None:
            self._trouble.show_error(model.tools.error, tr("Try again"), model.tools.read)

    def _sync_rows(self, rows: RowList, tools: list[ToolInfo]) -> None:
        copy = self._shell.copy_text
        rows.sync(
            {tool.id: tool for tool in tools},
            lambda tool: ToolRow(self.theme, self.model, tool, copy),
            ToolRow.show_tool,
        )


def _preflight_words(preflight: ToolPreflight) -> str:
    """Return how a model would do with a tool, in a line."""
    parts = [tr("First prompt about {count} tokens", count=preflight.prompt_tokens)]
    if preflight.cold_s is not None and preflight.warm_s is not None:
        cold, warm = format_duration(preflight.cold_s), format_duration(preflight.warm_s)
        parts.append(
            tr("measured: first token after {cold}, then {warm}", cold=cold, warm=warm)
            if preflight.is_measured
            else tr("predicted: first token after {cold}, then {warm}", cold=cold, warm=warm)
        )
    if preflight.largest_context is not None and preflight.largest_context < preflight.context_needed:
        parts.append(
            tr(
                "needs a context of {count}, and the model can have {context} here",
                count=preflight.context_needed,
                context=preflight.largest_context,
            )
        )
    elif preflight.context is not None and preflight.context < preflight.context_needed:
        parts.append(
            tr(
                "needs a context of {count}, and the model has {context}",
                count=preflight.context_needed,
                context=preflight.context,
            )
        )
    if not preflight.calls_tools and preflight.tools:
        parts.append(tr("the model is not made to call tools"))
    if preflight.tool_tasks and preflight.tools:
        parts.append(tr("{valid} of {count} tool calls valid", valid=preflight.valid_calls, count=preflight.tool_tasks))
    if preflight.suggestion:
        parts.append(tr("use {model}", model=preflight.suggestion))
    return " · ".join(parts)


Copy = Callable[[str], object]


class ToolRow(QWidget):
    """Shows a `ToolInfo` and what is open below it."""

    def __init__(self, theme: Theme, model: ConnectModel, tool: ToolInfo, copy: Copy) -> None:
        super().__init__()
        self._theme, self._model, self._id, self._copy = theme, model, tool.id, copy
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, gap=0)
        self._row, self._dot = ListRow(theme), Dot(theme)
        self._row.lead.addWidget(self._dot)
        words = tr("Connect") if tool.file else tr("Show how")
        self._try = self._make_button(tr("Try it"), tool, model.probe_tool, ButtonLook.QUIET)
        self._undo = self._make_button(tr("Undo"), tool, model.undo_wiring, ButtonLook.PLAIN)
        self._wire = self._make_button(words, tool, model.preview_change, ButtonLook.PLAIN)
        self._launch = Button(
            theme,
            tr("Copy command"),
            look=ButtonLook.QUIET,
            icon="copy",
            name=tr("Copy the command that starts {name} connected for one run", name=tool.name),
            action=partial(copy, tool.launch),
        )
        self._launch.setToolTip(tr("Starts it in a terminal, connected for that run only. No file is changed."))
        for button in (self._launch, self._try, self._undo, self._wire):
            self._row.tail.addWidget(button)
        box.addWidget(self._row)
        self.preflight = Paragraph(theme, role="meta", color="ink-2")
        self._measure = self._make_button(tr("Measure"), tool, model.measure_tool, ButtonLook.QUIET)
        self._measure.setToolTip(tr("Sends a prompt of that size, and tasks that need tools. Takes minutes."))
        self.progress = RunProgress(
            theme, tr("Measuring"), tr("Stop measuring: {name}", name=tool.name), model.stop_measuring
        )
        self.failure = ErrorPanel(theme)
        line = HBox(theme, margins=(36, 0, 16, 8), gap=8)
        line.addWidget(self.preflight, 1)
        line.addWidget(self.progress, 1)
        line.addWidget(self._measure)
        box.addLayout(line)
        below = VBox(theme, margins=(36, 0, 16, 0), gap=0)
        below.addWidget(self.failure)
        box.addLayout(below)
        self._below = _ToolDetailView(theme, model, tool, copy)
        box.addWidget(self._below)

    def show_tool(self, tool: ToolInfo) -> None:
        """Show what is so now."""
        detail = self._model.detail_of(tool.id)
        self._dot.show_state("ok" if tool.wired else "warn" if tool.problem else "edge", _state_words(tool))
        self._row.show_text(tool.name, tool.problem or _about_words(tool))
        preflight = self._model.preflights.get(tool.id)
        is_measured = self._model.measured_tool == tool.id
        words = _preflight_words(preflight) if preflight is not None else ""
        self.preflight.setText(words)
        self.preflight.setVisible(bool(words) and not is_measured)
        self._measure.setVisible(preflight is not None and not is_measured)
        self._measure.setEnabled(self._model.measuring is None)
        self.progress.show_stage(self._model.measuring if is_measured else None)
        self._show_failure(tool.id)
        is_looking = detail.change is not None and not detail.change.is_written
        self._wire.setVisible(not is_looking and not (tool.wired and tool.can_undo))
        self._undo.setVisible(tool.can_undo and not is_looking)
        self._try.setVisible(tool.wired)
        self._launch.setVisible(bool(tool.launch))
        for button in (self._wire, self._undo, self._try):
            button.setEnabled(not detail.is_busy)
        self._below.show_detail()

    def _show_failure(self, tool: str) -> None:
        failed_tool, error = self._model.measuring_error or ("", None)
        if error is not None and failed_tool == tool:
            self.failure.show_error(error, tr("Dismiss"), self._model.dismiss_measuring)
        else:
            self.failure.hide()

    def _make_button(self, words: str, tool: ToolInfo, act: Callable[[str], object], look: ButtonLook) -> Button:
        return Button(self._theme, words, look=look, name=f"{words}: {tool.name}", action=partial(act, tool.id))


class _ToolDetailView(QWidget):
    """The change, its buttons, what a try said, or what went wrong."""

    def __init__(self, theme: Theme, model: ConnectModel, tool: ToolInfo, copy: Copy) -> None:
        super().__init__()
        self._theme, self._model, self._id, self._copy = theme, model, tool.id, copy
        self._shown_change: ToolChange | None = None
        box = VBox(theme, self, margins=(36, 0, 16, 12), gap=8)
        self._words = Paragraph(theme, color="ink-2")
        self._diff = DiffView(theme, tr("Change to {name}", name=tool.name))
        self._values = FlowLayout(theme)
        self._failure = ErrorPanel(theme)
        buttons = HBox(theme, gap=8)
        self._write = Button(
            theme,
            tr("Apply"),
            look=ButtonLook.PRIMARY,
            name=tr("Apply: {name}", name=tool.name),
            action=self._connect_tool,
        )
        self._close = Button(
            theme,
            tr("Close"),
            look=ButtonLook.QUIET,
            name=tr("Close: {name}", name=tool.name),
            action=partial(model.close_detail, tool.id),
        )
        for button in (self._write, self._close):
            buttons.addWidget(button)
        buttons.addStretch(1)
        box.addWidget(self._words)
        box.addWidget(self._diff)
        box.addLayout(self._values)
        box.addWidget(self._failure)
        box.addLayout(buttons)

    def show_detail(self) -> None:
        """Show what the model has open for this tool."""
        detail = self._model.detail_of(self._id)
        change, probe, error = detail.change, detail.probe, detail.error
        self.setVisible(change is not None or probe is not None or error is not None)
        words = _change_words(change) if change is not None else probe.sentence if probe is not None else ""
        self._words.setText(words)
        self._words.set_color("bad" if probe is not None and not probe.ok else "ink-2")
        self._words.setVisible(bool(words))
        self._diff.show_difference(change.diff if change is not None else "")
        if change is not self._shown_change:
            self._shown_change = change
            self._fill_values(change)
        self._write.setVisible(change is not None and bool(change.diff) and not change.is_written)
        self._write.setEnabled(not detail.is_busy)
        self._failure.setVisible(error is not None)
        if error is not None:
            self._failure.show_error(error)

    def _connect_tool(self) -> None:
        self._model.connect_tool(self._id)

    def _fill_values(self, change: ToolChange | None) -> None:
        while (value_item := self._values.takeAt(0)) is not None:
            if (widget := value_item.widget()) is not None:
                widget.hide()
                widget.deleteLater()
        for value in change.values if change is not None else ():
            button = Button(
                self._theme,
                value.name,
                icon="copy",
                name=tr("Copy: {name}, {value}", name=value.name, value=value.value),
                action=partial(self._copy, value.value),
            )
            self._values.addWidget(button)


def _state_words(tool: ToolInfo) -> str:
    if tool.problem:
        return tr("Left unchanged")
    return tr("Connected") if tool.wired else tr("Not connected")


def _about_words(tool: ToolInfo) -> str:
    if tool.wired and tool.model:
        return tr("Connected to {model}", model=tool.model)
    if tool.wired:
        return tr("Connected")
    place = tool.file or tr("Needs a few manual steps")
    return place if tool.tried else tr("{place} · as its documentation says, not tried", place=place)


def _change_words(change: ToolChange) -> str:
    if change.steps:
        values = [f"{value.name}: {value.value}" for value in change.values]
        return "\n".join([*(f"{number}. {step}" for number, step in enumerate(change.steps, 1)), *values])
    if change.is_written:
        return change.afterwards
    if change.diff:
        return tr("This changes {file}:", file=change.file)
    return f"{tr('Nothing needs to change.')} {change.afterwards}"
