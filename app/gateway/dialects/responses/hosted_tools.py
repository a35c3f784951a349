"""The tools of a request that are run here: which a program may use, how the model is offered them, and their calls.

A program may use the servers that the setting `responses.mcp_servers` names. Which of their tools are called without an
approval is for both to say: the person by allowing a tool, the program by not asking for one.
"""

import asyncio
import logging
from collections.abc import Collection, Sequence

import msgspec
from aiohttp import web

from app.core.errors import BadRequest, Forbidden, NotFound, RoundhouseError, quote_value
from app.core.mcp import McpPermission, McpResult, McpTool
from app.gateway.canonical.request import ToolDefinition
from app.gateway.dialects.openai.store_search import StoreQuery, find_store, search_record
from app.gateway.dialects.responses.hosted_input import SEARCH_FUNCTION
from app.gateway.dialects.responses.hosted_specs import FileSearchSpec, McpToolSpec, ToolRunSpecs
from app.gateway.dialects.responses.tools import ClientToolKind, OfferEntry, ResponseTool, invalid_tools
from app.gateway.dialects.responses.wire import FileSearchResult
from app.gateway.documents.records import CollectionRecord
from app.gateway.mcp.model_tools import ModelCall, ModelTools
from app.gateway.mcp.servers import MCP_SERVERS, McpServers
from app.gateway.services import SERVICES

log = logging.getLogger(__name__)

SERVERS_SETTING = "responses.mcp_servers"
_SEARCH_TOOL = ToolDefinition(
    name=SEARCH_FUNCTION,
    description="Search the documents that belong to this conversation for passages that answer a question.",
    parameters=msgspec.Raw(
        b'{"type":"object","properties":{"queries":{"type":"array","items":{"type":"string"},"minItems":1,'
        b'"description":"What to look for, in the words that the documents may use."}},"required":["queries"]}'
    ),
)
_SEARCH_ENTRY = OfferEntry(_SEARCH_TOOL, ResponseTool(kind=ClientToolKind.FILE_SEARCH, name=SEARCH_FUNCTION))


class SearchArguments(msgspec.Struct, frozen=True):
    """What a model looks for."""

    queries: list[str]


