"""The items of tools that are run here, while they are made.

    list of tools   item added, in progress, completed | failed, item done
    MCP call        item added, in progress, arguments delta, arguments done, completed | failed, item done
    approval        item added, item done
    file search     item added, in progress, searching, completed, item done

The arguments of a call come in one piece: it is made once they are whole.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from app.core.mcp import McpResult, McpTool
from app.gateway.dialects.responses.output_items import ItemPosition, ResponseEventWriter
from app.gateway.dialects.responses.wire import (
    FileSearchItem,
    FileSearchResult,
    HostedItem,
    ItemStatus,
    McpApprovalItem,
    McpCallError,
    McpCallItem,
    McpListedTool,
    McpListItem,
)


class McpWish(msgspec.Struct, frozen=True, kw_only=True):
    """A call of an MCP server's tool that a model asks for, and the approval that lets it be made."""

    server_label: str
    name: str
    arguments: str
    approval_request_id: str | None = None

    @property
    def approval_content(self) -> tuple[str, str, str]:
        """What an approval is for."""
        return (self.server_label, self.name, self.arguments)


class _ToolItemWriter:
    """What the items have in common."""

    def __init__(self, place: ItemPosition) -> None:
        self.place = place

    def item(self, status: ItemStatus) -> HostedItem:
        """Return the item as far as it is made."""
        raise NotImplementedError

    def _item_event(self, sink: ResponseEventWriter, step: str, status: ItemStatus) -> bytes:
        return sink.encode_event(
            f"response.output_item.{step}", output_index=self.place.output_index, item=self.item(status)
        )

    def _place_event(self, sink: ResponseEventWriter, kind: str, **fields: object) -> bytes:
        return sink.encode_event(f"response.{kind}", **msgspec.structs.asdict(self.place), **fields)


class McpListWriter(_ToolItemWriter):
    """The tools of a server."""

    def __init__(self, place: ItemPosition, server_label: str) -> None:
        super().__init__(place)
        self._server_label = server_label
        self.tools: Sequence[McpTool] = ()
        self.error: str | None = None

    def open(self, sink: ResponseEventWriter) -> bytes:
        """Return what announces it."""
        return self._item_event(sink, "added", "in_progress") + self._place_event(sink, "mcp_list_tools.in_progress")

    def close(self, sink: ResponseEventWriter, status: ItemStatus) -> bytes:
        """Return what ends it."""
        outcome = "failed" if self.error else "completed"
        return self._place_event(sink, f"mcp_list_tools.{outcome}") + self._item_event(sink, "done", status)

    def item(self, status: ItemStatus) -> McpListItem:
        """Return the item as far as it is made."""
        del status  # it has none
        return McpListItem(
            id=self.place.item_id,
            server_label=self._server_label,
            tools=describe_tools(self.tools),
            error=self.error,
        )


class McpCallWriter(_ToolItemWriter):
    """A call of an MCP server's tool."""

    def __init__(self, place: ItemPosition, wish: McpWish) -> None:
        super().__init__(place)
        self._wish = wish
        self.result: McpResult | None = None

    def open(self, sink: ResponseEventWriter) -> bytes:
        """Return what announces it."""
        arguments = self._wish.arguments
        return (
            self._item_event(sink, "added", "in_progress")
            + self._place_event(sink, "mcp_call.in_progress")
            + self._place_event(sink, "mcp_call_arguments.delta", delta=arguments)
            + self._place_event(sink, "mcp_call_arguments.done", arguments=arguments)
        )

    def close(self, sink: ResponseEventWriter, status: ItemStatus) -> bytes:
        """Return what ends it."""
        outcome = "failed" if self.result is not None and self.result.is_error else "completed"
        return self._place_event(sink, f"mcp_call.{outcome}") + self._item_event(sink, "done", status)

    def item(self, status: ItemStatus) -> McpCallItem:
        """Return the item as far as it is made."""
        result, error = self.result, None
        if result is not None and result.is_error:
            error = McpCallError(content=[{"type": "text", "text": result.text}])
        return McpCallItem(
            id=self.place.item_id,
            server_label=self._wish.server_label,
            name=self._wish.name,
            arguments=self._wish.arguments,
            status="failed" if error else status,
            output=None if result is None or error else result.text,
            error=error,
            approval_request_id=self._wish.approval_request_id,
        )


class McpApprovalWriter(_ToolItemWriter):
    """A call that waits for an approval."""

    def __init__(self, place: ItemPosition, wish: McpWish) -> None:
        super().__init__(place)
        self._wish = wish

    def open(self, sink: ResponseEventWriter) -> bytes:
        """Return what announces it."""
        return self._item_event(sink, "added", "in_progress")

    def close(self, sink: ResponseEventWriter, status: ItemStatus) -> bytes:
        """Return what ends it."""
        return self._item_event(sink, "done", status)

    def item(self, status: ItemStatus) -> McpApprovalItem:
        """Return the item."""
        del status  # it has none
        server_label, name, arguments = self._wish.approval_content
        return McpApprovalItem(id=self.place.item_id, server_label=server_label, name=name, arguments=arguments)


class FileSearchWriter(_ToolItemWriter):
    """A search of vector stores. Its events and the item hold the results only where `tells_results`."""

    def __init__(self, place: ItemPosition, queries: Sequence[str], *, tells_results: bool) -> None:
        super().__init__(place)
        self._queries, self._tells_results = queries, tells_results
        self.results: list[FileSearchResult] | None = None
        self.has_failed = False

    def open(self, sink: ResponseEventWriter) -> bytes:
        """Return what announces it."""
        return (
            self._item_event(sink, "added", "in_progress")
            + self._place_event(sink, "file_search_call.in_progress")
            + self._place_event(sink, "file_search_call.searching")
        )

    def close(self, sink: ResponseEventWriter, status: ItemStatus) -> bytes:
        """Return what ends it."""
        end = b"" if self.has_failed else self._place_event(sink, "file_search_call.completed")
        return end + self._item_event(sink, "done", status)

    def item(self, status: ItemStatus) -> FileSearchItem:
        """Return the item as far as it is made."""
        item = self.whole_item(status)
        return item if self._tells_results else msgspec.structs.replace(item, results=None)

    def whole_item(self, status: ItemStatus) -> FileSearchItem:
        """Return the item with its results, which the model is given, and which are kept."""
        outcome: Literal["in_progress", "completed", "incomplete", "failed"] = "failed" if self.has_failed else status
        return FileSearchItem(id=self.place.item_id, queries=list(self._queries), status=outcome, results=self.results)


def describe_tools(tools: Sequence[McpTool]) -> list[McpListedTool]:
    """Return tools as their list tells of them."""
    return [
        McpListedTool(
            name=tool.about.name,
            description=tool.about.description,
            input_schema=tool.about.schema,
            annotations={"title": tool.about.title or None, "readOnlyHint": tool.about.is_read_only},
        )
        for tool in tools
    ]
