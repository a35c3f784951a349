"""The protocol's client: what an agent asks of us, and what it tells, passed on to the gateway.

A change of a file that the agent makes through us is asked about here, unless a person allowed the agent that file in
this turn: some agents write without having asked.
"""

import asyncio
import itertools
from typing import Any

from acp import schema
from acp.exceptions import RequestError

from app.agent_host.files import FileRefused, ProjectFiles
from app.agent_host.reading import (
    call_paths,
    make_diff,
    read_block,
    read_call,
    read_options,
    read_plan,
    split_text,
)
from app.agent_host.terminals import Terminal, TerminalRefused, Terminals
from app.core.agents import (
    AgentAsks,
    AgentOption,
    AgentOptionKind,
    AgentPlanUpdate,
    AgentQuestionOver,
    AgentTitle,
    AgentWords,
)
from app.mcp_host.lines import send

_REFUSED = -32000
"""The protocol's codes leave those below -32000 to implementations; agents show the words."""
_LONGEST_TITLE = 200
_ONCE, _ALWAYS, _REFUSE = "once", "always", "refuse"
_WRITE_OPTIONS = [
    AgentOption(id=_ONCE, name="Allow once", kind=AgentOptionKind.ALLOW_ONCE),
    AgentOption(id=_ALWAYS, name="Always in this session", kind=AgentOptionKind.ALLOW_ALWAYS),
    AgentOption(id=_REFUSE, name="Refuse", kind=AgentOptionKind.REJECT_ONCE),
]
_ALLOWING = {AgentOptionKind.ALLOW_ONCE, AgentOptionKind.ALLOW_ALWAYS}


class PermissionQuestions:
    """Requests for permission that a person has not answered."""

    def __init__(self) -> None:
        self._answer_futures: dict[int, asyncio.Future[str]] = {}
        self._numbers = itertools.count(1)

    async def ask_person(self, question: AgentAsks) -> str:
        """Return the option that a person takes, empty where the request was called off."""
        number = next(self._numbers)
        answer = self._answer_futures[number] = asyncio.get_running_loop().create_future()
        options = {option.id for option in question.options}
        send(AgentAsks(request=number, **_without_number(question)))
        try:
            option = await answer
        finally:
            del self._answer_futures[number]
            send(AgentQuestionOver(request=number))
        return option if option in options else ""

    def answer_question(self, number: int, option: str) -> None:
        """Take a person's answer; of a request that is over, nothing comes."""
        waiter = self._answer_futures.get(number)
        if waiter is not None and not waiter.done():
            waiter.set_result(option)

    def call_off(self) -> None:
        """Leave every request unanswered."""
        for number in list(self._answer_futures):
            self.answer_question(number, "")


def _without_number(question: AgentAsks) -> dict[str, Any]:
    return {name: getattr(question, name) for name in question.__struct_fields__ if name != "request"}


