"""The page of coding agents: a form for a new session, the sessions there are, and the one that is open."""

from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QSizePolicy, QWidget

from app.core.agents import RUNNING_AGENT_STATES, AgentInfo, AgentSession, AgentState, NewAgentSession
from app.core.translation import LazyText, tr
from app.gui.net.remote_lists import Stores
from app.gui.screens.agents.entries import EntryWidget, make_entry
from app.gui.screens.agents.model import AgentsModel, describe_state
from app.gui.shell.contract import PageId as Pages
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, IconButton, Toggle
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import HBox, Surface, VBox
from app.gui.widgets.menus import DropDown
from app.gui.widgets.panels import EmptyState, ErrorPanel, PageFrame, Section
from app.gui.widgets.prompt_field import PromptField
from app.gui.widgets.rows import ListRow, RowList
from app.gui.widgets.status import Dot, Skeleton
from app.gui.widgets.text import Label, Paragraph

_ABOUT = LazyText(
    "Coding agents such as OpenCode work in a folder you choose, with your models. You see what they do, and they ask "
    "before they change files or run commands."
)
_FREE = LazyText("This system cannot hold an agent to its folder: it may do all that you may.")
_WIDEST = 260
_PROMPT_HEIGHT = 72
_NEAR = 24
"""Unscaled pixels from the end that count as being there."""
_STATES = {
    AgentState.STARTING: "accent",
    AgentState.READY: "ok",
    AgentState.WORKING: "accent",
    AgentState.ASKING: "warn",
    AgentState.ENDED: "edge",
    AgentState.FAILED: "bad",
}
_BUSY = frozenset({AgentState.WORKING, AgentState.ASKING})


