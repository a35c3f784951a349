"""Talk to one coding agent: `python -m app.agent_host`. The order and prompts come as lines of JSON, news go out so.

A process of its own: the SDK takes a second to import, and the agent is its child, so that both give up the same files
and the network. What the agent writes to its standard error goes to ours.
"""

import asyncio
import contextlib
import logging
import os
from typing import Any

import msgspec
from acp import PROTOCOL_VERSION, connect_to_agent
from acp.exceptions import RequestError
from acp.schema import ClientCapabilities, FileSystemCapabilities, Implementation, InitializeResponse, TextContentBlock

from app.agent_host.client import HostedClient
from app.agent_host.files import ProjectFiles
from app.agent_host.terminals import Terminals
from app.agent_host.transport import LONGEST_LINE, AgentTransport
from app.core.agents import (
    AgentFailure,
    AgentOrder,
    AgentReady,
    AgentRequest,
    AgentTurnEnd,
    AnswerPermission,
    CancelPrompt,
    PromptAgent,
)
from app.mcp_host.lines import describe_failure, read_line, send

_REQUESTS: msgspec.json.Decoder[AgentRequest] = msgspec.json.Decoder(AgentRequest)
_CLOSE_S = 2.0
_LAST_WORDS_S = 1.0
_SIGN_IN = -32000
"""The protocol's code for an agent that asks a person to sign in."""
_LONGEST_VERSION = 200


class AgentEnded(Exception):
    """The agent cannot be talked to any more; says why."""


class AgentTalk:
    """The agent's process and the session with it."""

    def __init__(self, order: AgentOrder) -> None:
        self._order = order
        files = ProjectFiles(order.folder)
        self._terminals = Terminals(order.folder, order.env, send) if order.has_terminals else None
        self._client = HostedClient(files, self._terminals)
        self._connection: Any = None
        self._turn: asyncio.Task[None] | None = None
        self._requests: asyncio.Queue[AgentRequest] = asyncio.Queue()

    async def run_agent(self) -> None:
        """Serve until the gateway closes our input. Raises AgentEnded, or what the agent answers to its start."""
        process = await asyncio.create_subprocess_exec(
            self._order.command,
            *self._order.args,
            env=self._order.env,
            cwd=self._order.folder,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LONGEST_LINE,
        )
        assert process.stdin is not None  # noqa: S101 -- for the type checker: it was started so
        assert process.stdout is not None  # noqa: S101 -- as above
        transport = AgentTransport(process.stdout, process.stdin)
        self._connection = connect_to_agent(self._client, transport)  # type: ignore[arg-type]  # it lacks what we refuse
        try:
            await self._serve_gateway(process, transport)
        finally:
            if self._terminals is not None:
                self._terminals.close()
            await _end_process(process, at_once=bool(transport.problem))

    async def _serve_gateway(self, process: asyncio.subprocess.Process, transport: AgentTransport) -> None:
        """Follow the gateway while the agent lives."""
        end_task = asyncio.create_task(_wait_for_end(process, transport))
        reader = asyncio.create_task(self._read_requests())
        work = asyncio.create_task(self._follow_gateway())
        await asyncio.wait({end_task, reader, work}, return_when=asyncio.FIRST_COMPLETED)
        if reader.done():
            return
        if work.done() and not isinstance(work.exception(), ConnectionError):
            work.result()
        raise AgentEnded(await end_task)

    async def _read_requests(self) -> None:
        """Read what the gateway wants until it closes our input, also while the agent is being started."""
        while line := await asyncio.to_thread(read_line):
            self._requests.put_nowait(_REQUESTS.decode(line))

    async def _follow_gateway(self) -> None:
        ready = await self._start_session()
        send(ready)
        while True:
            match await self._requests.get():
                case PromptAgent(text=text):
                    self._turn = asyncio.create_task(self._ask_agent(text))
                case CancelPrompt():
                    self._client.questions.call_off()
                    await self._connection.cancel(session_id=self._client.session)
                case AnswerPermission(request=number, option=option):
                    self._client.questions.answer_question(number, option)

    async def _start_session(self) -> AgentReady:
        about: InitializeResponse = await self._connection.initialize(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(
                fs=FileSystemCapabilities(read_text_file=True, write_text_file=True),
                terminal=self._terminals is not None,
            ),
            client_info=Implementation(name="roundhouse", title="Roundhouse", version=self._order.version),
        )
        if about.protocol_version != PROTOCOL_VERSION:
            raise AgentEnded(f"It speaks version {about.protocol_version} of the protocol, and not {PROTOCOL_VERSION}.")
        can_load = bool(about.agent_capabilities is not None and about.agent_capabilities.load_session)
        if self._order.load:
            await self._load_session(can_load=can_load)
        else:
            self._client.session = (
                await self._connection.new_session(cwd=self._order.folder, mcp_servers=[])
            ).session_id
        return AgentReady(session=self._client.session, version=_describe_agent(about), can_load=can_load)

    async def _load_session(self, *, can_load: bool) -> None:
        if not can_load:
            raise AgentEnded("It does not take sessions up again.")
        self._client.session, self._client.is_replaying = self._order.load, True
        await self._connection.load_session(cwd=self._order.folder, session_id=self._order.load, mcp_servers=[])
        self._client.is_replaying = False

    async def _ask_agent(self, text: str) -> None:
        self._client.begin_turn()
        prompt = [TextContentBlock(type="text", text=text)]
        try:
            answer = await self._connection.prompt(session_id=self._client.session, prompt=prompt)
        except ConnectionError:
            return  # its end says more
        except Exception as error:  # noqa: BLE001 -- whatever the agent answers ends in a sentence
            send(AgentTurnEnd(problem=_describe_refusal(error)))
        else:
            send(AgentTurnEnd(reason=answer.stop_reason))
        finally:
            self._client.questions.call_off()


