"""A request in the form that every dialect is translated to.

It is a conversation (`ConversationRequest`) or a bare prompt (`CompletionRequest`). A dialect decodes its own request
into one of them, and what engines are sent is made of it (`exchange.engine.request`). Nothing here knows a wire
format, so a new dialect is two functions and no change to the others.

Pictures and files within a request: `data:` URIs, of which no other address is ever fetched, and a picture's size.

A size is read from the file's header: PNG and JPEG, which is what nearly all clients send.
"""

import base64
import binascii
import struct
from enum import StrEnum
from typing import NamedTuple

import msgspec

from app.core.errors import BadRequest, quote_value
from app.core.recordings import SoundFile
from app.core.thinking import ThinkingLevel


class MessageRole(StrEnum):
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


class Sound(msgspec.Struct, frozen=True, kw_only=True, tag="sound"):
    """A sound in WAV or MP3, as base64. Addresses are never fetched."""

    format: str
    data: str

    @property
    def seconds(self) -> float:
        """About how long it is: as WAV of one channel and 16,000 samples of 16 bits, as MP3 of 128 kbit/s."""
        return len(self.data) * 3 / 4 / (_WAV_BYTES_PER_S if self.format == "wav" else _MP3_BYTES_PER_S)


_WAV_BYTES_PER_S, _MP3_BYTES_PER_S = 32_000, 16_000
_SOUND_FORMATS = frozenset({"wav", "mp3"})
"""Of OpenAI's dialect, and what every engine that hears reads."""


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


Part = Text | Image | Sound | Thinking | ToolCall | ToolResult


class ConversationMessage(msgspec.Struct, frozen=True):
    """One turn."""

    role: MessageRole
    parts: tuple[Part, ...] = ()

    @property
    def text(self) -> str:
        """Everything said in it, without pictures, reasoning and tools."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))


class ToolDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A function the model may call. `parameters` is a JSON schema as it came, None where there are none."""

    name: str
    description: str = ""
    parameters: msgspec.Raw | None = None
    strict: bool | None = None


class ToolMode(StrEnum):
    """Whether the model calls a tool."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"


class ToolChoice(msgspec.Struct, frozen=True, kw_only=True):
    """`name` makes a required call one of that function. `one_at_a_time` allows at most one call per answer."""

    choose: ToolMode = ToolMode.AUTO
    name: str = ""
    one_at_a_time: bool = False

    @property
    def is_required(self) -> bool:
        """Whether an answer without a call is none."""
        return self.choose is ToolMode.REQUIRED or bool(self.name)


class ResponseShape(StrEnum):
    """What form an answer must have."""

    TEXT = "text"
    JSON = "json"
    """Any JSON object."""
    SCHEMA = "schema"
    GRAMMAR = "grammar"


class ResponseFormat(msgspec.Struct, frozen=True, kw_only=True):
    """`schema` is a JSON schema as it came, for `ResponseShape.SCHEMA`; `grammar` is in llama.cpp's form."""

    shape: ResponseShape = ResponseShape.TEXT
    schema: msgspec.Raw | None = None
    name: str = "answer"
    grammar: str = ""


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True):
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


class GenerationLimits(msgspec.Struct, frozen=True, kw_only=True):
    """When to stop, and what to tell about tokens. `logprobs` is how many alternatives each token is told with."""

    max_tokens: int | None = None
    stops: tuple[str, ...] = ()
    logprobs: int | None = None


class ConversationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for the next turn of a conversation. The model is named beside it: its name never reaches the engine."""

    messages: tuple[ConversationMessage, ...]
    tools: tuple[ToolDefinition, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    response_format: ResponseFormat = ResponseFormat()
    thinking: ThinkingLevel = ThinkingLevel.DEFAULT
    thinking_budget: int | None = None
    """Tokens after which thinking ends."""
    sampling: SamplingParams = SamplingParams()
    limits: GenerationLimits = GenerationLimits()
    continues: bool = False
    """Whether the last message is the assistant's, to be gone on with."""
    wants_progress: bool = False
    """Whether engines that can tell how far they have read the prompt do so."""
    template_arguments: dict[str, msgspec.Raw] = {}
    """More that the chat template is told. These go before what `thinking` says to it."""


class CompletionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for what follows a text, without a chat template; with `suffix`, for what belongs between the two."""

    prompt: str
    suffix: str | None = None
    response_format: ResponseFormat = ResponseFormat()
    sampling: SamplingParams = SamplingParams()
    limits: GenerationLimits = GenerationLimits()


Request = ConversationRequest | CompletionRequest


_DATA, _BASE64 = "data:", ";base64,"


def image_of(uri: str, *, field: str) -> Image:
    """Return the picture of a data URI. Raises BadRequest that names the field it stood in."""
    kind, data = _split(uri, field)
    return Image(media_type=kind, data=data)


def sound_of(kind: str, data: str, *, field: str) -> Sound:
    """Return a sound in base64, by what its first bytes say it is. Raises BadRequest that names the field."""
    if kind not in _SOUND_FORMATS:
        raise BadRequest(
            f"`{field}`: sound is taken as wav or mp3, not as {quote_value(kind or 'unknown')}.",
            hint="Send the recording as WAV or MP3, in base64.",
            code="unsupported_content",
        )
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest(f"`{field}` is not base64.", code="invalid_value") from None
    actual = SoundFile(content).kind
    if actual not in _SOUND_FORMATS:
        raise BadRequest(
            f"`{field}`: this is no recording in WAV or MP3, or it is damaged.",
            hint="Send the recording as WAV or MP3, in base64.",
            code="unsupported_content",
        )
    return Sound(format=actual, data=data)


def text_of(uri: str, *, field: str) -> str:
    """Return what a text file in a data URI says. Raises BadRequest, also for a file that is no text."""
    kind, data = _split(uri, field)
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise BadRequest(
            f"A file of the type {quote_value(kind or 'unknown')} cannot be read.",
            hint="Send its text.",
            code="unsupported_content",
        ) from None


def _split(uri: str, field: str) -> tuple[str, str]:
    kind, comma, data = uri.partition(_BASE64)
    if not comma or not kind.startswith(_DATA):
        raise BadRequest(
            f"`{field}` is a data URI in base64.", hint="Other addresses are not downloaded.", code="invalid_value"
        )
    return kind.removeprefix(_DATA), data


_HEAD_CHARACTERS = 256 * 1024
"""Of the base64: a JPEG's size comes after its EXIF data and colour profile, 64 KiB each at most. A multiple of 4."""
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8"
_PNG_SIZE = struct.Struct(">II")
_PNG_SIZE_AT = 16
_SEGMENT = struct.Struct(">BBH")
_FRAME_SIZE = struct.Struct(">HH")
_FRAME_SIZE_AT = 5
"""After marker and length comes a byte of precision, then height and width."""
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers of a JPEG's frame; the three left out are tables and an extension (ITU T.81, table B.1)."""
_MARK = 0xFF


class PictureSize(NamedTuple):
    """Width and height in pixels."""

    width: int
    height: int


def size_of(data: str) -> PictureSize | None:
    """Return the size of a picture in base64; None if it is of another kind, or broken."""
    try:
        head = base64.b64decode(data[:_HEAD_CHARACTERS])
        if head.startswith(_PNG):
            return PictureSize(*_PNG_SIZE.unpack_from(head, _PNG_SIZE_AT))
        return _jpeg_size(head) if head.startswith(_JPEG) else None
    except (binascii.Error, ValueError, struct.error):
        return None


def _jpeg_size(head: bytes) -> PictureSize | None:
    at = len(_JPEG)
    while True:
        mark, kind, length = _SEGMENT.unpack_from(head, at)
        if mark != _MARK:
            return None
        if kind in _FRAMES:
            height, width = _FRAME_SIZE.unpack_from(head, at + _FRAME_SIZE_AT)
            return PictureSize(width, height)
        at += 2 + length
