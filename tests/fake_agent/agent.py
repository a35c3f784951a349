"""A scripted coding agent, on the SDK's side for agents: the first word of a prompt is what it does.

A file called `fault` in its folder says how it fails to start. It is copied to where it is run, and imports nothing of
the product.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, run_agent
from acp.exceptions import RequestError
from acp.helpers import (
    plan_entry,
    start_tool_call,
    text_block,
    tool_content,
    tool_diff_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_tool_call,
)
from acp.schema import (
    AgentCapabilities,
    AllowedOutcome,
    Implementation,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PermissionOption,
    PromptResponse,
    ToolCallLocation,
    ToolCallUpdate,
)

OPTIONS = [
    PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
    PermissionOption(option_id="all", name="Allow all edits", kind="allow_always"),
    PermissionOption(option_id="no", name="Reject", kind="reject_once"),
]
SESSION = "session-1"


class ScriptedAgent:
    def __init__(self, fault: str) -> None:
        self._fault = fault
        self._client: Any = None
        self._stop = asyncio.Event()

    def on_connect(self, conn: Any) -> None:  # noqa: ANN401 -- the SDK's connection
        self._client = conn

    async def initialize(self, **_more: object) -> InitializeResponse:
        if self._fault == "mute":
            await asyncio.sleep(3600)
        return InitializeResponse(
            protocol_version=99 if self._fault == "version" else PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(load_session=self._fault != "no-load"),
            agent_info=Implementation(name="scripted", title="Scripted", version="1.0"),
        )

    async def new_session(self, **_more: object) -> NewSessionResponse:
        if self._fault == "sign-in":
            raise RequestError.auth_required()
        return NewSessionResponse(session_id=SESSION)

    async def load_session(self, session_id: str, **_more: object) -> LoadSessionResponse:
        await self._say("told again")
        Path("loaded").write_text(session_id, encoding="utf-8")  # noqa: ASYNC240 -- nobody else waits
        return LoadSessionResponse()

    async def cancel(self, **_more: object) -> None:
        self._stop.set()

    async def prompt(self, prompt: list[Any], **_more: object) -> PromptResponse:
        self._stop.clear()
        action, _, rest = prompt[0].text.partition(" ")
        reason = await getattr(self, f"do_{action}")(rest)
        return PromptResponse(stop_reason=reason or "end_turn")

    async def _say(self, text: str) -> None:
        await self._client.session_update(session_id=SESSION, update=update_agent_message_text(text))

    async def do_say(self, text: str) -> None:
        await self._client.session_update(session_id=SESSION, update=update_agent_thought_text("Hm. "))
        await self._client.session_update(
            session_id=SESSION,
            update=update_plan([plan_entry("Look", status="completed"), plan_entry("Answer", status="in_progress")]),
        )
        for word in text.split(" "):
            await self._say(f"{word} ")

    async def do_edit(self, rest: str) -> None:
        path, _, text = rest.partition(" ")
        change = tool_diff_content(path, text, "old")
        update = start_tool_call(
            "call-1", f"Edit {path}", kind="edit", content=[change], locations=[ToolCallLocation(path=path)]
        )
        await self._client.session_update(session_id=SESSION, update=update)
        call = ToolCallUpdate(
            tool_call_id="call-1", title=path, kind="edit", content=[change], raw_input={"path": path}
        )
        answer = await self._client.request_permission(session_id=SESSION, tool_call=call, options=OPTIONS)
        if not isinstance(answer.outcome, AllowedOutcome) or answer.outcome.option_id == "no":
            await self._finish("failed", "Not allowed.")
            return
        await self._client.write_text_file(session_id=SESSION, path=path, content=text)
        await self._finish("completed", "Written.")

    async def _finish(self, status: Any, text: str) -> None:  # noqa: ANN401 -- a literal of the SDK's
        update = update_tool_call("call-1", status=status, content=[tool_content(text_block(text))])
        await self._client.session_update(session_id=SESSION, update=update)

    async def do_write(self, rest: str) -> None:
        path, _, text = rest.partition(" ")
        await self._attempt(self._client.write_text_file(session_id=SESSION, path=path, content=text))

    async def do_read(self, path: str) -> None:
        await self._attempt(self._client.read_text_file(session_id=SESSION, path=path))

    async def _attempt(self, call: Any) -> None:  # noqa: ANN401 -- an awaitable of the SDK's
        try:
            result = await call
        except RequestError as error:
            await self._say(f"refused: {error}")
        else:
            await self._say(f"done: {getattr(result, 'content', '')}")

    async def do_steal(self, path: str) -> None:
        try:
            stolen = Path(path).read_text(encoding="utf-8")  # noqa: ASYNC240 -- as above
            await self._say(f"stolen: {stolen}")
        except OSError as error:
            await self._say(f"denied: {type(error).__name__}")

    async def do_run(self, command: str) -> None:
        try:
            terminal = await self._client.create_terminal(session_id=SESSION, command=command)
        except RequestError as error:
            await self._say(f"refused: {error}")
            return
        done = await self._client.wait_for_terminal_exit(session_id=SESSION, terminal_id=terminal.terminal_id)
        shown = await self._client.terminal_output(session_id=SESSION, terminal_id=terminal.terminal_id)
        await self._say(f"exit {done.exit_code}: {shown.output.strip()}")

    async def do_facts(self, _rest: str) -> None:
        key = next((part for part in os.environ.get("OPENCODE_CONFIG_CONTENT", "").split('"') if part[:3] == "rh-"), "")
        in_argv = bool(key) and key in " ".join(sys.argv)
        await self._say(f"{key} {in_argv} {os.environ['HOME']} {Path.cwd()}")

    async def do_kinds(self, _rest: str) -> None:
        options = [{"optionId": "x", "name": "Hand over everything", "kind": "allow_forever"}]
        params = {"sessionId": SESSION, "toolCall": {"toolCallId": "c", "title": "Odd"}, "options": options}
        await self._attempt(self._client._conn.send_request("session/request_permission", params))

    async def do_leave(self, _rest: str) -> None:
        await self._client.session_update(session_id=SESSION, update=start_tool_call("call-1", "Long work"))

    async def do_wait(self, _rest: str) -> str:
        await self._say("waiting")
        await self._stop.wait()
        return "cancelled"

    async def do_hang(self, _rest: str) -> None:
        await self._say("hanging")
        await asyncio.Event().wait()

    async def do_fail(self, _rest: str) -> None:
        raise RequestError.internal_error({"details": "The model is on holiday."})

    async def do_die(self, _rest: str) -> None:
        await self._say("last words")
        sys.stderr.write("I have no more tokens\n")
        sys.stderr.flush()
        await asyncio.sleep(0.2)  # what was said is written by another task
        os._exit(3)

    async def do_flood(self, _rest: str) -> None:
        while True:
            await self._say("flood " * 10_000)

    async def do_garbage(self, count: str) -> None:
        write_waiting()
        for number in range(int(count)):
            sys.stdout.write(f"progress {number} {{\n")
        sys.stdout.write('[1, 2]\n"text"\n5\n')
        sys.stdout.flush()
        await self._say("clean again")

    async def do_line(self, _rest: str) -> None:
        write_waiting()
        while True:
            sys.stdout.write("x" * 1_000_000)
            sys.stdout.flush()


def write_waiting() -> None:
    """Have plain writes wait for room: the SDK's event loop has it otherwise."""
    if sys.platform != "win32":
        os.set_blocking(sys.stdout.fileno(), True)


def main() -> None:
    place = Path("fault")
    fault = place.read_text(encoding="utf-8").strip() if place.exists() else ""
    if fault == "crash":
        sys.stderr.write("I have no licence file\n")
        sys.exit(4)
    asyncio.run(run_agent(ScriptedAgent(fault)))  # type: ignore[arg-type]  # it lacks what is not asked of it


if __name__ == "__main__":
    main()