class AgentsScreen(PageFrame):
    """Shows an `AgentsModel`."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell) -> None:
        super().__init__(theme, tr("Coding agents"))
        self.model = AgentsModel(stores, shell)
        back = partial(shell.show_page, Pages.SETTINGS)
        self.head.addWidget(Button(theme, tr("Settings"), look=ButtonLook.QUIET, icon="chevron-left", action=back))
        self.error, self._skeleton = ErrorPanel(theme), Skeleton(theme, 4, is_card=True)
        self.switch = OffPanel(theme, self.model)
        self.form = SessionForm(theme, self.model)
        self.sessions = Section(theme, tr("Sessions"))
        self.rows = RowList(theme, tr("Sessions"))
        self.sessions.body.addWidget(self.rows)
        self.nothing = EmptyState(theme, "command", tr("No sessions yet"), tr("Choose an agent and a folder above."))
        self.conversation = ConversationView(theme, self.model)
        self.body.addWidget(Paragraph(theme, _ABOUT.tr(), color="ink-2"))
        for widget in (self.switch, self.error, self._skeleton, self.form, self.conversation, self.nothing):
            self.body.addWidget(widget)
        self.body.addWidget(self.sessions)
        self.body.addStretch(1)
        self.model.changed.connect(self._show_state)
        self._end = 0
        self.scroller.verticalScrollBar().rangeChanged.connect(self._follow_end)
        self._show_state()

    def _follow_end(self, _first: int, end: int) -> None:
        """Stay at the end of what grows for who is there."""
        bar = self.scroller.verticalScrollBar()
        if self.model.session is not None and bar.value() >= self._end - self.theme.px(_NEAR):
            bar.setValue(end)
        self._end = end

    def _show_state(self) -> None:
        model, agents = self.model, self.model.agents
        is_on = agents.value is not None and agents.value.is_on
        self._skeleton.setVisible(not agents.is_known and agents.error is None)
        self.switch.setVisible(agents.value is not None and not is_on)
        self.form.setVisible(is_on and model.session is None)
        self.conversation.setVisible(model.session is not None)
        self.sessions.setVisible(bool(model.sessions.items) and model.session is None)
        is_empty = model.sessions.is_known and not model.sessions.items
        self.nothing.setVisible(is_on and is_empty and model.session is None)
        if agents.error is not None:
            self.error.show_error(agents.error, tr("Try again"), agents.read)
        elif model.refusal is not None:
            self.error.show_error(model.refusal, tr("Dismiss"), model.dismiss_refusal)
        else:
            self.error.hide()
        self.rows.sync(
            {session.id: session for session in model.sessions.items},
            lambda session: SessionRow(self.theme, model, session),
            SessionRow.show_session,
        )


class OffPanel(Surface):
    """Says that agents are off, what they may do, and switches them on."""

    def __init__(self, theme: Theme, model: AgentsModel) -> None:
        super().__init__(theme)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(16, 14, 16, 14), gap=10)
        box.addWidget(Label(theme, tr("Coding agents are off"), weight=500))
        words = tr("Switched on, agents that you installed can be started here. None starts by itself.")
        box.addWidget(Paragraph(theme, words, color="ink-2"))
        line = HBox(theme)
        self.button = Button(theme, tr("Turn on"), name=tr("Turn on coding agents"), action=model.switch_on)
        line.addWidget(self.button)
        line.addStretch(1)
        box.addLayout(line)


class SessionForm(Surface):
    """Begins a session: which agent, in which folder, with which model, and whether it reaches other computers."""

    def __init__(self, theme: Theme, model: AgentsModel) -> None:
        super().__init__(theme)
        self._model, self._folder = model, ""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(16, 14, 16, 14), gap=10)
        box.addWidget(Label(theme, tr("New session"), weight=500))
        place = QWidget()
        line = FlowLayout(theme, place, gap=8)
        self.agent = DropDown(theme, tr("Agent"), [], widest=_WIDEST)
        self.model = DropDown(theme, tr("Model"), [], widest=_WIDEST)
        self.folder = Button(theme, tr("Choose a folder…"), look=ButtonLook.PLAIN, icon="folder", action=self._choose)
        self.start = Button(theme, tr("Start"), name=tr("Start the agent"), action=self._start_session)
        for widget in (self.agent, self.model, self.folder, self.start):
            line.addWidget(widget)
        self.place = Paragraph(theme, role="mono", color="ink-2")
        network = HBox(theme, gap=8)
        self.network = Toggle(theme, tr("Let it reach other computers"))
        network.addWidget(self.network)
        network.addWidget(Label(theme, tr("Let it reach other computers"), color="ink-2"), 1)
        self.help = Paragraph(theme, role="meta", color="ink-2")
        box.addWidget(place)
        box.addWidget(self.place)
        box.addLayout(network)
        box.addWidget(self.help)
        self.agent.chosen.connect(self._show_choices)
        model.changed.connect(self._show_choices)
        self._show_choices()

    def set_folder(self, folder: str) -> None:
        """Take the folder that was chosen."""
        self._folder = folder
        self._show_choices()

    def _choose(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, tr("The folder of a project"), self._folder)
        if folder:
            self.set_folder(folder)

    def _find_agent(self) -> AgentInfo | None:
        agent_list = self._model.agents.value
        return (
            next((agent for agent in agent_list.agents if agent.id == self.agent.value), None) if agent_list else None
        )

    def _show_choices(self) -> None:
        agent_list, models = self._model.agents.value, self._model.models
        agents = agent_list.agents if agent_list is not None else []
        self.agent.set_options([(agent.id, agent.name) for agent in agents])
        self.model.set_options([(info.name, info.title or info.name) for info in models])
        if not self.agent.value and agents:
            self.agent.set_value(agents[0].id)
        if not self.model.value and models:
            self.model.set_value(min(models, key=lambda info: info.is_builtin).name)
        agent = self._find_agent()
        self.place.setText(self._folder)
        self.place.setVisible(bool(self._folder))
        words = []
        if agent is not None and not agent.is_installed:
            words.append(tr("{name} is not installed: {command}", name=agent.name, command=agent.install))
        if agent_list is not None and not agent_list.is_confined:
            words.append(_FREE.tr())
        self.help.setText("\n".join(words))
        self.help.setVisible(bool(words))
        self.start.setEnabled(bool(agent is not None and agent.is_installed and self._folder and models))

    def _start_session(self) -> None:
        new = NewAgentSession(
            agent=self.agent.value,
            folder=self._folder,
            model=self.model.value,
            network=self.network.isChecked(),
        )
        self._model.start_session(new)


class SessionRow(ListRow):
    """One session: what it is about, how it stands, and the way to it."""

    def __init__(self, theme: Theme, model: AgentsModel, session: AgentSession) -> None:
        super().__init__(theme, session.title)
        self._model, self._session = model, session
        self._dot = Dot(theme)
        self.lead.addWidget(self._dot)
        self.open = Button(theme, tr("Open"), look=ButtonLook.PLAIN, action=self._open)
        self.remove = IconButton(theme, "trash-2", tr("Remove this session"), action=self._remove)
        self.tail.addWidget(self.open)
        self.tail.addWidget(self.remove)

    def show_session(self, session: AgentSession) -> None:
        """Show what is so now."""
        self._session = session
        state = describe_state(session)
        self.show_text(session.title or session.name, f"{session.name} · {session.folder} · {state}")
        self._dot.show_state(_STATES[session.state], state)

    def _open(self) -> None:
        self._model.open_session(self._session)

    def _remove(self) -> None:
        self._model.remove_session(self._session)


class ConversationView(QWidget):
    """The open session: all that happened, and where the next prompt is written."""

    def __init__(self, theme: Theme, model: AgentsModel) -> None:
        super().__init__()
        self._theme, self._model = theme, model
        self.entries: dict[int, EntryWidget] = {}
        box = VBox(theme, self, gap=12)
        head = HBox(theme, gap=8)
        self._dot = Dot(theme)
        self.title = Paragraph(theme, weight=500)
        head.addWidget(self._dot)
        head.addWidget(self.title, 1)
        self.stop = Button(theme, tr("Stop"), look=ButtonLook.PLAIN, icon="square", action=model.cancel_turn)
        self.resume = Button(theme, tr("Go on"), look=ButtonLook.PLAIN, icon="play", action=model.resume_session)
        end = partial(model.end_session)
        self.end = Button(theme, tr("End"), look=ButtonLook.QUIET, name=tr("End the agent"), action=end)
        self.close_button = Button(theme, tr("Close"), look=ButtonLook.QUIET, action=model.close_session)
        for button in (self.stop, self.resume, self.end, self.close_button):
            head.addWidget(button, 0, Qt.AlignmentFlag.AlignTop)
        box.addLayout(head)
        self.about = Paragraph(theme, role="meta", color="ink-2")
        box.addWidget(self.about)
        self._list = VBox(theme, gap=12)
        box.addLayout(self._list)
        line = HBox(theme, gap=8)
        self.prompt = PromptField(theme, tr("What is to be done"), height=_PROMPT_HEIGHT)
        self.prompt.setPlaceholderText(tr("What is to be done"))
        self.send = Button(theme, tr("Send"), name=tr("Send the prompt"), action=self._send_prompt)
        line.addWidget(self.prompt, 1)
        line.addWidget(self.send, 0, Qt.AlignmentFlag.AlignBottom)
        box.addLayout(line)
        self.prompt.textChanged.connect(self._show_session)
        model.changed.connect(self._show_session)
        model.entry_changed.connect(self._show_entry)
        model.session_opened.connect(self._clear_entries)
        self._show_session()

    def _show_session(self) -> None:
        session = self._model.session
        if session is None:
            return
        state = describe_state(session)
        self._dot.show_state(_STATES[session.state], state)
        self.title.setText(session.title or session.name)
        reach = tr("other computers too") if session.network else tr("no other computer")
        confinement_text = tr("Held to its folder.") if session.is_confined else _FREE.tr()
        words = tr(
            "{state} · {agent} with {model} in {folder} · reaches {reach}. {held}",
            state=state,
            agent=session.version or session.name,
            model=session.model,
            folder=session.folder,
            reach=reach,
            held=confinement_text,
        )
        self.about.setText(words)
        is_running = session.state in RUNNING_AGENT_STATES
        self.stop.setVisible(session.state in _BUSY)
        self.end.setVisible(is_running)
        self.resume.setVisible(not is_running and session.can_resume)
        self.prompt.setEnabled(is_running)
        self.send.setEnabled(session.state is AgentState.READY and bool(self.prompt.toPlainText().strip()))

    def _show_entry(self, number: int) -> None:
        entry = self._model.entries.get(number)
        if entry is None:
            return
        widget = self.entries.get(number)
        if widget is None:
            widget = self.entries[number] = make_entry(self._theme, entry, self._model.decide_permission)
            self._list.addWidget(widget)
        widget.show_entry(entry)

    def _clear_entries(self) -> None:
        for widget in self.entries.values():
            self._list.removeWidget(widget)
            widget.hide()
            widget.deleteLater()
        self.entries = {}

    def _send_prompt(self) -> None:
        self._model.send_prompt(self.prompt.toPlainText().strip())
        self.prompt.clear()
