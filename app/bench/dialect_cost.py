"""What a streamed chunk costs where the gateway translates or mends it, and how much later the first one arrives.

The measure is the same as for bytes that pass untouched: a bare proxy before the same paced engine in the same run.
"""

import statistics
from collections.abc import Mapping, Sequence

from app.bench.figures import Figure, at_most, not_measured
from app.bench.load import CHAT, Route, is_served
from app.bench.programs import is_checkout
from app.bench.proxy_cost import PER_SECOND, Arena, arena, per_chunk
from app.bench.ttft_cost import CHUNKS as FEW_CHUNKS
from app.bench.ttft_cost import PER_SECOND as UNHURRIED
from app.bench.ttft_cost import TOO_BUSY, Source, round_of

COST_TARGET = 2.5
DELAY_TARGET = 2.0
CHUNKS = 600
ROUNDS = 3
WAVES = 60

_MESSAGES = [{"role": "user", "content": "Hi"}]
ROUTES: Mapping[str, Route] = {
    "Ollama": Route("/api/chat", {"messages": _MESSAGES}, b'"content"', b"\n"),
    "LM Studio": Route("/api/v1/chat", {"input": "Hi", "store": False}, b"message.delta"),
    "Anthropic": Route("/v1/messages", {"messages": _MESSAGES, "max_tokens": 1000}, b"content_block_delta"),
    "Responses": Route("/v1/responses", {"input": "Hi", "store": False}, b"output_text.delta"),
}
"""llama.cpp speaks Anthropic's dialect itself; what it says is mended on its way."""


def measure_cost(rounds: int = ROUNDS, chunks: int = CHUNKS) -> Sequence[Figure]:
    """Return for each dialect the ratio of processor time per chunk."""
    names = {dialect: f"gateway CPU per streamed chunk, {dialect} / bare proxy" for dialect in ROUTES}
    if not is_checkout():
        return _missing(names, COST_TARGET, "needs a source checkout")
    with arena(chunks=chunks, per_second=PER_SECOND) as there:
        served, missing = _served(there, names, COST_TARGET)
        _costs(there, served)  # what is imported and compiled at first use is not counted
        seen = [_costs(there, served) for _ in range(rounds)]
    ratios = {dialect: statistics.median(one[dialect] / one[""] for one in seen) for dialect in served}
    return [*(at_most(names[dialect], ratio, COST_TARGET) for dialect, ratio in ratios.items()), *missing]


def measure_delay(waves: int = WAVES) -> Sequence[Figure]:
    """Return for each dialect the ratio of what is added to the median time to first token."""
    names = {dialect: f"TTFT added p50, 8 streams, {dialect} / bare proxy" for dialect in ROUTES}
    if not is_checkout():
        return _missing(names, DELAY_TARGET, "needs a source checkout")
    with arena(chunks=FEW_CHUNKS, per_second=UNHURRIED) as there:
        served, missing = _served(there, names, DELAY_TARGET)
        sources = [Source(there.engine), Source(there.bare.target)]
        sources += [Source(there.gateway.target, ROUTES[dialect]) for dialect in served]
        round_of(sources, 0)
        rounds = [round_of(sources, number) for number in range(waves)]
    bare_s, *added = (statistics.median(seen[at] - seen[0] for seen in rounds) for at in range(1, len(sources)))
    if bare_s <= 0:
        return _missing(names, DELAY_TARGET, TOO_BUSY)
    figures = [
        at_most(names[dialect], late_s / bare_s, DELAY_TARGET) for dialect, late_s in zip(served, added, strict=True)
    ]
    told = "; ".join(f"{dialect} {late_s * 1e3:.2f} ms" for dialect, late_s in zip(served, added, strict=True))
    absolute = Figure(name="TTFT added p50", measured=f"bare proxy {bare_s * 1e3:.2f} ms; {told}", target="-", ok=None)
    return [*figures, *missing, absolute]


def _costs(there: Arena, dialects: Sequence[str]) -> dict[str, float]:
    """Return the seconds per chunk: of the bare proxy under "", of the gateway under each dialect."""
    costs = {dialect: per_chunk(there.gateway, ROUTES[dialect]) for dialect in dialects}
    return {"": per_chunk(there.bare, CHAT), **costs}


def _served(there: Arena, names: Mapping[str, str], target: float) -> tuple[list[str], list[Figure]]:
    """Return the dialects that this gateway speaks, and the figures of those it does not."""
    served = [dialect for dialect, route in ROUTES.items() if is_served(there.gateway.target, route)]
    lacking = {dialect: name for dialect, name in names.items() if dialect not in served}
    return served, _missing(lacking, target, "the gateway has no such route")


def _missing(names: Mapping[str, str], target: float, why: str) -> list[Figure]:
    return [not_measured(name, f"<= {target:g}", why) for name in names.values()]
