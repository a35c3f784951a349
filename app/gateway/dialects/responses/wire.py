"""The response object and its items, as OpenAI's clients read them: every key is always there.

Sampling that a request leaves open is the engine's and the model's choice. The dialect wants a figure all the same, and
there it is OpenAI's default.
"""

from typing import Literal

import msgspec

from app.gateway.canonical.events import Likely, TokenLogprob, Usage
from app.gateway.dialects.responses.requests import Asked, Format
from app.gateway.dialects.responses.tools import Offer

UNSET = msgspec.UNSET


class Logprob(msgspec.Struct, frozen=True, kw_only=True):
    """A token and its log probability."""

    token: str
    logprob: float
    bytes: tuple[int, ...]


class TopLogprob(Logprob, frozen=True, kw_only=True):
    """A token that was written, and what else could have been."""

    top_logprobs: list[Logprob]


class OutputText(msgspec.Struct, frozen=True, kw_only=True):
    """What a message says."""

    text: str
    logprobs: list[TopLogprob]
    type: str = "output_text"
    annotations: tuple[()] = ()


class Thought(msgspec.Struct, frozen=True):
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
    summary: list[Thought]
    content: list[Thought]
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


OutputItem = MessageItem | ReasoningItem | FunctionCallItem | CustomCallItem | ShellCallItem


class InputDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Of the tokens read."""

    cached_tokens: int
    cache_write_tokens: int = 0


class OutputDetails(msgspec.Struct, frozen=True):
    """Of the tokens written."""

    reasoning_tokens: int


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Why a response failed."""

    code: str
    message: str


class Incomplete(msgspec.Struct, frozen=True):
    """Why a response ended early."""

    reason: str


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """How reasoning was asked for."""

    effort: str | None = None
    summary: str | None = None


class SchemaTold(msgspec.Struct, frozen=True, kw_only=True):
    """The schema an answer keeps to, always strictly unless the request says otherwise."""

    name: str
    schema: msgspec.Raw
    description: str | None
    strict: bool
    type: str = "json_schema"


class TextTold(msgspec.Struct, frozen=True, kw_only=True):
    """How text was asked for."""

    format: Format | SchemaTold
    verbosity: str = "medium"


class Trimmed(msgspec.Struct, frozen=True, kw_only=True):
    """Roundhouse's own: how many of the oldest messages did not fit and were left out, as `truncation: auto` allows."""

    dropped_messages: int


Status = Literal["completed", "failed", "in_progress", "cancelled", "incomplete"]


class Response(msgspec.Struct, frozen=True, kw_only=True):
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
    text: TextTold
    reasoning: Told
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
    error: Trouble | None = None
    incomplete_details: Incomplete | None = None
    usage: Used | None = None
    roundhouse: Trimmed | msgspec.UnsetType = UNSET


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What a response is apart from what was asked. `at` is in Unix seconds."""

    id: str
    model: str
    at: float
    is_stored: bool


def begun(asked: Asked, offer: Offer, about: About) -> Response:
    """Return the response before anything was said."""
    reasoning, text = asked.reasoning, asked.text
    return Response(
        id=about.id,
        created_at=int(about.at),
        model=about.model,
        status="in_progress",
        output=[],
        tools=offer.told,
        tool_choice=offer.told_choice,
        parallel_tool_calls=not asked.is_one_at_a_time,
        store=about.is_stored,
        text=TextTold(
            format=_format_told((text.format if text else None) or Format(type="text")),
            verbosity=(text.verbosity if text else None) or "medium",
        ),
        reasoning=Told(effort=reasoning.effort, summary=reasoning.summary) if reasoning else Told(),
        metadata=asked.metadata or {},
        truncation=asked.truncation or "disabled",
        temperature=1.0 if asked.temperature is None else asked.temperature,
        top_p=1.0 if asked.top_p is None else asked.top_p,
        top_logprobs=asked.top_logprobs or 0,
        presence_penalty=asked.presence_penalty or 0.0,
        frequency_penalty=asked.frequency_penalty or 0.0,
        instructions=asked.instructions,
        max_output_tokens=asked.max_output_tokens,
        max_tool_calls=asked.max_tool_calls,
        previous_response_id=asked.previous_response_id,
        prompt_cache_key=asked.prompt_cache_key,
        safety_identifier=asked.safety_identifier,
        user=asked.user,
    )


def _format_told(wanted: Format) -> Format | SchemaTold:
    if wanted.type != "json_schema":
        return wanted
    return SchemaTold(
        name=wanted.name,
        schema=wanted.schema,
        description=wanted.description,
        strict=wanted.strict is not False,
    )


def used(usage: Usage, *, thoughts: int) -> Used | None:
    """Return the counts, None if the engine told none. Where it does not count reasoning, its `thoughts` pieces do."""
    if usage.prompt is None:
        return None
    written = usage.completion or 0
    return Used(
        input_tokens=usage.prompt,
        input_tokens_details=InputDetails(cached_tokens=usage.cached or 0),
        output_tokens=written,
        output_tokens_details=OutputDetails(min(thoughts, written) if usage.reasoning is None else usage.reasoning),
        total_tokens=usage.prompt + written,
    )


def logprob(told: TokenLogprob) -> TopLogprob:
    """Return a token's odds."""
    return TopLogprob(
        token=told.token,
        logprob=told.logprob,
        bytes=_bytes(told),
        top_logprobs=[Logprob(token=one.token, logprob=one.logprob, bytes=_bytes(one)) for one in told.top_logprobs],
    )


def _bytes(told: Likely) -> tuple[int, ...]:
    return tuple(told.token.encode()) if told.bytes is None else told.bytes
