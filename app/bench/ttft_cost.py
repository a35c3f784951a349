"""How much later the first token arrives through the gateway, in units of a proxy that does nothing but proxy."""

import statistics
from collections.abc import Sequence

from app.bench.figures import Figure, at_most, not_measured
from app.bench.load import Target, stream_all
from app.bench.programs import is_checkout
from app.bench.proxy_cost import arena

NAME = "TTFT added p50, 8 streams at 50 tokens/s / bare proxy"
TARGET = 1.5
STREAMS = 8
PER_SECOND = 50
CHUNKS = 5
WAVES = 90


def measure(waves: int = WAVES) -> Sequence[Figure]:
    """Return the ratio of what each adds to the median time to first token."""
    if not is_checkout():
        return [not_measured(NAME, f"<= {TARGET:g}", "needs a source checkout")]
    with arena(chunks=CHUNKS, per_second=PER_SECOND) as there:
        targets = (there.engine, there.bare.target, there.gateway.target)
        _round(targets, 0)
        rounds = [_round(targets, number) for number in range(waves)]
    bare = statistics.median(seen[1] - seen[0] for seen in rounds)
    gateway = statistics.median(seen[2] - seen[0] for seen in rounds)
    added = f"{gateway * 1e3:.2f} ms; bare proxy {bare * 1e3:.2f} ms"
    return [
        at_most(NAME, gateway / bare, TARGET),
        Figure(name="TTFT added p50 by the gateway", measured=added, target="-", ok=None),
    ]


def _round(targets: Sequence[Target], number: int) -> list[float]:
    """Return each target's median time to first token; who goes first changes from round to round."""
    seen = [0.0] * len(targets)
    for turn in range(len(targets)):
        at = (turn + number) % len(targets)
        seen[at] = statistics.median(_wave(targets[at]))
    return seen


def _wave(target: Target) -> list[float]:
    streams, _ = stream_all(target, streams=STREAMS, request={})
    return [stream.ttft_s for stream in streams]
