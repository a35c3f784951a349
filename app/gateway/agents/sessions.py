"""The sessions with coding agents: begun, taken up again, kept on the disk, removed. None begins while they are off."""

import asyncio
import dataclasses
import logging
import secrets
import shutil
import time
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from app.config.paths import Paths, expand_path
from app.config.private_files import save_private
from app.confinement.rules import LaunchOrder
from app.connect.connections import TOOLS
from app.connect.tool import ClientTool
from app.core.agents import (
    MOST_SESSIONS,
    RUNNING_AGENT_STATES,
    AgentEntry,
    AgentInfo,
    AgentList,
    AgentOrder,
    AgentSession,
    AgentState,
    AgentTranscript,
    NewAgentSession,
)
from app.core.errors import BadRequest, Conflict, NotFound, RoundhouseError, StorageFault, quote_value
from app.core.events import AgentSessionsChanged
from app.core.tools import ToolLaunch
from app.gateway.agents.launch import agent_order, confine_agent
from app.gateway.agents.session import HostedSession
from app.gateway.agents.transcript import Transcript
from app.gateway.background import Background
from app.gateway.hosting.reach import can_confine, folder_name, launch_host
from app.gateway.loading.wiring import wiring
from app.gateway.services import Services
from app.network.egress import egress_gate

log = logging.getLogger(__name__)

MOST_RUNNING = 8
_SAVE_S = 1.0
"""At most so much of a session is lost when the service is killed."""
_SETTING = "agents.enabled"


