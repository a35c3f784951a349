"""Where the time of one exchange went: queue, load, prefill, decode; and what it read and wrote.

The engine's own clock counts where it tells its times. Where it does not, a stream's first bytes divide prefill from
decode, and an answer in one piece is all decode.
"""

import msgspec

from app.gateway.watching.watch import Watch

_MS = 1e3
_TWO = 2
"""Tokens that have one interval between them."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Fields as in `core.requests.RequestInfo`."""

    total_s: float
    queue_s: float | None = None
    load_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    ttft_s: float | None = None
    tokens_per_s: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None


def so_far(watch: Watch, now: float, *, loading_since: float | None) -> Figures:
    """Return the times of an exchange that goes on, without a look at what the engine has sent."""
    waited = (now if watch.leased_at is None else watch.leased_at) - watch.started
    load_s = _loading(watch, waited, now, loading_since)
    first, leased_at = watch.first, watch.leased_at
    return Figures(
        total_s=now - watch.started,
        queue_s=max(0.0, waited - load_s),
        load_s=load_s,
        prefill_s=None if leased_at is None else (now if first is None else first) - leased_at,
        decode_s=None if first is None else now - first,
        ttft_s=None if first is None else first - watch.started,
    )


def of(watch: Watch) -> Figures:
    """Return the figures of an exchange that has ended."""
    ended = watch.ended if watch.ended is not None else watch.last
    tokens, said = watch.tokens(), watch.timings()
    prefill_s, decode_s = _divided(watch, ended, said)
    written = tokens.get("completion", int(said["predicted_n"]) if "predicted_n" in said else None)
    return msgspec.structs.replace(
        so_far(watch, ended, loading_since=None),
        prefill_s=prefill_s,
        decode_s=decode_s,
        tokens_per_s=_rate(watch, written, said),
        prompt_tokens=tokens.get("prompt", _read(said)),
        cached_tokens=watch.cached(),
        completion_tokens=written,
    )


def _loading(watch: Watch, waited: float, now: float, loading_since: float | None) -> float:
    if watch.leased_at is not None:
        return min(watch.load_s, waited)
    return 0.0 if loading_since is None else now - loading_since


def _divided(watch: Watch, ended: float, said: dict[str, float]) -> tuple[float | None, float | None]:
    if watch.leased_at is None:
        return None, None
    if watch.first is not None:
        return watch.first - watch.leased_at, watch.last - watch.first
    work_s = ended - watch.leased_at
    if not said.get("predicted_ms"):
        return None, work_s
    decode_s = min(work_s, said["predicted_ms"] / _MS)
    return work_s - decode_s, decode_s


def _read(said: dict[str, float]) -> int | None:
    return int(said["prompt_n"] + said.get("cache_n", 0)) if "prompt_n" in said else None


def _rate(watch: Watch, written: int | None, said: dict[str, float]) -> float | None:
    if said.get("predicted_ms") and said.get("predicted_n", 0) >= _TWO:
        return said["predicted_n"] * _MS / said["predicted_ms"]
    tpot_s = watch.tpot_s(written)
    return 1 / tpot_s if tpot_s else None
