"""`/api/v1` requests: to chat, load, unload and download. Unknown fields are refused, as there.

A chat's input is the next turn; what was said before is kept on this side, under the id of an earlier response.
"""

from typing import Annotated, Literal

import msgspec

from app.core.errors import BadRequest
from app.core.thinking import ThinkingLevel
from app.gateway.canonical.request import (
    ConversationMessage,
    ConversationRequest,
    GenerationLimits,
    MessageRole,
    Part,
    SamplingParams,
    Text,
    image_of,
)
from app.gateway.dialects.keep_alive import ModelLoadFields
from app.gateway.dialects.lmstudio.record import NOT_IMPLEMENTED

RESPONSE_PREFIX = "resp_"
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
"""Engines keep these in a C int."""
_Positive = Annotated[float, msgspec.Meta(ge=0)]


class LmStudioInputItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something of the input."""

    type: Literal["message", "text", "image"]
    content: str | None = None
    data_url: str | None = None


class LmStudioChatRequest(ModelLoadFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /api/v1/chat. `context_length` is in tokens."""

    model: str | None = None
    input: str | list[LmStudioInputItem] | None = None
    system_prompt: str | None = None
    integrations: list[object] | None = None
    stream: bool | None = None
    temperature: _Positive | None = None
    top_p: _Share | None = None
    top_k: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] | None = None
    min_p: _Share | None = None
    repeat_penalty: _Positive | None = None
    max_output_tokens: _Count | None = None
    reasoning: Literal["off", "low", "medium", "high", "on"] | None = None
    context_length: _Count | None = None
    store: bool | None = None
    previous_response_id: str | None = None

    @property
    def context_tokens(self) -> int | None:
        """How much context is wanted, by either of its names."""
        return self.context if self.context_length is None else self.context_length


class LmStudioLoadRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /api/v1/models/load."""

    model: str | None = None
    context_length: _Count | None = None
    eval_batch_size: _Count | None = None
    flash_attention: bool | None = None
    num_experts: int | None = None
    offload_kv_cache_to_gpu: bool | None = None
    echo_load_config: bool | None = None


class LmStudioUnloadRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /api/v1/models/unload."""

    instance_id: str | None = None


class LmStudioDownloadRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /api/v1/models/download."""

    model: str | None = None
    quantization: str | None = None


class LmStudioHistory(msgspec.Struct, frozen=True):
    """A conversation so far: its system prompt, and its turns."""

    system: str = ""
    turns: tuple[ConversationMessage, ...] = ()

    def with_turn(self, turn: ConversationMessage) -> "LmStudioHistory":
        """Return it with another turn."""
        return LmStudioHistory(self.system, (*self.turns, turn))


EMPTY_HISTORY = LmStudioHistory()


def extend_history(request: LmStudioChatRequest, earlier: LmStudioHistory = EMPTY_HISTORY) -> LmStudioHistory:
    """Return the conversation with the new turn. A new system prompt takes the place of the old. Raises BadRequest."""
    system = earlier.system if request.system_prompt is None else request.system_prompt
    return LmStudioHistory(system, (*earlier.turns, ConversationMessage(MessageRole.USER, _input_parts(request.input))))


def to_canonical_request(request: LmStudioChatRequest, history: LmStudioHistory) -> ConversationRequest:
    """Return what the engine is to do. Raises BadRequest for what Roundhouse lacks."""
    if request.integrations:
        raise not_here("Roundhouse runs no plugins and no MCP servers.", "Leave out `integrations`.")
    system = (ConversationMessage(MessageRole.SYSTEM, (Text(history.system),)),) if history.system else ()
    return ConversationRequest(
        messages=(*system, *history.turns),
        thinking=ThinkingLevel.DEFAULT if request.reasoning is None else ThinkingLevel(request.reasoning),
        sampling=SamplingParams(
            temperature=request.temperature,
            top_p=request.top_p,
            top_k=request.top_k,
            min_p=request.min_p,
            repeat_penalty=request.repeat_penalty,
        ),
        limits=GenerationLimits(max_tokens=request.max_output_tokens),
    )


def not_here(sentence: str, hint: str) -> BadRequest:
    """Return the error for something LM Studio has and Roundhouse has not."""
    return BadRequest(sentence, hint=hint, code=NOT_IMPLEMENTED)


def require_field(value: str | None, name: str) -> str:
    """Return a field that must be there. Raises BadRequest."""
    if not value:
        raise BadRequest(f"`{name}` is required.", code=f"{name}_required")
    return value


def _input_parts(chat_input: str | list[LmStudioInputItem] | None) -> tuple[Part, ...]:
    if chat_input is None:
        raise BadRequest("`input` is required.", code="input_required")
    if isinstance(chat_input, str):
        return (Text(chat_input),)
    texts = [_item_content(item) for item in chat_input if item.type != "image"]
    pictures = [image_of(item.data_url or "", field="data_url") for item in chat_input if item.type == "image"]
    return (*([Text("\n".join(texts))] if texts else []), *pictures)


def _item_content(item: LmStudioInputItem) -> str:
    if item.content is None:
        raise BadRequest("A message of `input` has no `content`.", code="invalid_value")
    return item.content