class AgentSessions:
    """All sessions. Belongs to the event loop; files are read and written in threads."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._files = SessionFiles(services.paths)
        self._sessions: dict[str, HostedSession] | None = None
        self._read_lock, self._resume_lock = asyncio.Lock(), asyncio.Lock()
        self._background = Background()
        self._unsaved_ids: set[str] = set()
        self._shown_states: dict[str, tuple[AgentState, str]] = {}
        """What lists of sessions show of each that changes."""
        egress_gate.add_holder(self)

    async def list_agents(self) -> AgentList:
        """Return the agents there are, those that are installed first."""
        agents = await asyncio.to_thread(_list_agents)
        is_confined = await asyncio.to_thread(can_confine)
        return AgentList(is_on=self._services.settings.get_flag(_SETTING), is_confined=is_confined, agents=agents)

    async def list_sessions(self) -> list[AgentSession]:
        """Return every session, the newest first."""
        sessions = (await self._all_sessions()).values()
        return sorted((session.about for session in sessions), key=lambda about: about.created_at, reverse=True)

    async def find_session(self, number: str) -> HostedSession:
        """Return one session. Raises NotFound."""
        try:
            return (await self._all_sessions())[number]
        except KeyError:
            raise NotFound(
                f"There is no session {quote_value(number)}.",
                hint="`roundhouse agents sessions` shows them.",
                code="agent_session_not_found",
            ) from None

    async def read_transcript(self, number: str) -> AgentTranscript:
        """Return one session with all that happened in it. Raises NotFound."""
        session = await self.find_session(number)
        return AgentTranscript(session=session.about, entries=session.transcript.entries)

    async def start_session(self, new: NewAgentSession) -> AgentSession:
        """Begin a session; it is returned before its agent is ready. Raises BadRequest, Conflict, NotFound."""
        self._check_on()
        tool = _find_agent(new.agent)
        folder = await asyncio.to_thread(_check_folder, new.folder, self._services.paths)
        sessions = await self._all_sessions()
        self._make_room(sessions)
        target = await wiring(self._services, new.model)
        now = time.time()
        about = AgentSession(
            id=secrets.token_hex(6),
            agent=tool.id,
            name=tool.name,
            folder=str(folder),
            model=target.model,
            network=new.network,
            created_at=now,
            changed_at=now,
        )
        session = HostedSession(about, Transcript(), self._note_change)
        await self._launch_agent(session, tool)
        sessions[about.id] = session
        self._note_change(session.about)
        return session.about

    async def resume_session(self, number: str) -> AgentSession:
        """Start the agent of a session that is over, and have it take the session up again. Raises Conflict."""
        self._check_on()
        session = await self.find_session(number)
        async with self._resume_lock:
            if session.is_running:
                raise Conflict(f"{session.about.name} runs already.", code="agent_running")
            if not session.about.can_resume:
                raise Conflict(
                    f"{session.about.name} does not take sessions up again.",
                    hint="Begin a new one; this one stays to be read.",
                    code="agent_cannot_resume",
                )
            await session.close_agent()  # what is left of the run before
            await asyncio.to_thread(_check_folder, session.about.folder, self._services.paths)
            self._make_room(await self._all_sessions(), is_new=False)
            await self._launch_agent(session, _find_agent(session.about.agent))
            return session.about

    async def remove_session(self, number: str) -> None:
        """End a session and forget it. Raises NotFound or StorageFault."""
        session = await self.find_session(number)
        await session.close_agent()
        await self._forget_session(number)
        self._services.events.publish(AgentSessionsChanged())

    def cut_connections(self) -> None:
        """End the agents that may reach other computers: nothing is to go out any more."""
        for session in (self._sessions or {}).values():
            if session.is_running and session.about.network:
                self._background.spawn(session.end_agent())

    async def close(self) -> None:
        """End every agent, and keep what is not kept yet."""
        sessions = list((self._sessions or {}).values())
        await asyncio.gather(*(session.close_agent() for session in sessions))
        await self._background.join(cancel=True)
        for number in list(self._unsaved_ids):
            await self._save_session(number)

    def _check_on(self) -> None:
        if not self._services.settings.get_flag(_SETTING):
            raise Conflict(
                "Coding agents are switched off.",
                hint=f"`roundhouse settings {_SETTING} true` switches them on; in the window, their page does.",
                code="agents_off",
            )

    async def _launch_agent(self, session: HostedSession, tool: ClientTool) -> None:
        """Start a session's agent, with a key of its own that ends with it. Raises NotFound."""
        about, services = session.about, self._services
        loan = f"agent/{about.id}"
        target = await wiring(services, about.model)
        target = dataclasses.replace(target, key=services.keys.lend_key(loan))
        session.end_loan = partial(services.keys.end_loan, loan)
        try:
            launch = await asyncio.to_thread(self._prepare_launch, session, tool.launch_agent(target))
        except (RoundhouseError, OSError) as error:
            session.end_loan()
            if isinstance(error, OSError):
                raise StorageFault(f"{tool.name} could not be started: {error}.") from error
            raise
        session.about = replace(session.about, is_confined=can_confine())
        await session.start_agent(*launch)

    def _prepare_launch(self, session: HostedSession, launch: ToolLaunch) -> tuple[LaunchOrder, AgentOrder]:
        """Return how the agent is started, and what is told the program that talks to it. Raises NotFound, OSError."""
        about, is_confined = session.about, can_confine()
        home = self._services.paths.agent_homes / folder_name(about.agent)
        load = about.agent_session
        order = agent_order(launch, Path(about.folder), home, load=load, is_confined=is_confined)
        has_network = about.network and not egress_gate.is_closed
        url = self._services.identity.url
        rules = confine_agent(order, home, url, has_network=has_network) if is_confined else None
        return launch_host("app.agent_host", home, rules), order

    def _make_room(self, sessions: dict[str, HostedSession], *, is_new: bool = True) -> None:
        """Forget the oldest session that is over, if there are too many. Raises Conflict."""
        if sum(session.is_running for session in sessions.values()) >= MOST_RUNNING:
            raise Conflict(f"{MOST_RUNNING} agents run already.", hint="End one first.", code="too_many")
        if is_new and len(sessions) >= MOST_SESSIONS:
            over = [session.about for session in sessions.values() if not session.is_running]
            oldest = min(over, key=lambda about: about.changed_at)
            self._background.spawn(self._forget_session(oldest.id))

    async def _forget_session(self, number: str) -> None:
        (await self._all_sessions()).pop(number, None)
        self._unsaved_ids.discard(number)
        await asyncio.to_thread(self._files.remove_session, number)

    async def _all_sessions(self) -> dict[str, HostedSession]:
        async with self._read_lock:
            if self._sessions is None:
                stored_sessions = await asyncio.to_thread(self._files.read_all)
                self._sessions = {
                    about.id: HostedSession(about, Transcript(entries), self._note_change)
                    for about, entries in stored_sessions
                }
            return self._sessions

    def _note_change(self, about: AgentSession) -> None:
        session = (self._sessions or {}).get(about.id)
        if session is None:
            return
        if about.id not in self._unsaved_ids:
            self._unsaved_ids.add(about.id)
            self._background.spawn(self._save_soon(about.id))
        shown_state = (about.state, about.title)
        if self._shown_states.get(about.id) != shown_state:
            self._shown_states[about.id] = shown_state
            self._services.events.publish(AgentSessionsChanged())

    async def _save_soon(self, number: str) -> None:
        await asyncio.sleep(_SAVE_S)
        await self._save_session(number)

    async def _save_session(self, number: str) -> None:
        """Keep a session as it is now; what the disk refuses is logged, and tried again with the next change."""
        self._unsaved_ids.discard(number)
        session = (self._sessions or {}).get(number)
        if session is None:
            return
        session.about = replace(session.about, changed_at=time.time())
        try:
            await asyncio.to_thread(self._files.save_session, session.about, session.transcript.entries)
        except StorageFault as fault:
            log.warning(str(fault), extra={"code": fault.code})


