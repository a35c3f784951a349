"""What the page of coding agents knows and does: sessions are begun, followed and decided through the gateway."""

from types import NoneType

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from app.client.http import quote_segment
from app.core.agents import (
    AgentAnswer,
    AgentEntry,
    AgentEntryChanged,
    AgentEvent,
    AgentList,
    AgentPermission,
    AgentPromptText,
    AgentSession,
    AgentSessionChanged,
    AgentState,
    AgentTextAdded,
    AgentThought,
    DecideAgentPermission,
    NewAgentSession,
)
from app.core.errors import ErrorBody
from app.core.events import AgentSessionsChanged, Event, SettingChanged
from app.core.models import ModelInfo
from app.core.translation import tr
from app.gui.net.api import GatewayApi, GatewayCall
from app.gui.net.remote import RemoteList, RemoteStore
from app.gui.net.remote_lists import Stores
from app.gui.shell.contract import Command, Shell

SETTING = "agents.enabled"
_AGAIN_MS = 600
_SESSIONS = "/agents/sessions"


class AgentListStore(RemoteStore[AgentList]):
    """The agents there are, and whether they may run."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/agents", AgentList)

    def is_outdated_by(self, event: Event) -> bool:
        """Tell whether they were switched on or off."""
        return isinstance(event, SettingChanged) and event.name == SETTING


class AgentSessionStore(RemoteList[AgentSession]):
    """The sessions, the newest first."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, _SESSIONS, list[AgentSession])

    def is_outdated_by(self, event: Event) -> bool:
        """Tell whether a session is not what it was."""
        return isinstance(event, AgentSessionsChanged)


class AgentsModel(QObject):
    """The sessions, and the one that is open with all that happened in it."""

    changed = Signal()
    """The lists, how the open session stands, or what is wrong."""
    entry_changed = Signal(int)
    """An entry of the open session is new, or another."""
    session_opened = Signal()
    """Another session is shown, or its entries are told anew."""

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(shell)
        self._api, self._shell, self._stores = stores.api, shell, stores
        self.agents = AgentListStore(stores.api, shell)
        self.sessions = AgentSessionStore(stores.api, shell)
        self.session: AgentSession | None = None
        self.entries: dict[int, AgentEntry] = {}
        self.refusal: ErrorBody | None = None
        """Why the last thing that was asked for was not done."""
        self._stream: GatewayCall | None = None
        self._again = QTimer(self, singleShot=True, interval=_AGAIN_MS)
        self._again.timeout.connect(self._open_stream)
        for store in (self.agents, self.sessions, stores.library):
            store.changed.connect(self.changed)

    @property
    def models(self) -> list[ModelInfo]:
        """The models that an agent may work with."""
        return [info for info in self._stores.library.items if info.chats and not info.problem]

    def switch_on(self) -> None:
        """Let agents run."""
        self._stores.preferences.change_all({SETTING: True}, then=self.agents.read, on_error=self._refuse)

    def start_session(self, new: NewAgentSession) -> None:
        """Begin a session, and show it."""
        self._api.post(_SESSIONS, new, kind=AgentSession, then=self.open_session, on_error=self._refuse)

    def open_session(self, session: AgentSession) -> None:
        """Show a session and follow it."""
        self.close_session()
        self.refusal, self.session = None, session
        self._open_stream()

    def close_session(self) -> None:
        """Show none; its agent goes on."""
        self._again.stop()
        if self._stream is not None:
            self._stream.cancel()
        self._stream, self.session = None, None
        self._forget_entries()

    def send_prompt(self, text: str) -> None:
        """Ask the agent of the open session."""
        self._post("prompts", AgentPromptText(text=text))

    def cancel_turn(self) -> None:
        """Have the agent stop what it does."""
        self._post("cancel")

    def end_session(self) -> None:
        """End the agent; what happened stays."""
        self._post("end")

    def resume_session(self) -> None:
        """Start the agent again, and go on."""
        self._post("resume")

    def decide_permission(self, question: AgentPermission, option: str) -> None:
        """Answer a request for permission."""
        self._post(f"permissions/{question.id}", DecideAgentPermission(option=option))

    def remove_session(self, session: AgentSession) -> None:
        """Forget a session, once that is confirmed."""

        def delete() -> None:
            self._api.send_request(
                "DELETE", _path_of(session), None, kind=NoneType, then=lambda _: self.sessions.read(),
                on_error=self._refuse,
            )  # fmt: skip
            if self.session is not None and self.session.id == session.id:
                self.close_session()

        sentence = tr("What happened in it is forgotten. Files that the agent changed stay as they are.")
        self._shell.confirm(tr("Remove this session?"), sentence, Command(tr("Remove"), delete, icon="trash-2"))

    def dismiss_refusal(self) -> None:
        """Say no more what went wrong."""
        self.refusal = None
        self.changed.emit()

    def _post(self, action: str, body: object = None) -> None:
        if self.session is not None:
            path = f"{_path_of(self.session)}/{action}"
            self._api.post(path, body, kind=AgentSession, then=self._take_session, on_error=self._refuse)

    def _take_session(self, session: AgentSession) -> None:
        """Note how the session stands; one that runs again is followed again."""
        self.refusal = None
        if self.session is not None and self.session.id == session.id:
            self.session = session
            if self._stream is None:
                self._open_stream()
        self.changed.emit()

    def _open_stream(self) -> None:
        if self.session is None:
            return
        self._forget_entries()
        path = f"{_path_of(self.session)}/events"
        self._stream = self._api.open_stream(path, AgentEvent, self._take_event, self._end_stream)

    def _end_stream(self, error: ErrorBody | None) -> None:
        self._stream = None
        if error is not None and self.session is not None:
            self._again.start()

    def _forget_entries(self) -> None:
        self.entries = {}
        self.session_opened.emit()
        self.changed.emit()

    def _take_event(self, event: AgentEvent) -> None:
        match event:
            case AgentSessionChanged(session=session):
                self.session = session
                self.changed.emit()
            case AgentEntryChanged(entry=entry):
                self.entries[entry.id] = entry
                self.entry_changed.emit(entry.id)
            case AgentTextAdded(entry=number, text=text):
                grown_entry = self.entries.get(number)
                if isinstance(grown_entry, (AgentAnswer, AgentThought)):
                    self.entries[number] = msgspec.structs.replace(grown_entry, text=grown_entry.text + text)
                    self.entry_changed.emit(number)

    def _refuse(self, error: ErrorBody) -> None:
        self.refusal = error
        self.changed.emit()


def describe_state(session: AgentSession) -> str:
    """Return how a session stands, in a word or two."""
    return {
        AgentState.STARTING: tr("Starting"),
        AgentState.READY: tr("Waits for you"),
        AgentState.WORKING: tr("Working"),
        AgentState.ASKING: tr("Asks for permission"),
        AgentState.ENDED: tr("Ended"),
        AgentState.FAILED: tr("Broke off"),
    }[session.state]


def _path_of(session: AgentSession) -> str:
    return f"{_SESSIONS}/{quote_segment(session.id)}"
