"""Tools of a request that are run here: those of MCP servers (`mcp`), and the search of vector stores (`file_search`).

A program names servers that a person has set up and let programs use. It brings neither addresses nor keys of its own:
what a server is called with is the person's to choose.
"""

import hashlib
import secrets
from collections.abc import Collection, Iterable, Sequence
from typing import Annotated, Literal

import msgspec

from app.core.documents import MOST_PASSAGES
from app.core.errors import BadRequest, quote_value
from app.core.mcp import McpToolDescription
from app.gateway.dialects.openai.store_search import AttributeFilter, check_filter
from app.gateway.dialects.responses.tools import ClientToolKind, decode_tool, invalid_tools

_MOST_STORES = 16
_FOUND_UNASKED = 8
"""Passages of a search whose request does not say how many: more rarely help, and each costs context."""
_RANDOM_BYTES, _MARK_LETTERS = 20, 16


class ToolFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Tools of a server: by their names, or by what the server says of whether they change anything."""

    tool_names: list[str] | None = None
    read_only: bool | None = None

    def includes_tool(self, tool: McpToolDescription) -> bool:
        """Tell whether a tool is among them."""
        is_named = self.tool_names is None or tool.name in self.tool_names
        return is_named and (self.read_only is None or tool.is_read_only is self.read_only)


class ApprovalFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which tools are approved before each call. What neither part names is."""

    always: ToolFilter | None = None
    never: ToolFilter | None = None


class McpToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A server whose tools a request offers."""

    server_label: str = ""
    server_url: str | None = None
    connector_id: str | None = None
    tunnel_id: str | None = None
    authorization: str | None = None
    headers: dict[str, str] | None = None
    allowed_tools: list[str] | ToolFilter | None = None
    require_approval: Literal["always", "never"] | ApprovalFilter | None = None

    def is_offered(self, tool: McpToolDescription) -> bool:
        """Tell whether the request lets the model call a tool."""
        if isinstance(self.allowed_tools, list):
            return tool.name in self.allowed_tools
        return self.allowed_tools is None or self.allowed_tools.includes_tool(tool)

    def needs_approval(self, tool: McpToolDescription) -> bool:
        """Tell whether the request wants to approve each call of a tool."""
        approval = self.require_approval
        if not isinstance(approval, ApprovalFilter):
            return approval != "never"
        is_always = approval.always is not None and approval.always.includes_tool(tool)
        return is_always or approval.never is None or not approval.never.includes_tool(tool)


class RankingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How passages are ranked; all but the threshold changes nothing here."""

    score_threshold: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None


class FileSearchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The vector stores that a model may search."""

    vector_store_ids: Annotated[list[str], msgspec.Meta(min_length=1, max_length=_MOST_STORES)]
    max_num_results: Annotated[int, msgspec.Meta(ge=1, le=MOST_PASSAGES)] | None = None
    filters: AttributeFilter | None = None
    ranking_options: RankingOptions | None = None

    @property
    def most_results(self) -> int:
        """How many passages a search returns at most."""
        return self.max_num_results or _FOUND_UNASKED

    @property
    def least_score(self) -> float:
        """The least score of a passage."""
        return (self.ranking_options and self.ranking_options.score_threshold) or 0.0


class ToolRunSpecs(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of a request that are run here."""

    servers: tuple[McpToolSpec, ...] = ()
    search: FileSearchSpec | None = None

    def __bool__(self) -> bool:
        """Tell whether there are some."""
        return bool(self.servers) or self.search is not None

    def find_server(self, label: str) -> McpToolSpec | None:
        """Return the server of a label."""
        return next((server for server in self.servers if server.server_label == label), None)


NO_HOSTED_TOOLS = ToolRunSpecs()


class _Kind(msgspec.Struct, frozen=True):
    type: str


def read_hosted_specs(tools: Iterable[msgspec.Raw]) -> ToolRunSpecs:
    """Return the tools that are run here. Raises BadRequest (invalid_tools, unsupported_parameter)."""
    servers: list[McpToolSpec] = []
    search: FileSearchSpec | None = None
    for at, raw in enumerate(tools):
        field = f"tools[{at}]"
        kind = decode_tool(raw, _Kind, field).type
        if kind == ClientToolKind.MCP:
            servers.append(_check_server(decode_tool(raw, McpToolSpec, field), field, servers))
        elif kind == ClientToolKind.FILE_SEARCH:
            if search is not None:
                raise invalid_tools(f"`{field}`: one file_search is enough; name all its vector stores in one.")
            search = decode_tool(raw, FileSearchSpec, field)
            if search.filters is not None:
                check_filter(search.filters)
    return ToolRunSpecs(servers=tuple(servers), search=search) if servers or search else NO_HOSTED_TOOLS


def _check_server(spec: McpToolSpec, field: str, others: Sequence[McpToolSpec]) -> McpToolSpec:
    if not spec.server_label:
        raise invalid_tools(f"`{field}.server_label` is missing: it is the name of an MCP server in Roundhouse.")
    if any(other.server_label == spec.server_label for other in others):
        raise invalid_tools(f"`{field}.server_label`: {quote_value(spec.server_label)} is there twice.")
    for name in ("connector_id", "tunnel_id", "authorization", "headers"):
        if getattr(spec, name):
            raise BadRequest(
                f"`{field}.{name}`: an MCP server is called here with what was set up for it, and nothing else.",
                hint="Leave it out, and give the server what it needs in Roundhouse (`roundhouse mcp add`).",
                code="unsupported_parameter",
            )
    return spec


def new_approval_id(call: Sequence[str], fingerprint: str) -> str:
    """Return the id of a request to approve a call: its server, tool and arguments, as the tool is described now."""
    random_part = secrets.token_hex(_RANDOM_BYTES)
    return f"mcpr_{random_part}{_mark(random_part, call, fingerprint)}"


def is_approval_of(request_id: str, call: Sequence[str], fingerprint: str) -> bool:
    """Tell whether an approval is for this very call of a tool that is described as it was then."""
    random_part = request_id.removeprefix("mcpr_")[: 2 * _RANDOM_BYTES]
    return request_id == f"mcpr_{random_part}{_mark(random_part, call, fingerprint)}"


def _mark(random_part: str, call: Collection[str], fingerprint: str) -> str:
    return hashlib.sha256(msgspec.json.encode([random_part, *call, fingerprint])).hexdigest()[:_MARK_LETTERS]
