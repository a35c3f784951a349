"""One request and one stream of events that every dialect is translated to and from.

A dialect decodes its own request into `Generate` (a conversation) or `Complete` (a bare prompt), and encodes `Event`s
into its own stream; the engine's side does the reverse. A whole answer is the fold of the same events. Nothing here
knows a wire format, so a new dialect is two functions and no change to the others.

A stream is `Started`, then any number of deltas, then exactly one of `Finished` and `Failed`.
"""

from enum import StrEnum

import msgspec

from app.core.errors import ErrorBody


class Role(StrEnum):
    """Who speaks. What some dialects call "developer" is the system."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Text(msgspec.Struct, frozen=True, tag="text"):
    """Something said."""

    text: str


class Image(msgspec.Struct, frozen=True, kw_only=True, tag="image"):
    """A picture, as base64 without a data URI around it. Addresses are never fetched."""

    media_type: str
    data: str


class Thinking(msgspec.Struct, frozen=True, tag="thinking"):
    """What an assistant reasoned before an earlier answer."""

    text: str


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, tag="tool_call"):
    """An assistant's wish that a tool be run. `arguments` is JSON text: an object, if the model kept to its format."""

    id: str
    name: str
    arguments: str


class ToolResult(msgspec.Struct, frozen=True, kw_only=True, tag="tool_result"):
    """What a tool answered to the call with that id."""

    call_id: str
    text: str
    name: str = ""
    is_error: bool = False


Part = Text | Image | Thinking | ToolCall | ToolResult


class Message(msgspec.Struct, frozen=True):
    """One turn."""

    role: Role
    parts: tuple[Part, ...] = ()

    @property
    def text(self) -> str:
        """Everything said in it, without pictures, reasoning and tools."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A function the model may call. `parameters` is a JSON schema as it came, None where there are none."""

    name: str
    description: str = ""
    parameters: msgspec.Raw | None = None
    strict: bool | None = None


class Choose(StrEnum):
    """Whether the model calls a tool."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"


class ToolChoice(msgspec.Struct, frozen=True, kw_only=True):
    """`name` makes a required call one of that function. `one_at_a_time` allows at most one call per answer."""

    choose: Choose = Choose.AUTO
    name: str = ""
    one_at_a_time: bool = False

    @property
    def is_required(self) -> bool:
        """Whether an answer without a call is none."""
        return self.choose is Choose.REQUIRED or bool(self.name)


class Shape(StrEnum):
    """What form an answer must have."""

    TEXT = "text"
    JSON = "json"
    """Any JSON object."""
    SCHEMA = "schema"


class ResponseFormat(msgspec.Struct, frozen=True, kw_only=True):
    """`schema` is a JSON schema as it came, for `Shape.SCHEMA`."""

    shape: Shape = Shape.TEXT
    schema: msgspec.Raw | None = None
    name: str = "answer"


class Level(StrEnum):
    """How much to think before answering. `DEFAULT` leaves it to the model; `ON` says yes and not how much."""

    DEFAULT = "default"
    OFF = "off"
    ON = "on"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    MAX = "max"


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """How tokens are drawn. None leaves it to the engine and the model."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical_p: float | None = None
    seed: int | None = None
    repeat_last_n: int | None = None
    """Tokens looked back upon by `repeat_penalty`; -1 is the whole context."""
    repeat_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    """Token ids of the engine's own vocabulary, and what to add to their logits."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """When to stop, and what to tell about tokens. `logprobs` is how many alternatives each token is told with."""

    max_tokens: int | None = None
    stops: tuple[str, ...] = ()
    logprobs: int | None = None


class Generate(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for the next turn of a conversation. The model is named beside it: its name never reaches the engine."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    response_format: ResponseFormat = ResponseFormat()
    thinking: Level = Level.DEFAULT
    sampling: Sampling = Sampling()
    limits: Limits = Limits()
    template_arguments: dict[str, msgspec.Raw] = {}
    """More that the chat template is told. These go before what `thinking` says to it."""


class Complete(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for what follows a text, without a chat template; with `suffix`, for what belongs between the two."""

    prompt: str
    suffix: str | None = None
    response_format: ResponseFormat = ResponseFormat()
    sampling: Sampling = Sampling()
    limits: Limits = Limits()


Request = Generate | Complete


class Likely(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A token and its natural log probability. `bytes` are its UTF-8 bytes: a token may be part of a character."""

    token: str
    logprob: float
    bytes: tuple[int, ...] | None = None


class TokenLogprob(Likely, frozen=True, kw_only=True, omit_defaults=True):
    """A token that was written, and what else could have been, likeliest first."""

    top_logprobs: tuple[Likely, ...] = ()


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens, as the engine counts them; None where it does not say. `prompt` includes the `cached` ones."""

    prompt: int | None = None
    cached: int | None = None
    completion: int | None = None
    reasoning: int | None = None


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds: waiting for the model to load, reading the prompt, writing the answer, and everything together.

    `ready_s` is until an engine was at hand, with all that came before: reading the request, queueing, loading.
    """

    load_s: float = 0.0
    ready_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    total_s: float = 0.0


class Finish(StrEnum):
    """Why an answer ended."""

    STOP = "stop"
    LENGTH = "length"
    """The limit asked for, or the end of the context."""
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """The engine has taken the request. `context` is what it keeps, in tokens."""

    load_s: float = 0.0
    context: int | None = None


class TextDelta(msgspec.Struct, frozen=True, tag="text_delta"):
    """The answer goes on."""

    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


class ReasoningDelta(msgspec.Struct, frozen=True, tag="reasoning_delta"):
    """The reasoning goes on."""

    text: str


class ToolCallDelta(msgspec.Struct, frozen=True, kw_only=True, tag="tool_call_delta"):
    """Call number `index` begins (`id` and `name` are given once) or its arguments' JSON text goes on."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished"):
    """The answer is complete."""

    reason: Finish = Finish.STOP
    usage: Usage = Usage()
    timings: Timings = Timings()
    stop: str | None = None
    """The stop sequence that ended it, where that is known."""


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """The answer broke off. `status` is what would have been answered before the first byte."""

    error: ErrorBody
    status: int


Event = Started | TextDelta | ReasoningDelta | ToolCallDelta | Finished | Failed
