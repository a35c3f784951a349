"""The response object and its items, as OpenAI's clients read them: every key is always there.

Sampling that a request leaves open is the engine's and the model's choice. The dialect wants a figure all the same, and
there it is OpenAI's default.
"""

from typing import Any, Literal

import msgspec

from app.gateway.canonical.events import TokenAlternative, TokenLogprob, TokenUsage
from app.gateway.dialects.responses.requests import ResponsesRequest, ResponseTextFormat
from app.gateway.dialects.responses.tools import ToolOffer

UNSET = msgspec.UNSET


class ResponseLogprob(msgspec.Struct, frozen=True, kw_only=True):
    """A token and its log probability."""

    token: str
    logprob: float
    bytes: tuple[int, ...]


class ResponseTopLogprob(ResponseLogprob, frozen=True, kw_only=True):
    """A token that was written, and what else could have been."""

    top_logprobs: list[ResponseLogprob]


class FileCitation(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message cites a file. `index` is in characters."""

    file_id: str
    filename: str
    index: int
    type: str = "file_citation"


class OutputText(msgspec.Struct, frozen=True, kw_only=True):
    """What a message says."""

    text: str
    logprobs: list[ResponseTopLogprob]
    type: str = "output_text"
    annotations: list[FileCitation] = []


class ReasoningText(msgspec.Struct, frozen=True):
    """A piece of reasoning: `type` is reasoning_text or summary_text."""

    type: str
    text: str


ItemStatus = Literal["in_progress", "completed", "incomplete"]


class MessageItem(msgspec.Struct, frozen=True, kw_only=True):
    """What the model says."""

    id: str
    status: ItemStatus
    content: list[OutputText]
    type: str = "message"
    role: str = "assistant"


class ReasoningItem(msgspec.Struct, frozen=True, kw_only=True):
    """What the model thought."""

    id: str
    status: ItemStatus
    summary: list[ReasoningText]
    content: list[ReasoningText]
    encrypted_content: str | msgspec.UnsetType = UNSET
    type: str = "reasoning"


class FunctionCallItem(msgspec.Struct, frozen=True, kw_only=True):
    """A function the model wants called."""

    id: str
    call_id: str
    name: str
    arguments: str
    status: ItemStatus
    namespace: str | msgspec.UnsetType = UNSET
    type: str = "function_call"


class CustomCallItem(msgspec.Struct, frozen=True, kw_only=True):
    """A custom tool the model wants called."""

    id: str
    call_id: str
    name: str
    input: str
    status: ItemStatus
    namespace: str | msgspec.UnsetType = UNSET
    type: str = "custom_tool_call"


class ShellAction(msgspec.Struct, frozen=True, kw_only=True):
    """A command."""

    command: list[str]
    env: dict[str, str] = {}
    timeout_ms: int | None = None
    user: str | None = None
    working_directory: str | None = None
    type: str = "exec"


class ShellCallItem(msgspec.Struct, frozen=True, kw_only=True):
    """A command the model wants run."""

    id: str
    call_id: str
    action: ShellAction
    status: ItemStatus
    type: str = "local_shell_call"


class McpListedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that an MCP server lists."""

    name: str
    description: str
    input_schema: dict[str, Any]
    annotations: dict[str, Any]


class McpListItem(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of an MCP server that the model is offered; `error` says why there are none."""

    id: str
    server_label: str
    tools: list[McpListedTool]
    error: str | None = None
    type: str = "mcp_list_tools"


class McpCallError(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong in a call, in MCP's form for a tool's own failure."""

    content: list[dict[str, str]]
    type: str = "mcp_tool_execution_error"


class McpCallItem(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a tool of an MCP server, made here."""

    id: str
    server_label: str
    name: str
    arguments: str
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    output: str | None = None
    error: McpCallError | None = None
    approval_request_id: str | None = None
    type: str = "mcp_call"


class McpApprovalItem(msgspec.Struct, frozen=True, kw_only=True):
    """A call that is made once it has been approved."""

    id: str
    server_label: str
    name: str
    arguments: str
    type: str = "mcp_approval_request"


class FileSearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that a search came to."""

    file_id: str
    filename: str
    score: float
    text: str
    attributes: dict[str, str | float | bool] = {}


class FileSearchItem(msgspec.Struct, frozen=True, kw_only=True):
    """A search of vector stores. `results` are told to those who ask for them."""

    id: str
    queries: list[str]
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    results: list[FileSearchResult] | None = None
    type: str = "file_search_call"


HostedItem = McpListItem | McpCallItem | McpApprovalItem | FileSearchItem
OutputItem = MessageItem | ReasoningItem | FunctionCallItem | CustomCallItem | ShellCallItem | HostedItem


class InputDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Of the tokens read."""

    cached_tokens: int
    cache_write_tokens: int = 0


class OutputDetails(msgspec.Struct, frozen=True):
    """Of the tokens written."""

    reasoning_tokens: int


class ResponseUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class ResponseError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a response failed."""

    code: str
    message: str


class IncompleteDetails(msgspec.Struct, frozen=True):
    """Why a response ended early."""

    reason: str


class ReasoningEcho(msgspec.Struct, frozen=True, kw_only=True):
    """How reasoning was asked for."""

    effort: str | None = None
    summary: str | None = None


class SchemaEcho(msgspec.Struct, frozen=True, kw_only=True):
    """The schema an answer keeps to, always strictly unless the request says otherwise."""

    name: str
    schema: msgspec.Raw
    description: str | None
    strict: bool
    type: str = "json_schema"


class TextEcho(msgspec.Struct, frozen=True, kw_only=True):
    """How text was asked for."""

    format: ResponseTextFormat | SchemaEcho
    verbosity: str = "medium"


class TruncationNote(msgspec.Struct, frozen=True, kw_only=True):
    """Roundhouse's own: how many of the oldest messages did not fit and were left out, as `truncation: auto` allows."""

    dropped_messages: int


Status = Literal["completed", "failed", "in_progress", "cancelled", "incomplete"]


class ResponseObject(msgspec.Struct, frozen=True, kw_only=True):
    """The response object."""

    id: str
    created_at: int
    model: str
    status: Status
    output: list[OutputItem]
    tools: tuple[msgspec.Raw, ...]
    tool_choice: msgspec.Raw
    parallel_tool_calls: bool
    store: bool
    text: TextEcho
    reasoning: ReasoningEcho
    metadata: dict[str, str]
    truncation: str
    temperature: float
    top_p: float
    top_logprobs: int
    presence_penalty: float
    frequency_penalty: float
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    previous_response_id: str | None
    prompt_cache_key: str | None
    safety_identifier: str | None
    user: str | None
    object: str = "response"
    background: bool = False
    service_tier: str = "default"
    completed_at: int | None = None
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None
    usage: ResponseUsage | None = None
    roundhouse: TruncationNote | msgspec.UnsetType = UNSET


class ResponseInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a response is apart from what was asked. `at` is in Unix seconds."""

    id: str
    model: str
    at: float
    is_stored: bool


def begin_response(request: ResponsesRequest, offer: ToolOffer, about: ResponseInfo) -> ResponseObject:
    """Return the response before anything was said."""
    reasoning, text = request.reasoning, request.text
    return ResponseObject(
        id=about.id,
        created_at=int(about.at),
        model=about.model,
        status="in_progress",
        output=[],
        tools=offer.reply_tools,
        tool_choice=offer.reply_choice,
        parallel_tool_calls=not request.is_one_at_a_time,
        store=about.is_stored,
        text=TextEcho(
            format=_format_echo((text.format if text else None) or ResponseTextFormat(type="text")),
            verbosity=(text.verbosity if text else None) or "medium",
        ),
        reasoning=ReasoningEcho(effort=reasoning.effort, summary=reasoning.summary) if reasoning else ReasoningEcho(),
        metadata=request.metadata or {},
        truncation=request.truncation or "disabled",
        temperature=1.0 if request.temperature is None else request.temperature,
        top_p=1.0 if request.top_p is None else request.top_p,
        top_logprobs=request.top_logprobs or 0,
        presence_penalty=request.presence_penalty or 0.0,
        frequency_penalty=request.frequency_penalty or 0.0,
        instructions=request.instructions,
        max_output_tokens=request.max_output_tokens,
        max_tool_calls=request.max_tool_calls,
        previous_response_id=request.previous_response_id,
        prompt_cache_key=request.prompt_cache_key,
        safety_identifier=request.safety_identifier,
        user=request.user,
    )


def _format_echo(text_format: ResponseTextFormat) -> ResponseTextFormat | SchemaEcho:
    if text_format.type != "json_schema":
        return text_format
    return SchemaEcho(
        name=text_format.name,
        schema=text_format.schema,
        description=text_format.description,
        strict=text_format.strict is not False,
    )


def to_usage(usage: TokenUsage, *, thoughts: int) -> ResponseUsage | None:
    """Return the counts, None if the engine told none. Where it does not count reasoning, its `thoughts` pieces do."""
    if usage.prompt is None:
        return None
    output_tokens = usage.completion or 0
    return ResponseUsage(
        input_tokens=usage.prompt,
        input_tokens_details=InputDetails(cached_tokens=usage.cached or 0),
        output_tokens=output_tokens,
        output_tokens_details=OutputDetails(
            min(thoughts, output_tokens) if usage.reasoning is None else usage.reasoning
        ),
        total_tokens=usage.prompt + output_tokens,
    )


def to_logprob(token: TokenLogprob) -> ResponseTopLogprob:
    """Return a token's odds."""
    return ResponseTopLogprob(
        token=token.token,
        logprob=token.logprob,
        bytes=_token_bytes(token),
        top_logprobs=[
            ResponseLogprob(token=alternative.token, logprob=alternative.logprob, bytes=_token_bytes(alternative))
            for alternative in token.top_logprobs
        ],
    )


def _token_bytes(token: TokenAlternative) -> tuple[int, ...]:
    return tuple(token.token.encode()) if token.bytes is None else token.bytes