class ToolRuns:
    """The tools of one request. `function_names` are those of the client's own functions."""

    def __init__(
        self,
        request: web.Request,
        specs: ToolRunSpecs,
        records: Sequence[CollectionRecord],
        function_names: Collection[str],
    ) -> None:
        self._request, self.specs, self._records = request, specs, records
        self._mcp: McpServers = request.app[MCP_SERVERS]
        self._model_tools = ModelTools(self._mcp, function_names)
        self._tools: dict[str, list[McpTool]] = {}

    @property
    def server_labels(self) -> list[str]:
        """The servers, by their labels."""
        return [spec.server_label for spec in self.specs.servers]

    async def list_server(self, label: str) -> list[McpTool]:
        """Return the tools of a server that the model is offered, as they are described now.

        Raises what `McpServers.list_tools` does; then it is offered none.
        """
        spec = self._spec_of(label)
        self._tools[label] = []
        tools = await self._mcp.list_tools(label)
        self._tools[label] = [tool for tool in tools if _is_offered(tool, spec)]
        return self._tools[label]

    async def list_all(self) -> None:
        """List every server; those that cannot be started have no tools."""
        results = await asyncio.gather(*map(self.list_server, self.server_labels), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, RoundhouseError):
                raise result

    def offer_entries(self) -> list[OfferEntry]:
        """Return the functions that the model is offered for the tools that were listed."""
        tools = [tool for server_tools in self._tools.values() for tool in server_tools]
        offered_tools = [
            OfferEntry(definition, self._client_tool(definition.name))
            for definition in self._model_tools.offer_tools(tools)
        ]
        return [*offered_tools, _SEARCH_ENTRY] if self.specs.search is not None else offered_tools

    def read_call(self, label: str, name: str, arguments: str) -> ModelCall:
        """Return a call of a listed tool. Raises NotFound or BadRequest for one that cannot be made."""
        tool = next((tool for tool in self._tools.get(label, ()) if tool.about.name == name), None)
        if tool is None:
            raise NotFound(f"There is no tool {quote_value(name)} of {quote_value(label)}.", code="tool_not_found")
        call = self._model_tools.read_call(tool, arguments)
        if not _is_offered(call.tool, self._spec_of(label)):
            raise Forbidden(f"{quote_value(name)} is blocked.", code="tool_not_found")
        return call

    def needs_approval(self, tool: McpTool) -> bool:
        """Tell whether a call is to be approved: the person has not allowed the tool, or the program asks for it."""
        return tool.permission is not McpPermission.ALLOW or self._spec_of(tool.server).needs_approval(tool.about)

    async def make_call(self, call: ModelCall) -> McpResult:
        """Return what comes of a call; of one that fails, why."""
        return await self._model_tools.make_call(call)

    async def search_stores(self, queries: Sequence[str]) -> list[FileSearchResult]:
        """Return the best passages of the stores. Raises StorageFault."""
        spec = self.specs.search
        assert spec is not None  # noqa: S101 -- for the type checker: only then is the model offered a search
        query = StoreQuery(text="\n".join(queries), count=spec.most_results, filters=spec.filters)
        results = [result for record in self._records for result in await search_record(self._request, record, query)]
        best = sorted(results, key=lambda result: -result.score)[: spec.most_results]
        return [
            FileSearchResult(
                file_id=result.file_id,
                filename=result.filename,
                score=result.score,
                text="\n".join(part.text for part in result.content),
                attributes=result.attributes,
            )
            for result in best
            if result.score >= spec.least_score
        ]

    def _spec_of(self, label: str) -> McpToolSpec:
        spec = self.specs.find_server(label)
        assert spec is not None  # noqa: S101 -- for the type checker: labels come from the specs
        return spec

    def _client_tool(self, function: str) -> ResponseTool:
        tool = self._model_tools.find_tool(function)
        assert tool is not None  # noqa: S101 -- for the type checker: it was just offered
        return ResponseTool(kind=ClientToolKind.MCP, name=tool.about.name, namespace=tool.server)


async def open_hosted_tools(request: web.Request, specs: ToolRunSpecs, function_names: Collection[str]) -> ToolRuns:
    """Return the tools of a request that are run here.

    Raises Forbidden, NotFound or BadRequest for a server or a store that whoever asks may not use.
    """
    for spec in specs.servers:
        await _check_server(request, spec)
    records = [] if specs.search is None else await _find_records(request, specs.search)
    if specs.search is not None and SEARCH_FUNCTION in function_names:
        raise invalid_tools(f"A function is called {SEARCH_FUNCTION}, as the tool is: give it another name.")
    return ToolRuns(request, specs, records, function_names)


async def _check_server(request: web.Request, spec: McpToolSpec) -> None:
    label, served_names = spec.server_label, request.app[SERVICES].settings.get_list(SERVERS_SETTING)
    if label not in served_names:
        raise Forbidden(
            f"Programs may not use the MCP server {quote_value(label)} here."
            if served_names
            else "Programs may use no MCP servers here.",
            hint=f"A person sets it up (`roundhouse mcp add`) and names it in the setting {SERVERS_SETTING}.",
            code="mcp_server_not_served",
        )
    server = await request.app[MCP_SERVERS].read_server(label)
    if spec.server_url is not None and spec.server_url.rstrip("/") != server.url.rstrip("/"):
        raise BadRequest(
            f"`server_url` is not the address that was set up for the MCP server {quote_value(label)}.",
            hint="Leave it out: the server is known by its label.",
            code="mcp_server_url",
        )


async def _find_records(request: web.Request, spec: FileSearchSpec) -> list[CollectionRecord]:
    return [await find_store(request, store) for store in dict.fromkeys(spec.vector_store_ids)]


def _is_offered(tool: McpTool, spec: McpToolSpec) -> bool:
    return tool.permission is not McpPermission.BLOCK and spec.is_offered(tool.about)
