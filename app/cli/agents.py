"""`roundhouse agents`: coding agents in a folder, with models of this computer; what they may do is asked here."""

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import click

from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, print_note, show_result, write_json
from app.client.http import GatewayClient, quote_segment
from app.core.agents import (
    RUNNING_AGENT_STATES,
    AgentAnswer,
    AgentDiff,
    AgentEntry,
    AgentEntryChanged,
    AgentEvent,
    AgentInfo,
    AgentList,
    AgentNote,
    AgentOption,
    AgentOptionKind,
    AgentPermission,
    AgentPlan,
    AgentPrompt,
    AgentPromptText,
    AgentSession,
    AgentSessionChanged,
    AgentState,
    AgentTerminal,
    AgentTextAdded,
    AgentThought,
    AgentToolCall,
    AgentTranscript,
    DecideAgentPermission,
    NewAgentSession,
)
from app.core.errors import BadRequest, EnvironmentFault

_SHOWN_ID = 6
_START_S = 150.0
_REFUSING = (AgentOptionKind.REJECT_ONCE, AgentOptionKind.REJECT_ALWAYS)


@click.group("agents", invoke_without_command=True)
@json_option
@click.pass_context
def agents(ctx: click.Context, *, as_json: bool) -> None:
    """Have coding agents such as OpenCode work in a folder, with models of this computer.

    The setting agents.enabled switches them on. On Linux an agent is held to its folder.
    """
    if ctx.invoked_subcommand is None:
        _show_agents(as_json=as_json)


@agents.command("list")
@json_option
def list_agents(*, as_json: bool) -> None:
    """List the agents that can be started, and how to install the others."""
    _show_agents(as_json=as_json)


@agents.command("sessions")
@json_option
def list_sessions(*, as_json: bool) -> None:
    """List the sessions, the newest first."""
    sessions = connect_gateway().get("/agents/sessions", list[AgentSession])
    show_result("sessions", sessions, as_json=as_json, text=_session_lines)


@agents.command("start")
@click.argument("agent")
@click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False))
@click.option("--model", default="", metavar="MODEL", help="Model it works with; a usual one, if left out.")
@click.option("--network", is_flag=True, help="Let it connect to other computers.")
@json_option
def start_session(*, agent: str, folder: str, model: str, network: bool, as_json: bool) -> None:
    """Start AGENT in FOLDER, which is the current one if left out.

    `roundhouse agents ask SESSION PROMPT` then has it do something.
    """
    client = connect_gateway()
    new = NewAgentSession(agent=agent, folder=str(Path(folder).resolve()), model=model, network=network)
    session = client.post("/agents/sessions", new, AgentSession, timeout_s=_START_S)
    _show_session(_wait_until_ready(client, session), as_json=as_json)


@agents.command("ask")
@click.argument("session")
@click.argument("prompt")
@json_option
def ask_agent(*, session: str, prompt: str, as_json: bool) -> None:
    """Ask the agent of SESSION, follow what it does, and decide what it may do.

    Where nobody can be asked, as in a script, everything it asks for is refused. Ctrl-C stops it.
    """
    client = connect_gateway()
    target = _find_session(client, session)
    before = len(client.get(_session_path(target), AgentTranscript).entries)
    turn = TurnFollower(client, target, before, prints=not as_json)
    client.post(f"{_session_path(target)}/prompts", AgentPromptText(text=prompt), AgentSession)
    try:
        last_update = turn.follow_turn()
    except KeyboardInterrupt:
        client.post(f"{_session_path(target)}/cancel", None, AgentSession)
        last_update = turn.follow_turn()
    if as_json:
        write_json("entries", client.get(_session_path(target), AgentTranscript).entries[before:])
    if last_update.state is AgentState.FAILED:
        raise EnvironmentFault(last_update.problem, hint=last_update.hint, code="agent_failed")


@agents.command("show")
@click.argument("session")
@json_option
def show_session(*, session: str, as_json: bool) -> None:
    """Show all that happened in SESSION."""
    client = connect_gateway()
    transcript = client.get(_session_path(_find_session(client, session)), AgentTranscript)
    show_result("transcript", transcript, as_json=as_json, text=_transcript_lines)


@agents.command("decide")
@click.argument("session")
@click.argument("entry", type=int)
@click.argument("option")
@json_option
def decide_permission(*, session: str, entry: int, option: str, as_json: bool) -> None:
    """Answer the request for permission that is ENTRY of SESSION with OPTION; `agents show` names both."""
    client = connect_gateway()
    path = f"{_session_path(_find_session(client, session))}/permissions/{entry}"
    _show_session(client.post(path, DecideAgentPermission(option=option), AgentSession), as_json=as_json)


