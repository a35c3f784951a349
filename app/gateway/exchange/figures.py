"""Where the time of one exchange went: queue, load, prefill, decode; and what it read and wrote.

The engine's own clock counts where it tells its times. Where it does not, a stream's first bytes divide prefill from
decode, and an answer in one piece is all decode.
"""

import msgspec

from app.gateway.exchange.observer import ExchangeFigures, Observation

_MS = 1e3
_TWO = 2
"""Tokens that have one interval between them."""


def figures_so_far(exchange: Observation, now: float, *, loading_since: float | None = None) -> ExchangeFigures:
    """Return the times of an exchange that goes on, without a look at what the engine has sent."""
    first, leased_at = exchange.first_at, exchange.leased_at
    waited = (now if leased_at is None else leased_at) - exchange.started_at
    if leased_at is not None:
        load_s = min(exchange.load_s, waited)
    else:
        load_s = 0.0 if loading_since is None else now - loading_since
    return ExchangeFigures(
        total_s=now - exchange.started_at,
        queue_s=max(0.0, waited - load_s),
        load_s=load_s,
        prefill_s=None if leased_at is None else (now if first is None else first) - leased_at,
        decode_s=None if first is None else now - first,
        ttft_s=None if first is None else first - exchange.started_at,
    )


def figures_of(exchange: Observation) -> ExchangeFigures:
    """Return the figures of an exchange that has ended. They are worked out once, whoever asks."""
    if exchange.figures is None:
        exchange.figures = _compute_final(exchange)
    return exchange.figures


def _compute_final(exchange: Observation) -> ExchangeFigures:
    ended = exchange.last_at if exchange.ended_at is None else exchange.ended_at
    tokens, timings = exchange.tokens, exchange.tokens.timings
    prefill_s, decode_s = _split_times(exchange, ended)
    written = tokens.completion
    if written is None and "predicted_n" in timings:
        written = int(timings["predicted_n"])
    read = tokens.prompt
    if read is None and "prompt_n" in timings:
        read = int(timings["prompt_n"] + timings.get("cache_n", 0))
    if timings.get("predicted_ms") and timings.get("predicted_n", 0) >= _TWO:
        rate: float | None = timings["predicted_n"] * _MS / timings["predicted_ms"]
    else:
        tpot_s = exchange.tpot_s
        rate = 1 / tpot_s if tpot_s else None
    return msgspec.structs.replace(
        figures_so_far(exchange, ended),
        prefill_s=prefill_s,
        decode_s=decode_s,
        tokens_per_s=rate,
        prompt_tokens=read,
        cached_tokens=tokens.cached,
        completion_tokens=written,
    )


def _split_times(exchange: Observation, ended: float) -> tuple[float | None, float | None]:
    if exchange.leased_at is None:
        return None, None
    if exchange.first_at is not None:
        return exchange.first_at - exchange.leased_at, exchange.last_at - exchange.first_at
    work_s = ended - exchange.leased_at
    predicted_ms = exchange.tokens.timings.get("predicted_ms")
    if not predicted_ms:
        return None, work_s
    decode_s = min(work_s, predicted_ms / _MS)
    return work_s - decode_s, decode_s
