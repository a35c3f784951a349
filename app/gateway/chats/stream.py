"""What an engine sends while it answers, read piece by piece: server-sent events in, `Piece`s out.

Network chunks end anywhere, in the middle of an event or of a character, so only whole lines are decoded. OpenAI's chat
chunks are read together with what llama-server adds: `timings`, and `prompt_progress` while it reads the prompt.
"""

from collections.abc import Iterator

import msgspec

from app.core.errors import EngineFailed
from app.gateway.chats.refusal import refusal


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """OpenAI's count of tokens."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: "CachedTokens | None" = None


class CachedTokens(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the prompt that was still in the engine's cache."""

    cached_tokens: int | None = None


class EngineTimings(msgspec.Struct, frozen=True, kw_only=True):
    """llama-server's own clock. `prompt_n` leaves out the `cache_n` tokens that were cached."""

    cache_n: int | None = None
    prompt_n: int | None = None
    prompt_ms: float | None = None
    prompt_per_second: float | None = None
    predicted_n: int | None = None
    predicted_ms: float | None = None
    predicted_per_second: float | None = None


class PromptProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the prompt has been read, in tokens; `cache` of them needed no reading."""

    total: int
    cache: int = 0
    processed: int = 0

    @property
    def fraction(self) -> float | None:
        """Return 0..1 of what had to be read."""
        todo = self.total - self.cache
        return min(1.0, max(0.0, (self.processed - self.cache) / todo)) if todo > 0 else None


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """One event of an answer; every part may be missing."""

    content: str = ""
    reasoning: str = ""
    finish_reason: str = ""
    usage: Usage | None = None
    timings: EngineTimings | None = None
    progress: PromptProgress | None = None


class _Delta(msgspec.Struct, frozen=True):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    delta: _Delta = _Delta()
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, frozen=True):
    choices: list[_Choice] = []
    usage: Usage | None = None
    timings: EngineTimings | None = None
    prompt_progress: PromptProgress | None = None
    error: dict[str, msgspec.Raw] | str | None = None


_DECODER = msgspec.json.Decoder(_Chunk)
_DONE = b"[DONE]"
_NOTHING = _Choice()


class AnswerReader:
    """Feed it bytes as they come. `is_complete` tells whether the engine said that its answer is over."""

    def __init__(self) -> None:
        self._rest = b""
        self.is_complete = False

    def feed(self, chunk: bytes) -> Iterator[Piece]:
        """Yield the pieces that `chunk` completes. Raises EngineFailed for an error event or for nonsense."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            name, _, data = line.rstrip(b"\r").partition(b":")
            if data.strip() == _DONE:
                self.is_complete = True
            elif name == b"data":
                yield self._piece(data)
            elif name == b"error":  # llama-server before 2025 named the field so
                raise refusal(data)

    def _piece(self, data: bytes) -> Piece:
        try:
            chunk = _DECODER.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise EngineFailed(
                "The engine's answer could not be understood.",
                hint="Try again; if it happens again, restart the model.",
                code="engine_nonsense",
                detail=str(error),
            ) from error
        if chunk.error is not None:
            raise refusal(data)
        choice = chunk.choices[0] if chunk.choices else _NOTHING
        self.is_complete = self.is_complete or bool(choice.finish_reason)
        return Piece(
            content=choice.delta.content or "",
            reasoning=choice.delta.reasoning_content or choice.delta.reasoning or "",
            finish_reason=choice.finish_reason or "",
            usage=chunk.usage,
            timings=chunk.timings,
            progress=chunk.prompt_progress,
        )
