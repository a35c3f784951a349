"""`/api/v1` requests: to chat, load, unload and download. Unknown fields are refused, as there.

A chat's input is the next turn; what was said before is kept on this side, under the id of an earlier response.
"""

from typing import Annotated, Literal

import msgspec

from app.core.errors import BadRequest
from app.gateway.canonical.images import image_of
from app.gateway.canonical.request import Generate, Level, Limits, Message, Part, Role, Sampling, Text
from app.gateway.dialects.keep_alive import Staying
from app.gateway.dialects.lmstudio.record import NOT_IMPLEMENTED

RESPONSE_PREFIX = "resp_"
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
"""Engines keep these in a C int."""
_Positive = Annotated[float, msgspec.Meta(ge=0)]


class Item(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something of the input."""

    type: Literal["message", "text", "image"]
    content: str | None = None
    data_url: str | None = None


class ChatRequest(Staying, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /api/v1/chat. `context_length` is in tokens."""

    model: str | None = None
    input: str | list[Item] | None = None
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
    def wanted_context(self) -> int | None:
        """How much context is wanted, by either of its names."""
        return self.context if self.context_length is None else self.context_length


class LoadRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /api/v1/models/load."""

    model: str | None = None
    context_length: _Count | None = None
    eval_batch_size: _Count | None = None
    flash_attention: bool | None = None
    num_experts: int | None = None
    offload_kv_cache_to_gpu: bool | None = None
    echo_load_config: bool | None = None


class UnloadRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /api/v1/models/unload."""

    instance_id: str | None = None


class DownloadRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /api/v1/models/download."""

    model: str | None = None
    quantization: str | None = None


class Earlier(msgspec.Struct, frozen=True):
    """A conversation so far: its system prompt, and its turns."""

    system: str = ""
    turns: tuple[Message, ...] = ()

    def then(self, turn: Message) -> "Earlier":
        """Return it with another turn."""
        return Earlier(self.system, (*self.turns, turn))


NOTHING = Earlier()


def conversation(asked: ChatRequest, earlier: Earlier = NOTHING) -> Earlier:
    """Return the conversation with the new turn. A new system prompt takes the place of the old. Raises BadRequest."""
    system = earlier.system if asked.system_prompt is None else asked.system_prompt
    return Earlier(system, (*earlier.turns, Message(Role.USER, _parts(asked.input))))


def generate(asked: ChatRequest, talk: Earlier) -> Generate:
    """Return what the engine is to do. Raises BadRequest for what Roundhouse lacks."""
    if asked.integrations:
        raise not_here("Roundhouse runs no plugins and no MCP servers.", "Leave out `integrations`.")
    system = (Message(Role.SYSTEM, (Text(talk.system),)),) if talk.system else ()
    return Generate(
        messages=(*system, *talk.turns),
        thinking=Level.DEFAULT if asked.reasoning is None else Level(asked.reasoning),
        sampling=Sampling(
            temperature=asked.temperature,
            top_p=asked.top_p,
            top_k=asked.top_k,
            min_p=asked.min_p,
            repeat_penalty=asked.repeat_penalty,
        ),
        limits=Limits(max_tokens=asked.max_output_tokens),
    )


def not_here(sentence: str, hint: str) -> BadRequest:
    """Return the error for something LM Studio has and Roundhouse has not."""
    return BadRequest(sentence, hint=hint, code=NOT_IMPLEMENTED)


def required(value: str | None, name: str) -> str:
    """Return a field that must be there. Raises BadRequest."""
    if not value:
        raise BadRequest(f"`{name}` is required.", code=f"{name}_required")
    return value


def _parts(said: str | list[Item] | None) -> tuple[Part, ...]:
    if said is None:
        raise BadRequest("`input` is required.", code="input_required")
    if isinstance(said, str):
        return (Text(said),)
    texts = [_content(item) for item in said if item.type != "image"]
    pictures = [image_of(item.data_url or "", field="data_url") for item in said if item.type == "image"]
    return (*([Text("\n".join(texts))] if texts else []), *pictures)


def _content(item: Item) -> str:
    if item.content is None:
        raise BadRequest("A message of `input` has no `content`.", code="invalid_value")
    return item.content
