"""What `/api/v0` adds to OpenAI's answers: how fast, why it ended, which model, which engine.

The engine's own clock counts where it tells it (llama-server's `timings`); else the gateway's, with `usage`'s tokens.
"""

import msgspec

_MS = 1e3
_STOP_REASONS = {
    "stop": "eosFound",
    "length": "maxPredictedTokensReached",
    "tool_calls": "toolCalls",
    "function_call": "toolCalls",
}
"""OpenAI's words to LM Studio's. Engines do not say whether a stop was a stop string, which LM Studio tells apart."""
_FULL = "contextLengthReached"


class Stats(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Seconds, and tokens per second; what nobody knows is left out."""

    tokens_per_second: float | None = None
    time_to_first_token: float | None = None
    generation_time: float | None = None
    stop_reason: str | None = None


class AboutModel(msgspec.Struct, frozen=True, kw_only=True):
    """The model that answered, and the context it was loaded with, in tokens."""

    arch: str
    quant: str
    format: str
    context_length: int | None = None


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """The engine that answered."""

    name: str
    version: str
    supported_formats: list[str]


class About(msgspec.Struct, frozen=True):
    """Who answered."""

    model: AboutModel
    runtime: Runtime


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway's own seconds: from the request to the first byte, if that was seen, and from there to the end."""

    first_s: float | None = None
    rest_s: float


class Choice(msgspec.Struct, frozen=True):
    """One of an answer's texts, as far as it concerns statistics."""

    finish_reason: str | None = None


class Usage(msgspec.Struct, frozen=True):
    """Tokens."""

    prompt_tokens: int = 0
    completion_tokens: int | None = None


class Timings(msgspec.Struct, frozen=True):
    """llama-server's own clock, in milliseconds."""

    prompt_ms: float | None = None
    predicted_n: int | None = None
    predicted_ms: float | None = None


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine tells at an answer's end, or in a whole one."""

    choices: list[Choice] = []
    usage: Usage | None = None
    timings: Timings | None = None

    def then(self, later: "Told") -> "Told":
        """Return what both say; of one thing, what was said later."""
        return Told(
            choices=later.choices or self.choices,
            usage=later.usage or self.usage,
            timings=later.timings or self.timings,
        )


def told(document: bytes) -> Told | None:
    """Return what a document tells; None if it is no answer."""
    try:
        return msgspec.json.decode(document, type=Told)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def stats_of(said: Told, clock: Clock, context: int | None) -> Stats:
    """Return an answer's statistics; `context` is what the model was loaded with."""
    timings, usage = said.timings or Timings(), said.usage or Usage()
    wrote = timings.predicted_n if timings.predicted_n is not None else usage.completion_tokens
    decode_s = clock.rest_s if timings.predicted_ms is None else timings.predicted_ms / _MS
    return Stats(
        tokens_per_second=wrote / decode_s if wrote and decode_s > 0 else None,
        time_to_first_token=clock.first_s if timings.prompt_ms is None else timings.prompt_ms / _MS,
        generation_time=decode_s,
        stop_reason=_stop_reason(said, usage, context),
    )


def _stop_reason(said: Told, usage: Usage, context: int | None) -> str | None:
    reason = next((choice.finish_reason for choice in said.choices if choice.finish_reason), None)
    if reason is None:
        return None
    if reason == "length" and context and usage.prompt_tokens + (usage.completion_tokens or 0) >= context:
        return _FULL
    return _STOP_REASONS.get(reason, _STOP_REASONS["stop"])


def with_blocks(document: bytes, stats: Stats, about: About) -> bytes:
    """Return a JSON object with the three blocks at its end; the bytes before them stay as they are."""
    at = document.rfind(b"}")
    blocks = {"stats": stats, "model_info": about.model, "runtime": about.runtime}
    comma = b"" if document[:at].rstrip().endswith(b"{") else b","
    return document[:at] + comma + msgspec.json.encode(blocks)[1:-1] + document[at:]
