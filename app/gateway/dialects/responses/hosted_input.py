"""Items of tools that were run here, as a conversation brings them back: calls, approvals, and what searches came to.

Each search's passages are numbered on from the one before, so that an answer can cite what any of them came to.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from app.core.documents import AnswerSource, quote_passages
from app.core.mcp import function_name
from app.core.tool_calls import REFUSED_CALL
from app.gateway.canonical.request import ConversationMessage, MessageRole, ToolCall, ToolResult
from app.gateway.dialects.responses.wire import FileSearchResult
from app.gateway.mcp.model_tools import cut_result

SEARCH_FUNCTION = "file_search"
_NOTHING_KEPT = "What this search came to was not kept."
_NO_PASSAGES = "Nothing was found. Other words may find more."


class McpListInput(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that a server listed."""

    server_label: str
    tools: list[Any] = []


class McpCallInput(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was made."""

    id: str
    server_label: str
    name: str
    arguments: str
    output: str | None = None
    error: Any = None
    approval_request_id: str | None = None

    def read_turns(self, longest: int) -> tuple[ConversationMessage, ...]:
        """Return the call and its result."""
        is_error = self.error is not None
        text = (_error_text(self.error) if is_error else self.output) or "The tool returned nothing."
        call = ToolCall(id=self.id, name=function_name(self.server_label, self.name), arguments=self.arguments or "{}")
        return call_turns(call, cut_result(text, longest), is_error=is_error)


class ApprovalRequestInput(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waited for an approval."""

    id: str
    server_label: str
    name: str
    arguments: str


class ApprovalResponseInput(msgspec.Struct, frozen=True, kw_only=True):
    """What was said to such a call."""

    approval_request_id: str
    approve: bool
    reason: str | None = None

    def read_refusal(self, request: ApprovalRequestInput) -> tuple[ConversationMessage, ...]:
        """Return the call and that it was refused; nothing if it was approved, since what came of it follows."""
        if self.approve:
            return ()
        name = function_name(request.server_label, request.name)
        call = ToolCall(id=request.id, name=name, arguments=request.arguments or "{}")
        return call_turns(call, f"{REFUSED_CALL} {self.reason or ''}".strip())


class FileSearchInput(msgspec.Struct, frozen=True, kw_only=True):
    """A search that was made."""

    id: str = ""
    queries: list[str] = []
    results: list[FileSearchResult] | None = None

    def read_turns(self, first_number: int, longest: int) -> tuple[ConversationMessage, ...]:
        """Return the call and the passages, numbered from `first_number` on, as many as fit."""
        arguments = msgspec.json.encode({"queries": self.queries}).decode()
        call = ToolCall(id=self.id or SEARCH_FUNCTION, name=SEARCH_FUNCTION, arguments=arguments)
        return call_turns(call, _quote_results(self.results, first_number, longest))


def call_turns(call: ToolCall, text: str, *, is_error: bool = False) -> tuple[ConversationMessage, ...]:
    """Return a call and its result as two turns."""
    result = ToolResult(call_id=call.id, text=text, name=call.name, is_error=is_error)
    return (
        ConversationMessage(MessageRole.ASSISTANT, (call,)),
        ConversationMessage(MessageRole.TOOL, (result,)),
    )


def _quote_results(results: Sequence[FileSearchResult] | None, first_number: int, longest: int) -> str:
    if results is None:
        return _NOTHING_KEPT
    sources = list(_sources_that_fit(results, first_number, longest))
    return quote_passages(sources) if sources else _NO_PASSAGES


def _sources_that_fit(results: Iterable[FileSearchResult], first_number: int, longest: int) -> Iterator[AnswerSource]:
    room = longest
    for number, result in enumerate(results, first_number):
        if number > first_number and len(result.text) > room:
            return
        room -= len(result.text)
        text = cut_result(result.text, longest)
        yield AnswerSource(
            number=number, file=result.file_id, path=result.filename, text=text, start=0, end=len(result.text)
        )


def _error_text(error: object) -> str:
    """Return what an error says, in each of its forms."""
    if isinstance(error, dict):
        content = error.get("content", error.get("message"))
        if isinstance(content, list):
            texts = (part.get("text") for part in content if isinstance(part, dict))
            return " ".join(text for text in texts if isinstance(text, str))
        return content if isinstance(content, str) else str(error)
    return str(error)