@agents.command("stop")
@click.argument("session")
@json_option
def cancel_prompt(*, session: str, as_json: bool) -> None:
    """Have the agent of SESSION stop what it does; it waits for the next prompt then."""
    _do_action(session, "cancel", as_json=as_json)


@agents.command("resume")
@click.argument("session")
@json_option
def resume_session(*, session: str, as_json: bool) -> None:
    """Start the agent of SESSION again, and go on with it."""
    client = connect_gateway()
    target = _find_session(client, session)
    resumed_session = client.post(f"{_session_path(target)}/resume", None, AgentSession, timeout_s=_START_S)
    _show_session(_wait_until_ready(client, resumed_session), as_json=as_json)


@agents.command("end")
@click.argument("session")
@json_option
def end_session(*, session: str, as_json: bool) -> None:
    """End the agent of SESSION; what happened stays to be read."""
    _do_action(session, "end", as_json=as_json)


@agents.command("rm")
@click.argument("session")
@json_option
def remove_session(*, session: str, as_json: bool) -> None:
    """End SESSION and forget it; what the agent did in its folder stays."""
    client = connect_gateway()
    target = _find_session(client, session)
    client.delete(_session_path(target))
    show_result(
        "removed",
        target,
        as_json=as_json,
        text=lambda removed_session: [f"The session {removed_session.id} was removed."],
    )


class TurnFollower:
    """Shows one turn of an agent in the terminal, and has a person decide what it may do."""

    def __init__(self, client: GatewayClient, session: AgentSession, first: int, *, prints: bool) -> None:
        self._client, self._session, self._first, self._prints = client, session, first, prints
        self._printed_ids: set[int] = set()
        self._lengths: dict[int, int] = {}
        self._is_in_line = False
        self._has_begun = False

    def follow_turn(self) -> AgentSession:
        """Follow the turn to its end; return how the session stands then."""
        about = self._session
        for event in self._client.stream_events(f"{_session_path(self._session)}/events", AgentEvent):
            match event:
                case AgentSessionChanged(session=about):
                    pass
                case AgentEntryChanged(entry=entry) if entry.id >= self._first:
                    self._has_begun = True
                    self._show_entry(entry)
                case AgentTextAdded(entry=number, text=text) if number >= self._first:
                    self._write_text(number, text)
            if self._has_begun and about.state is AgentState.READY and isinstance(event, AgentSessionChanged):
                break
        self._end_line()
        return about

    def _show_entry(self, entry: AgentEntry) -> None:
        match entry:
            case AgentAnswer(id=number, text=text):
                self._write_text(number, text[self._lengths.get(number, 0) :])
            case AgentPermission(is_open=True) if entry.id not in self._printed_ids:
                self._printed_ids.add(entry.id)
                self._decide_permission(entry)
            case AgentToolCall(title=title, kind=kind) if title and entry.id not in self._printed_ids:
                self._printed_ids.add(entry.id)
                self._say_line(f"{kind or 'tool'}: {title}")
            case AgentNote(text=text) if entry.id not in self._printed_ids:
                self._printed_ids.add(entry.id)
                self._say_line(text)

    def _write_text(self, number: int, text: str) -> None:
        self._lengths[number] = self._lengths.get(number, 0) + len(text)
        if self._prints and text:
            click.echo(text, nl=False)
            sys.stdout.flush()
            self._is_in_line = not text.endswith("\n")

    def _say_line(self, sentence: str) -> None:
        self._end_line()
        print_note(sentence)

    def _end_line(self) -> None:
        if self._is_in_line:
            click.echo()
            self._is_in_line = False

    def _decide_permission(self, question: AgentPermission) -> None:
        for line in _permission_lines(question):
            self._say_line(line)
        option = self._choose_option(question.options)
        if option is None:
            return
        path = f"{_session_path(self._session)}/permissions/{question.id}"
        self._client.post(path, DecideAgentPermission(option=option.id), AgentSession)

    def _choose_option(self, options: Sequence[AgentOption]) -> AgentOption | None:
        refusal = next((option for option in options if option.kind in _REFUSING), None)
        if not (self._prints and sys.stdin.isatty()):
            self._say_line("Refused, since nobody can be asked.")
            if refusal is None:
                self._client.post(f"{_session_path(self._session)}/cancel", None, AgentSession)
            return refusal
        for number, option in enumerate(options, 1):
            print_note(f"  {number}  {option.name}")
        default = options.index(refusal) + 1 if refusal is not None else None
        choice = click.prompt("May it?", type=click.IntRange(1, len(options)), default=default, err=True)
        return options[choice - 1]