class HostedClient:
    """What an agent can call, by the SDK's names. `session` is empty until it is known."""

    def __init__(self, files: ProjectFiles, terminals: Terminals | None) -> None:
        self._files, self._terminals = files, terminals
        self.questions = PermissionQuestions()
        self.session = ""
        self.is_replaying = False
        """While a session is taken up again its agent tells all that happened in it; that is here already."""
        self._call_paths: dict[str, set[str]] = {}
        self._allowed_paths: set[str] = set()
        """Paths a person let the agent write in this turn."""
        self._may_write = False

    def begin_turn(self) -> None:
        """Forget what was allowed for one turn."""
        self._allowed_paths.clear()
        self._call_paths.clear()

    async def session_update(self, session_id: str, update: object, **_more: object) -> None:
        """Pass on what happened. What this version does not know is left out."""
        if self.is_replaying or self._is_other(session_id):
            return
        match update:
            case schema.AgentMessageChunk(content=block):
                self._send_words(read_block(block), is_thought=False)
            case schema.AgentThoughtChunk(content=block):
                self._send_words(read_block(block), is_thought=True)
            case schema.ToolCallStart() | schema.ToolCallProgress():
                self._call_paths.setdefault(update.tool_call_id, set()).update(call_paths(update))
                send(read_call(update, self._files))
            case schema.AgentPlanUpdate(entries=entries):
                send(AgentPlanUpdate(steps=read_plan(entries)))
            case schema.SessionInfoUpdate(title=str(title)) if title:
                send(AgentTitle(title=title[:_LONGEST_TITLE]))

    def _send_words(self, text: str, *, is_thought: bool) -> None:
        for piece in split_text(text):
            send(AgentWords(text=piece, is_thought=is_thought))

    async def request_permission(
        self, session_id: str, tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption], **_more: object
    ) -> schema.RequestPermissionResponse:
        """Ask a person; called off, the agent is told so."""
        self._check_session(session_id)
        call, answer_options = read_call(tool_call, self._files), read_options(options)
        option = await self.questions.ask_person(
            AgentAsks(
                request=0,
                title=call.title or call.kind or call.call,
                kind=call.kind or "",
                arguments=call.arguments or "",
                text=call.text or "",
                diffs=call.diffs or [],
                options=answer_options,
            )
        )
        if not option:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        kind = next(each.kind for each in answer_options if each.id == option)
        if kind in _ALLOWING:
            self._allowed_paths |= call_paths(tool_call) | self._call_paths.get(tool_call.tool_call_id, set())
            self._may_write |= kind is AgentOptionKind.ALLOW_ALWAYS
        return schema.RequestPermissionResponse(outcome=schema.AllowedOutcome(outcome="selected", option_id=option))

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **_more: object
    ) -> schema.ReadTextFileResponse:
        """Return a file of the folder."""
        self._check_session(session_id)
        try:
            content = await asyncio.to_thread(self._files.read_lines, path, line, limit)
        except FileNotFoundError:
            raise RequestError.resource_not_found(path) from None
        except FileRefused as error:
            raise _refusal(error) from None
        return schema.ReadTextFileResponse(content=content)

    async def write_text_file(
        self, session_id: str, path: str, content: str, **_more: object
    ) -> schema.WriteTextFileResponse:
        """Write a file of the folder, once a person has allowed it."""
        self._check_session(session_id)
        try:
            self._files.find_place(path)
            if not self._may_write and path not in self._allowed_paths:
                await self._ask_to_write(path, content)
            await asyncio.to_thread(self._files.write_file, path, content)
        except FileRefused as error:
            raise _refusal(error) from None
        return schema.WriteTextFileResponse()

    async def _ask_to_write(self, path: str, content: str) -> None:
        old = await asyncio.to_thread(self._files.read_or_nothing, path)
        where = self._files.describe_path(path)
        diff = await asyncio.to_thread(make_diff, where, old, content)
        question = AgentAsks(request=0, title=where, kind="edit", diffs=[diff], options=_WRITE_OPTIONS)
        option = await self.questions.ask_person(question)
        if option not in {_ONCE, _ALWAYS}:
            raise FileRefused(f"A person does not let you write {path}.")
        self._allowed_paths.add(path)
        self._may_write |= option == _ALWAYS

    async def create_terminal(  # noqa: PLR0913, PLR0917 -- the SDK's signature
        self,
        session_id: str,
        command: str,
        args: list[str] | None = None,
        env: list[schema.EnvVariable] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
        **_more: object,
    ) -> schema.CreateTerminalResponse:
        """Run a command in the folder."""
        self._check_session(session_id)
        terminals = self._own_terminals("terminal/create")
        try:
            folder = str(self._files.find_place(cwd or str(self._files.top)))
            variables = {variable.name: variable.value for variable in env or ()}
            terminal = await terminals.start_command([command, *(args or ())], folder, variables, output_byte_limit)
        except (FileRefused, TerminalRefused) as error:
            raise _refusal(error) from None
        return schema.CreateTerminalResponse(terminal_id=terminal.name)

    async def terminal_output(
        self, session_id: str, terminal_id: str, **_more: object
    ) -> schema.TerminalOutputResponse:
        """Return what a command has written."""
        terminal = self._find_terminal(session_id, terminal_id)
        status = _exit_status(terminal.exit_code) if terminal.over.is_set() else None
        return schema.TerminalOutputResponse(output=terminal.output, truncated=terminal.was_cut, exit_status=status)

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **_more: object
    ) -> schema.WaitForTerminalExitResponse:
        """Return how a command ended, once it has."""
        terminal = self._find_terminal(session_id, terminal_id)
        await terminal.over.wait()
        status = _exit_status(terminal.exit_code)
        return schema.WaitForTerminalExitResponse(exit_code=status.exit_code, signal=status.signal)

    async def kill_terminal(self, session_id: str, terminal_id: str, **_more: object) -> schema.KillTerminalResponse:
        """End a command."""
        self._find_terminal(session_id, terminal_id).kill()
        return schema.KillTerminalResponse()

    async def release_terminal(
        self, session_id: str, terminal_id: str, **_more: object
    ) -> schema.ReleaseTerminalResponse:
        """End a command and forget it."""
        self._find_terminal(session_id, terminal_id)
        self._own_terminals("terminal/release").release_terminal(terminal_id)
        return schema.ReleaseTerminalResponse()

    def _find_terminal(self, session_id: str, name: str) -> Terminal:
        self._check_session(session_id)
        try:
            return self._own_terminals("terminal/output").find_terminal(name)
        except TerminalRefused as error:
            raise _refusal(error) from None

    def _own_terminals(self, method: str) -> Terminals:
        if self._terminals is None:
            raise RequestError.method_not_found(method)
        return self._terminals

    def _is_other(self, session_id: str) -> bool:
        return bool(self.session) and session_id != self.session

    def _check_session(self, session_id: str) -> None:
        if self._is_other(session_id):
            raise RequestError.invalid_params({"sessionId": "This is another session."})

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Refuse what only an agent's own window knows."""
        del params
        raise RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Leave out what only an agent's own window knows."""


def _refusal(error: Exception) -> RequestError:
    return RequestError(_REFUSED, str(error))


def _exit_status(code: int | None) -> schema.TerminalExitStatus:
    if code is not None and code < 0:
        return schema.TerminalExitStatus(signal=str(-code))
    return schema.TerminalExitStatus(exit_code=code)
