"""How much later the first token arrives through the gateway, in units of a proxy that does nothing but proxy."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from app.bench.figures import Figure, at_most, not_measured
from app.bench.load import CHAT, Route, Target, stream_all
from app.bench.programs import is_checkout
from app.bench.proxy_cost import arena

NAME = "TTFT added p50, 8 streams at 50 tokens/s / bare proxy"
TARGET = 1.5
STREAMS = 8
PER_SECOND = 50
CHUNKS = 5
WAVES = 90


class Source(NamedTuple):
    """Where streams come from."""

    target: Target
    route: Route = CHAT


TOO_BUSY = "the computer is too busy: the bare proxy was no later than the engine"


def measure(waves: int = WAVES) -> Sequence[Figure]:
    """Return the ratio of what each adds to the median time to first token."""
    if not is_checkout():
        return [not_measured(NAME, f"<= {TARGET:g}", "needs a source checkout")]
    with arena(chunks=CHUNKS, per_second=PER_SECOND) as there:
        sources = [Source(target) for target in (there.engine, there.bare.target, there.gateway.target)]
        round_of(sources, 0)
        rounds = [round_of(sources, number) for number in range(waves)]
    bare = statistics.median(seen[1] - seen[0] for seen in rounds)
    gateway = statistics.median(seen[2] - seen[0] for seen in rounds)
    added = f"{gateway * 1e3:.2f} ms; bare proxy {bare * 1e3:.2f} ms"
    ratio = at_most(NAME, gateway / bare, TARGET) if bare > 0 else not_measured(NAME, f"<= {TARGET:g}", TOO_BUSY)
    return [
        ratio,
        Figure(name="TTFT added p50 by the gateway", measured=added, target="-", ok=None),
    ]


def round_of(sources: Sequence[Source], number: int) -> list[float]:
    """Return each source's median time to first token; who goes first changes from round to round."""
    seen = [0.0] * len(sources)
    for turn in range(len(sources)):
        at = (turn + number) % len(sources)
        seen[at] = statistics.median(_wave(sources[at]))
    return seen


def _wave(source: Source) -> list[float]:
    streams, _ = stream_all(source.target, streams=STREAMS, request={}, route=source.route)
    return [stream.ttft_s for stream in streams]
