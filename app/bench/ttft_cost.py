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
WAVES = 40


def measure(waves: int = WAVES) -> Sequence[Figure]:
    """Return the ratio of what each adds to the median time to first token."""
    if not is_checkout():
        return [not_measured(NAME, f"<= {TARGET:g}", "needs a source checkout")]
    with arena(chunks=CHUNKS, per_second=PER_SECOND) as there:
        targets = (there.engine, there.bare.target, there.gateway.target)
        for target in targets:
            _wave(target)
        times: list[list[float]] = [[], [], []]
        for _ in range(waves):
            for target, seen in zip(targets, times, strict=True):
                seen.extend(_wave(target))
    direct, bare, gateway = (statistics.median(seen) for seen in times)
    added = f"{(gateway - direct) * 1e3:.2f} ms; bare proxy {(bare - direct) * 1e3:.2f} ms"
    return [
        at_most(NAME, (gateway - direct) / (bare - direct), TARGET),
        Figure(name="TTFT added p50 by the gateway", measured=added, target="-", ok=None),
    ]


def _wave(target: Target) -> list[float]:
    streams, _ = stream_all(target, streams=STREAMS, request={})
    return [stream.ttft_s for stream in streams]
