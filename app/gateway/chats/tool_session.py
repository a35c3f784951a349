"""The tools of one answer: what is offered to the model, whom a call needs to be allowed by, and what comes of it.

Every call is in the answer before it is made. One that nobody allowed waits for a person, as long as that takes; what a
tool returns is text for the model, and calls nothing by itself.
"""

import asyncio
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from app.core.chats import Chat
from app.core.errors import NotFound, RoundhouseError
from app.core.mcp import McpPermission, McpTool, tools_by_function
from app.core.tool_calls import AnswerToolCall, ChatToolPermission, ToolCallState, ToolDecision
from app.gateway.canonical.request import ToolCall, ToolDefinition
from app.gateway.chats.live_answer import LiveAnswer
from app.gateway.mcp.servers import McpServers
from app.store.database import ChatStore
from app.store.rows import new_id

_LEFT = {ToolDecision.ALWAYS: McpPermission.ALLOW, ToolDecision.NEVER: McpPermission.BLOCK}
_ALLOWING = frozenset({ToolDecision.ONCE, ToolDecision.ALWAYS})


class ToolSession:
    """The tools that one answer may call. Belongs to the event loop."""

    def __init__(self, mcp: McpServers, chats: ChatStore, chat: Chat, live: LiveAnswer) -> None:
        self._mcp, self._chats, self._live = mcp, chats, live
        self._chat, self._tools = chat.id, chat.tools
        self._functions: dict[str, McpTool] = {}
        self._round = max((call.round for call in live.calls.values()), default=0)
        self._failed: set[str] = set()

    async def list_definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the tools as a request names them, as their servers describe them now.

        A server that cannot be started is told in the answer, once, and the others go on.
        """
        servers = [server for server in self._tools.servers if server not in self._failed]
        if any(not self._mcp.is_ready(server) for server in servers):
            self._live.report_progress("Starting the tools")
        lists = await asyncio.gather(*map(self._list_tools, servers))
        self._functions = tools_by_function(tool for tools in lists for tool in tools if self._is_offered(tool))
        return tuple(
            ToolDefinition(
                name=name,
                description=tool.about.description,
                parameters=msgspec.Raw(msgspec.json.encode(tool.about.schema)),
            )
            for name, tool in self._functions.items()
        )

    async def answer_calls(self, calls: Sequence[ToolCall]) -> None:
        """Make the calls that are allowed, one after the other; what comes of them is in the answer."""
        self._round += 1
        for call in calls:
            await self._answer_call(call)
        self._live.begin_round()

    async def _list_tools(self, server: str) -> list[McpTool]:
        try:
            return await self._mcp.list_tools(server)
        except RoundhouseError as error:
            self._failed.add(server)
            failure = self._new_call(server=server, state=ToolCallState.FAILED, result=f"{error} {error.hint}".strip())
            self._live.note_call(failure)
            return []

    def _is_offered(self, tool: McpTool) -> bool:
        if tool.permission is McpPermission.BLOCK:
            return False
        here = self._tools.permission_of(tool.server, tool.about.name)
        return here is None or here.permission is not McpPermission.BLOCK

    async def _answer_call(self, wish: ToolCall) -> None:
        offered = self._functions.get(wish.name)
        if offered is None:
            failure = f"There is no tool {wish.name!r}."
            call = self._new_call(tool=wish.name, arguments=wish.arguments, state=ToolCallState.FAILED, result=failure)
            self._live.note_call(call)
            return
        server, name = offered.server, offered.about.name
        call = self._new_call(server=server, tool=name, arguments=wish.arguments)
        try:
            arguments = msgspec.json.decode(wish.arguments or "{}", type=dict[str, object])
            tool = self._mcp.read_tool(server, name)
        except (msgspec.MsgspecError, NotFound) as error:
            is_json = isinstance(error, NotFound)
            failure = str(error) if is_json else f"The arguments are no JSON object: {error}"
            self._live.note_call(replace(call, state=ToolCallState.FAILED, result=failure))
            return
        has_changed = tool.has_changed or self._has_changed_here(tool)
        call = replace(
            call, title=tool.about.title, has_changed=has_changed, is_read_only=tool.about.is_read_only
        )  # fmt: skip
        if not self._is_allowed(tool) and not await self._ask_person(call, tool):
            self._live.note_call(replace(call, state=ToolCallState.REFUSED))
            return
        await self._make_call(call, arguments)

    def _has_changed_here(self, tool: McpTool) -> bool:
        here = self._tools.permission_of(tool.server, tool.about.name)
        return here is not None and here.fingerprint != tool.about.fingerprint

    def _is_allowed(self, tool: McpTool) -> bool:
        if tool.permission is McpPermission.ALLOW:
            return True
        here = self._tools.permission_of(tool.server, tool.about.name)
        return here is not None and here.permission is McpPermission.ALLOW and not self._has_changed_here(tool)

    async def _ask_person(self, call: AnswerToolCall, tool: McpTool) -> bool:
        decision = await self._live.wait_for_decision(call)
        permission = _LEFT.get(decision)
        if permission is not None:
            kept = ChatToolPermission(
                server=call.server, tool=call.tool, permission=permission, fingerprint=tool.about.fingerprint
            )
            self._tools = self._tools.with_permission(kept)
            await self._chats.set_tool_permission(self._chat, kept)
        return decision in _ALLOWING

    async def _make_call(self, call: AnswerToolCall, arguments: dict[str, object]) -> None:
        self._live.note_call(replace(call, state=ToolCallState.RUNNING))
        try:
            result = await self._mcp.call_tool(call.server, call.tool, arguments)
        except RoundhouseError as error:
            failure = f"{error} {error.hint}".strip()
            self._live.note_call(replace(call, state=ToolCallState.FAILED, result=failure))
            return
        state = ToolCallState.FAILED if result.is_error else ToolCallState.ANSWERED
        self._live.note_call(replace(call, state=state, result=result.text, seconds=result.seconds))

    def _new_call(
        self,
        *,
        server: str = "",
        tool: str = "",
        arguments: str = "",
        state: ToolCallState = ToolCallState.WAITING,
        result: str = "",
    ) -> AnswerToolCall:
        return AnswerToolCall(
            id=new_id(),
            round=self._round,
            at=len(self._live.content),
            reasoning_at=len(self._live.reasoning),
            server=server,
            tool=tool,
            arguments=arguments,
            state=state,
            result=result,
        )