async def _wait_for_end(process: asyncio.subprocess.Process, transport: AgentTransport) -> str:
    """Wait until the agent has ended, or cannot be heard any more; return in what way."""
    exit_, close_task = asyncio.create_task(process.wait()), asyncio.create_task(transport.closed.wait())
    try:
        await asyncio.wait({exit_, close_task}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({exit_, close_task}, timeout=_LAST_WORDS_S)  # what it wrote last is read, and why it closed
        if transport.problem:
            return transport.problem
        if not exit_.done():
            return "It closed its output."
        code = exit_.result()
        return f"It was ended by signal {-code}." if code < 0 else f"It ended with exit code {code}."
    finally:
        exit_.cancel()
        close_task.cancel()


async def _end_process(process: asyncio.subprocess.Process, *, at_once: bool) -> None:
    """End the agent: it reads the end of its input, is asked, is killed; `at_once` only that."""
    if process.stdin is not None:
        process.stdin.close()
    for end in (process.kill,) if at_once else (None, process.terminate, process.kill):
        if end is not None:
            with contextlib.suppress(ProcessLookupError):
                end()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await process.wait()
                return


def _describe_agent(about: InitializeResponse) -> str:
    agent = about.agent_info
    return f"{agent.title or agent.name} {agent.version}".strip()[:_LONGEST_VERSION] if agent is not None else ""


def _describe_refusal(error: BaseException) -> str:
    """Return what an agent answered, with the reason that it adds."""
    words = describe_failure(error)
    if isinstance(error, RequestError):
        data = error.data if isinstance(error.data, dict) else {}
        more = next((data[name] for name in ("details", "message") if isinstance(data.get(name), str)), "")
        if error.code == _SIGN_IN and not more:
            return f"It asks you to sign in ({words}): start it in a terminal once."
        return f"{words}: {' '.join(more.split())[:_LONGEST_VERSION]}" if more else words
    return words


async def serve() -> None:
    """Follow the order until our input ends."""
    order = msgspec.json.decode(await asyncio.to_thread(read_line), type=AgentOrder)
    try:
        await AgentTalk(order).run_agent()
    except Exception as error:  # noqa: BLE001 -- whatever an agent does ends in a sentence
        send(AgentFailure(sentence=_describe_refusal(error)))
    os._exit(0)  # a thread may still wait for a line, and the event loop would wait for that


def main() -> None:
    """Run until our input ends."""
    os.umask(0o022)  # what the agent makes in a person's folder is no secret of ours, which the gateway's files are
    logging.getLogger().setLevel(logging.CRITICAL)  # an agent's own last words say more than the SDK's tracebacks
    asyncio.run(serve())