class SessionFiles:
    """The files of sessions: two for each, since transcripts are long."""

    def __init__(self, paths: Paths) -> None:
        self._folder = paths.agent_sessions

    def read_all(self) -> list[tuple[AgentSession, list[AgentEntry]]]:
        """Return what is kept; a session that ran when the service ended did end with it. Unreadable ones are left."""
        sessions = []
        for file in sorted(self._folder.glob("*.session.json")):
            try:
                about = msgspec.json.decode(file.read_bytes(), type=AgentSession)
                entries = msgspec.json.decode(self._entries_file(about.id).read_bytes(), type=list[AgentEntry])
            except (OSError, msgspec.MsgspecError) as error:
                log.warning("A session with a coding agent cannot be read: %s", error, extra={"file": file.name})
                continue
            if about.state in RUNNING_AGENT_STATES:
                about = replace(about, state=AgentState.ENDED)
            sessions.append((about, entries))
        return sessions

    def save_session(self, about: AgentSession, entries: list[AgentEntry]) -> None:
        """Keep a session. Raises StorageFault."""
        save_private(self._entries_file(about.id), msgspec.json.encode(entries), "the session")
        save_private(self._folder / f"{about.id}.session.json", msgspec.json.encode(about), "the session")

    def remove_session(self, number: str) -> None:
        """Forget a session. Raises StorageFault."""
        try:
            for file in (self._folder / f"{number}.session.json", self._entries_file(number)):
                file.unlink(missing_ok=True)
        except OSError as error:
            raise StorageFault(f"The session could not be removed: {error}.") from error

    def _entries_file(self, number: str) -> Path:
        return self._folder / f"{number}.entries.json"


def _find_agent(name: str) -> ClientTool:
    tool = next((tool for tool in TOOLS if tool.agent is not None and tool.id == name), None)
    if tool is None:
        raise NotFound(
            f"There is no agent {quote_value(name)}.",
            hint="`roundhouse agents list` shows them.",
            code="agent_not_found",
        )
    return tool


def _list_agents() -> list[AgentInfo]:
    """Return what is known of each, those that are installed first. Looks at the disk."""
    agents = [_describe_agent(tool) for tool in TOOLS if tool.agent is not None]
    return sorted(agents, key=lambda agent: not agent.is_installed)


def _describe_agent(tool: ClientTool) -> AgentInfo:
    assert tool.agent is not None  # noqa: S101 -- for the type checker: only those are asked about
    program = tool.agent.program or tool.programs[0]
    return AgentInfo(
        id=tool.id,
        name=tool.name,
        is_installed=shutil.which(program) is not None,
        program=program,
        install=tool.agent.install,
        tried=tool.agent_tried,
    )


def _check_folder(text: str, paths: Paths) -> Path:
    """Return a folder in which an agent may work. Raises BadRequest or NotFound. Looks at the disk."""
    folder = expand_path(text)
    if not folder.is_absolute() or "\0" in text:
        raise BadRequest("The folder is given as an absolute path.", code="invalid_value")
    if not folder.is_dir():
        raise NotFound(f"There is no folder {quote_value(text)}.", code="folder_not_found")
    folder = folder.resolve()
    own = (paths.config, paths.data, paths.state)
    if Path.home().resolve().is_relative_to(folder) or any(
        place.resolve().is_relative_to(folder) or folder.is_relative_to(place.resolve()) for place in own
    ):
        raise BadRequest(
            f"{folder} is not given to an agent: your whole home, or Roundhouse's own files, would be open to it.",
            hint="Choose the folder of one project.",
            code="folder_too_wide",
        )
    return folder