def _wait_until_ready(client: GatewayClient, session: AgentSession) -> AgentSession:
    """Return a session once its agent takes prompts. Raises EnvironmentFault where it did not start."""
    for event in client.stream_events(f"{_session_path(session)}/events", AgentEvent):
        if isinstance(event, AgentSessionChanged):
            session = event.session
        if session.state is not AgentState.STARTING:
            break
    if session.state not in RUNNING_AGENT_STATES:
        raise EnvironmentFault(session.problem or "The agent was ended.", hint=session.hint, code="agent_failed")
    return session


def _find_session(client: GatewayClient, begin: str) -> AgentSession:
    """Return the session whose number begins so. Raises BadRequest where none, or several do."""
    matching_sessions = [
        each for each in client.get("/agents/sessions", list[AgentSession]) if each.id.startswith(begin)
    ]
    if len(matching_sessions) != 1:
        words = "Several sessions begin" if matching_sessions else "No session begins"
        raise BadRequest(f"{words} with {begin!r}.", hint="`roundhouse agents sessions` lists them.")
    return matching_sessions[0]


def _do_action(session: str, action: str, *, as_json: bool) -> None:
    client = connect_gateway()
    path = f"{_session_path(_find_session(client, session))}/{action}"
    _show_session(client.post(path, None, AgentSession, timeout_s=_START_S), as_json=as_json)


def _session_path(session: AgentSession) -> str:
    return f"/agents/sessions/{quote_segment(session.id)}"


def _show_session(session: AgentSession, *, as_json: bool) -> None:
    show_result("session", session, as_json=as_json, text=lambda shown_session: _session_lines([shown_session]))


def _show_agents(*, as_json: bool) -> None:
    show_result("agents", connect_gateway().get("/agents", AgentList), as_json=as_json, text=_agent_lines)


def _agent_lines(agent_list: AgentList) -> Iterator[str]:
    if not agent_list.is_on:
        yield "Agents are switched off: roundhouse settings agents.enabled true"
    yield from format_table(("AGENT", "NAME", "PROGRAM", "INSTALLED"), map(_agent_row, agent_list.agents))
    if not agent_list.is_confined:
        yield "This system cannot hold an agent to its folder: it may do all that you may."


def _agent_row(agent: AgentInfo) -> tuple[str, ...]:
    return (agent.id, agent.name, agent.program, "yes" if agent.is_installed else f"no: {agent.install}")


def _session_lines(sessions: Sequence[AgentSession]) -> Iterator[str]:
    if not sessions:
        yield "There are no sessions. `roundhouse agents start` begins one."
        return
    yield from format_table(
        ("SESSION", "STATE", "AGENT", "MODEL", "BEGAN", "FOLDER", "ABOUT"), map(_session_row, sessions)
    )


def _session_row(session: AgentSession) -> tuple[str, ...]:
    began = f"{datetime.fromtimestamp(session.created_at).astimezone():%Y-%m-%d %H:%M}"
    about = session.problem or session.title
    return (session.id[:_SHOWN_ID], session.state, session.name, session.model, began, session.folder, about)


def _transcript_lines(transcript: AgentTranscript) -> Iterator[str]:
    yield from _session_lines([transcript.session])
    for entry in transcript.entries:
        yield ""
        yield from _entry_lines(entry)


def _entry_lines(entry: AgentEntry) -> Iterator[str]:
    match entry:
        case AgentPrompt(text=text):
            yield f"> {text}"
        case AgentThought(text=text):
            yield f"(thinks) {text}"
        case AgentAnswer(text=text) | AgentNote(text=text):
            yield text
        case AgentPlan(steps=steps):
            yield from (f"[{'x' if step.status == 'completed' else ' '}] {step.text}" for step in steps)
        case AgentToolCall():
            yield f"{entry.kind or 'tool'}: {entry.title} ({entry.status})"
            yield from _diff_lines(entry.diffs)
        case AgentPermission():
            yield from _permission_lines(entry)
            chosen_option = next((option.name for option in entry.options if option.id == entry.answer), "not answered")
            options = ", ".join(f"{option.id} ({option.name})" for option in entry.options)
            yield f"Waits for `agents decide`: entry {entry.id}, {options}" if entry.is_open else f"-> {chosen_option}"
        case AgentTerminal():
            yield f"$ {entry.command}"
            yield entry.output.rstrip("\n")


def _permission_lines(question: AgentPermission) -> Iterator[str]:
    yield f"It asks for permission ({question.kind or 'tool'}): {question.title}"
    if question.diffs:
        yield from _diff_lines(question.diffs)
    elif question.arguments:
        yield question.arguments


def _diff_lines(diffs: Sequence[AgentDiff]) -> Iterator[str]:
    for diff in diffs:
        yield diff.diff or f"{diff.path}: too long to be shown"
