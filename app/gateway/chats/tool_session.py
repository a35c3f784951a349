"""The tools of one answer: what is offered to the model, whom a call needs to be allowed by, and what comes of it.

Every call is in the answer before it is made. One that nobody allowed waits for a person, as long as that takes; what a
tool returns is text for the model, and calls nothing by itself.
"""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from app.core.attachments import MOST_ATTACHMENTS
from app.core.chats import Chat
from app.core.errors import BadRequest, NotFound, RoundhouseError
from app.core.mcp import BuiltinServer, McpPermission, McpResult, McpTool
from app.core.tool_calls import AnswerToolCall, ChatToolPermission, ToolCallState, ToolDecision
from app.gateway.canonical.request import ToolCall, ToolDefinition
from app.gateway.chats.live_answer import LiveAnswer
from app.gateway.chats.pictures import Drawing, PictureDrawer
from app.gateway.mcp.model_tools import ModelCall, ModelTools
from app.gateway.mcp.servers import McpServers
from app.store.database import ChatStore
from app.store.rows import new_id

_LEFT = {ToolDecision.ALWAYS: McpPermission.ALLOW, ToolDecision.NEVER: McpPermission.BLOCK}
_ALLOWING = frozenset({ToolDecision.ONCE, ToolDecision.ALWAYS})


class ToolSession:
    """The tools that one answer may call. Belongs to the event loop."""

    def __init__(
        self, mcp: McpServers, chats: ChatStore, chat: Chat, live: LiveAnswer, drawer: PictureDrawer | None
    ) -> None:
        self._mcp, self._chats, self._live, self._drawer = mcp, chats, live, drawer
        self._chat, self._tools = chat.id, chat.tools
        self._model_tools = ModelTools(mcp)
        self._round = max((call.round for call in live.calls.values()), default=0)
        self._failed_servers: set[str] = set()

    async def list_definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the tools as a request names them, as their servers describe them now.

        A server that cannot be started is told in the answer, once, and the others go on.
        """
        servers = [server for server in self._tools.servers if server not in self._failed_servers]
        if any(not self._mcp.is_ready(server) for server in servers):
            self._live.report_progress("Starting the tools")
        lists = await asyncio.gather(*map(self._list_tools, servers))
        return self._model_tools.offer_tools(tool for tools in lists for tool in tools if self._is_offered(tool))

    async def answer_calls(self, calls: Sequence[ToolCall]) -> bool:
        """Make the calls that are allowed, one after the other; what comes of them is in the answer, which goes on."""
        self._round += 1
        for call in calls:
            await self._answer_call(call)
        self._live.begin_round()
        return True

    async def _list_tools(self, server: str) -> list[McpTool]:
        try:
            return await self._mcp.list_tools(server)
        except RoundhouseError as error:
            self._failed_servers.add(server)
            failure = self._new_call(server=server, state=ToolCallState.FAILED, result=f"{error} {error.hint}".strip())
            self._live.note_call(failure)
            return []

    def _is_offered(self, tool: McpTool) -> bool:
        if tool.permission is McpPermission.BLOCK:
            return False
        here = self._tools.permission_of(tool.server, tool.about.name)
        return here is None or here.permission is not McpPermission.BLOCK

    async def _answer_call(self, wish: ToolCall) -> None:
        offered_tool = self._model_tools.find_tool(wish.name)
        if offered_tool is None:
            failure = f"There is no tool {wish.name!r}."
            call = self._new_call(tool=wish.name, arguments=wish.arguments, state=ToolCallState.FAILED, result=failure)
            self._live.note_call(call)
            return
        server, name = offered_tool.server, offered_tool.about.name
        call = self._new_call(server=server, tool=name, arguments=wish.arguments)
        try:
            model_call = self._model_tools.read_call(offered_tool, wish.arguments)
        except (BadRequest, NotFound) as error:
            self._live.note_call(replace(call, state=ToolCallState.FAILED, result=str(error)))
            return
        tool = model_call.tool
        has_changed = tool.has_changed or self._has_changed_here(tool)
        call = replace(
            call, title=tool.about.title, has_changed=has_changed, is_read_only=tool.about.is_read_only
        )  # fmt: skip
        if not self._is_allowed(tool) and not await self._ask_person(call, tool):
            self._live.note_call(replace(call, state=ToolCallState.REFUSED))
            return
        await self._make_call(call, model_call)

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
            kept_permission = ChatToolPermission(
                server=call.server, tool=call.tool, permission=permission, fingerprint=tool.about.fingerprint
            )
            self._tools = self._tools.with_permission(kept_permission)
            await self._chats.set_tool_permission(self._chat, kept_permission)
        return decision in _ALLOWING

    async def _make_call(self, call: AnswerToolCall, model_call: ModelCall) -> None:
        self._live.note_call(replace(call, state=ToolCallState.RUNNING))
        result, picture = await self._carry_out(model_call)
        state = ToolCallState.FAILED if result.is_error else ToolCallState.ANSWERED
        if picture is not None:
            self._live.attachments.append(picture)
            call = replace(call, files=[picture.hash])
        self._live.note_call(replace(call, state=state, result=result.text, seconds=result.seconds))

    async def _carry_out(self, call: ModelCall) -> Drawing:
        if self._drawer is None or not self._mcp.is_builtin(call.tool.server, BuiltinServer.PICTURES):
            return Drawing(await self._model_tools.make_call(call))
        if len(self._live.attachments) >= MOST_ATTACHMENTS:
            return Drawing(McpResult(text=f"An answer has {MOST_ATTACHMENTS} pictures at most.", is_error=True))
        return await self._drawer.draw(self._live.message.id, call.arguments)

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
