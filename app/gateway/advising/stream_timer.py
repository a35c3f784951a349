"""One streamed answer with the times at which its pieces came: what every measurement of speed is made of.

Engines that say themselves how long they took are believed where only the engine is measured; what a client waits is
taken by the clock.
"""

import time

import msgspec

_MS = 1e3
_DATA = b"data:"


class StreamTimer:
    """Takes the lines of an answer in; the clock runs from when it is made."""

    def __init__(self) -> None:
        self.begun_at = self.last_at = time.monotonic()
        self.piece_times: list[float] = []
        """When each piece came that had something of the answer in it."""
        self.text = ""
        """Of the answer, without reasoning."""
        self.prompt_tokens = self.cached_tokens = self.answer_tokens = 0
        """As the engine counted; zero where it did not."""
        self.engine_timings: dict[str, float] = {}
        """In llama-server's words; empty where the engine says none."""
        self.is_complete = False
        self.error = ""
        self._first_choice_at = 0.0

    @property
    def first_at(self) -> float:
        """When the first token came."""
        return self.piece_times[0] if self.piece_times else self._first_choice_at or self.last_at

    def read_line(self, line: bytes) -> None:
        """Take a line in. What is no piece of an answer is passed over."""
        if not line.startswith(_DATA):
            return
        data = line[len(_DATA) :].strip()
        if data == b"[DONE]":
            self.is_complete = True
            return
        try:
            piece = msgspec.json.decode(data, type=_Piece)
        except msgspec.DecodeError:
            return
        self._read_piece(piece, time.monotonic())

    def timings(self) -> dict[str, float]:
        """Return the times in llama-server's words: the engine's own, else by the clock."""
        return self.engine_timings or {
            "prompt_n": self.prompt_tokens,
            "prompt_ms": (self.first_at - self.begun_at) * _MS,
            "predicted_n": self.answer_tokens,
            "predicted_ms": (self.last_at - self.first_at) * _MS,
        }

    def _read_piece(self, piece: "_Piece", now: float) -> None:
        if piece.choices:
            self.last_at = now
            self._first_choice_at = self._first_choice_at or now
        if any(choice.has_content for choice in piece.choices):
            self.piece_times.append(now)
            self.text += "".join(choice.answer_text for choice in piece.choices)
        self.is_complete = self.is_complete or any(choice.finish_reason for choice in piece.choices)
        self.engine_timings = piece.timings or self.engine_timings
        if piece.usage is not None:
            self.prompt_tokens = piece.usage.prompt_tokens
            self.answer_tokens = piece.usage.completion_tokens
            details = piece.usage.prompt_tokens_details
            self.cached_tokens = 0 if details is None else details.cached_tokens or 0
        if piece.error is not None:
            self.error = bytes(piece.error).decode(errors="replace")[:500]


class _Delta(msgspec.Struct, frozen=True):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[msgspec.Raw] | None = None


class _Choice(msgspec.Struct, frozen=True):
    delta: _Delta = _Delta()
    text: str | None = None
    """Of completions without a chat."""
    finish_reason: str | None = None

    @property
    def answer_text(self) -> str:
        return self.delta.content or self.text or ""

    @property
    def has_content(self) -> bool:
        delta = self.delta
        return bool(self.answer_text or delta.reasoning_content or delta.reasoning or delta.tool_calls)


class _PromptDetails(msgspec.Struct, frozen=True):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _PromptDetails | None = None


class _Piece(msgspec.Struct, frozen=True):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    timings: dict[str, float] = {}
    error: msgspec.Raw | None = None
