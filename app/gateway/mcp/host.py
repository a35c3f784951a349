"""One MCP server that runs: the process that talks to it, its tools, and calls on their way.

The process is confined where the system can, and the server, as its child, with it. It is ended when it breaks the
protocol, does not become ready, or is not used any more; whoever waits for a call is told.
"""

import asyncio
import itertools
import logging
from typing import Any, Protocol

import msgspec

from app.confinement.rules import LaunchOrder
from app.core.errors import EnvironmentFault, RoundhouseError
from app.core.mcp import (
    HostCall,
    HostCancel,
    HostFailure,
    HostOrder,
    HostReply,
    HostResult,
    HostSignIn,
    HostSignInState,
    HostTools,
    McpResult,
    McpToolDescription,
)
from app.gateway.hosting.line_process import LineProcess

log = logging.getLogger(__name__)

SIGN_IN_S = 600.0
"""How long a person may take to sign in."""
READY_S = 120.0
"""A runner such as npx downloads the server's package first."""
_REPLIES: msgspec.json.Decoder[HostReply] = msgspec.json.Decoder(HostReply)


class McpServerFailed(EnvironmentFault):
    """An MCP server did not start, ended, or did not answer."""

    default_code = "mcp_server_failed"
    status = 502


class HostListener(Protocol):
    """Who is told what a server says by itself."""

    def take_tools(self, tools: list[McpToolDescription]) -> None:
        """Take the tools that the server lists now."""

    def keep_sign_in(self, state: str) -> None:
        """Keep what the server trusts us with, for the next start."""


class McpHost:
    """Talks to one server. Belongs to the event loop."""

    def __init__(self, name: str, listener: "HostListener") -> None:
        self._name, self._listener = name, listener
        self._process: LineProcess | None = None
        self._read_task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._calls: dict[int, asyncio.Future[McpResult]] = {}
        self._numbers = itertools.count(1)
        self._is_stopped = False
        self._has_news = asyncio.Event()
        self.sign_in_url = ""
        """Where a person has to sign in before the server is ready."""
        self.tools: list[McpToolDescription] = []

    @property
    def is_running(self) -> bool:
        """Whether calls can be sent."""
        return self._process is not None and self._ready.done() and self._ready.exception() is None

    @property
    def is_busy(self) -> bool:
        """Whether a call is on its way."""
        return bool(self._calls)

    async def start(self, launch: LaunchOrder, order: HostOrder) -> bool:
        """Start the server and return once its tools are known: True. Raises McpServerFailed.

        False where a person has to sign in first; then `wait_until_ready` waits for that.
        """
        process = LineProcess()
        try:
            await process.start(launch)
        except OSError as error:
            raise McpServerFailed(f"{self._name} could not be started: {error}.") from error
        self._process = process
        if self._is_stopped:  # while the process was made
            await self.stop()
            raise McpServerFailed(f"{self._name} was stopped.")
        self._read_task = asyncio.create_task(self._read_replies(process))
        self._send(order)
        try:
            async with asyncio.timeout(READY_S):
                await self._has_news.wait()
                if self.sign_in_url and not self._ready.done():
                    return False
                await asyncio.shield(self._ready)
        except TimeoutError:
            await self.stop()
            raise McpServerFailed(
                f"{self._name} did not become ready within {READY_S:.0f} seconds.", hint=process.last_words
            ) from None
        except BaseException:
            await self.stop()
            raise
        return True

    async def wait_until_ready(self) -> None:
        """Wait for a person to sign in. Raises McpServerFailed."""
        try:
            async with asyncio.timeout(SIGN_IN_S):
                await asyncio.shield(self._ready)
        except TimeoutError:
            await self.stop()
            raise McpServerFailed(f"Nobody signed in to {self._name}.", code="mcp_sign_in") from None
        self.sign_in_url = ""

    async def call(self, tool: str, arguments: dict[str, object], limit_s: float) -> McpResult:
        """Return what a tool returns. Cancelling calls it off. Raises McpServerFailed."""
        number = next(self._numbers)
        answer: asyncio.Future[McpResult] = asyncio.get_running_loop().create_future()
        self._calls[number] = answer
        try:
            self._send(HostCall(id=number, tool=tool, arguments=arguments))
            async with asyncio.timeout(limit_s):
                return await answer
        except TimeoutError:
            raise McpServerFailed(
                f"{tool} of {self._name} did not answer within {limit_s:.0f} seconds.", code="mcp_call_timeout"
            ) from None
        finally:
            del self._calls[number]
            if not answer.done() or answer.cancelled():
                self._send(HostCancel(id=number))

    async def stop(self) -> None:
        """End the server, also one that is starting: it may finish by itself when its input closes, or is killed.

        Whoever waits for it is told.
        """
        self._is_stopped = True
        process, self._process = self._process, None
        if process is None:
            return
        await process.stop(_CLOSE_S)
        if self._read_task is not None:
            self._read_task.cancel()
            await asyncio.gather(self._read_task, return_exceptions=True)
        self._fail(McpServerFailed(f"{self._name} was stopped."))

    def _send(self, message: HostOrder | HostCall | HostCancel) -> None:
        if self._process is not None:
            self._process.send(message)

    async def _read_replies(self, process: LineProcess) -> None:
        failure = ""
        try:
            async for line in process.read_lines():
                failure = self._take_reply(_REPLIES.decode(line))
                if failure:
                    break
        except (ValueError, msgspec.MsgspecError):  # a line that is too long, or none of ours
            failure = f"{self._name} answered more than can be taken, or nonsense."
        await process.wait_for_words()
        end_words = "was stopped" if self._is_stopped else "ended"
        self._fail(McpServerFailed(failure or f"{self._name} {end_words}.", hint=process.last_words))

    def _take_reply(self, reply: HostReply) -> str:
        """Pass on what came; return why the server failed, if it did."""
        match reply:
            case HostTools(tools=tools):
                self.tools = tools
                self._listener.take_tools(tools)
                if not self._ready.done():
                    self._ready.set_result(None)
                self._has_news.set()
            case HostSignIn(url=url):
                self.sign_in_url = url
                self._has_news.set()
            case HostSignInState(state=state):
                self._listener.keep_sign_in(state)
            case HostResult(id=number, result=result):
                answer = self._calls.get(number)
                if answer is not None and not answer.done():
                    answer.set_result(result)
            case HostFailure(sentence=sentence):
                return f"{self._name} ended." if sentence == _CLOSED else f"{self._name} failed: {sentence}"
        return ""

    def _fail(self, error: RoundhouseError) -> None:
        everyone: list[asyncio.Future[Any]] = [self._ready, *self._calls.values()]
        for waiter in everyone:
            if not waiter.done():
                waiter.set_exception(error)
        self._has_news.set()
        if self._ready.done() and not self._ready.cancelled():
            self._ready.exception()  # somebody may have stopped waiting: it is no surprise to the loop
        if self._process is not None:
            self._process.kill()
            self._process = None


_CLOSE_S = 10.0
"""A server that does not end by itself is killed by the program that talks to it, within a few seconds."""
_CLOSED = "Connection closed"
"""What the client says of a server that ended."""
