"""What the gateway costs who asks through it, in units of the proxy that Go's standard library makes.

Go's proxy, a bare one in aiohttp and the gateway stand before the same scripted engine in the same run, each a process
of its own, and take turns; what a round finds is compared within the round, and the median of the rounds counts.
Processor time is a proxy's own, user and system.
"""

import asyncio
import contextlib
import statistics
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from app.config.open_files import raise_open_file_limit
from tests.bench import go_proxy
from tests.bench.figures import BenchFigure, at_least, at_most, not_measured, percentile, without_target
from tests.bench.load import dialect_routes
from tests.bench.proxied import BARE, EngineBehindGateway, Proxy, run_server, start_proxied_engine, start_proxy
from tests.bench.proxy_turns import ProxyTurn, StreamPace, answer_s, chunk_s, delays_s, run_crowd

T = TypeVar("T")

GO, AIOHTTP, OURS, ENGINE = "Go", "bare aiohttp", "gateway", "engine"
MANY, IN_STEP = StreamPace(16, 50), StreamPace(16, 50, in_step=True)
"""Streams that began at different times, each of which wakes a proxy, and those of one batch, which do so together."""
FAST, BESIDE, CROWD = StreamPace(1, 2000), StreamPace(8, 50), StreamPace(200, 20)
NATIVE, NATIVE_FAST = 0.75, 0.8
"""The most processor time for a chunk that passes untouched, of what Go's proxy takes."""
TRANSLATED = {"Anthropic": 1.5, "Ollama": 1.5, "Responses": 1.5, "LM Studio": 1.5, "Anthropic, mended": 1.5}
"""The same for a chunk in another dialect; Go's proxy passes it untouched."""
DELAY_MS, LONGEST_DELAY_MS, TRANSLATED_DELAY_MS = 0.5, 2.0, 1.0
ANSWERS = 0.5
"""The least whole answers for the same processor time, of what Go's proxy gives."""
GAP_MS = 20.0


class Extent(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured: rounds, seconds of each turn, pairs of requests in one, and tokens of each in a crowd."""

    rounds: int = 5
    streams_s: float = 1.2
    answers_s: float = 0.6
    pairs: int = 40
    tokens: int = 40


class ProxyComparison(NamedTuple):
    """Who is compared, by name, in the order of the first round; and the engine behind them."""

    engine: Proxy
    proxies: Mapping[str, Proxy]
    extent: Extent

    async def run_rounds(self, names: Sequence[str], turn: Callable[[str], Awaitable[T]]) -> list[dict[str, T]]:
        """Return what each one's turn yields, for every round; who goes first changes from round to round."""
        rounds: list[dict[str, T]] = []
        for number in range(self.extent.rounds):
            first = number % len(names)
            rounds.append({name: await turn(name) for name in (*names[first:], *names[:first])})
        return rounds

    def turn(self, name: str, pace: StreamPace) -> ProxyTurn:
        """Return a proxy's turn, or the gateway's in the dialect of that name."""
        if name in self.proxies:
            return ProxyTurn(self.proxies[name], pace)
        return ProxyTurn(self.proxies[OURS], pace, name)


def measure(extent: Extent | None = None) -> Sequence[BenchFigure]:
    """Return all that is compared; without Go, what needs no comparison with it."""
    raise_open_file_limit()
    with _start_comparison(extent or Extent()) as (sides, missing_proxies):
        return [*missing_proxies, *asyncio.run(_figures(sides))]


@contextlib.contextmanager
def _start_comparison(extent: Extent) -> Iterator[tuple[ProxyComparison, Sequence[BenchFigure]]]:
    """Start everybody; return them, and what is to be said where Go's proxy is not among them."""
    with contextlib.ExitStack() as stack:
        there: EngineBehindGateway = stack.enter_context(start_proxied_engine())
        proxies = {AIOHTTP: stack.enter_context(start_proxy(BARE, there.engine.target)), OURS: there.gateway}
        try:
            program = str(go_proxy.build())
        except go_proxy.GoUnavailable as error:
            yield ProxyComparison(there.engine, proxies, extent), [without_target("Go's proxy", str(error))]
            return
        go = run_server([program], there.engine.target.url, environment=go_proxy.ENVIRONMENT)
        yield ProxyComparison(there.engine, {GO: stack.enter_context(go), **proxies}, extent), []


async def _figures(sides: ProxyComparison) -> list[BenchFigure]:
    await _warm_up(sides)
    return [
        *await _chunks(sides),
        *await _delays(sides),
        *await _answers(sides),
        *await _crowd(sides),
    ]


async def _warm_up(sides: ProxyComparison) -> None:
    """Have everybody import and compile what they need at first use."""
    for name in (*sides.proxies, *dialect_routes()):
        await chunk_s(sides.turn(name, MANY), 0.1)
    for proxy_process in sides.proxies.values():
        await answer_s(proxy_process, 0.1)


async def _chunks(sides: ProxyComparison) -> list[BenchFigure]:
    """Return what a chunk costs: passed untouched at each pace, and in other dialects at the first."""
    many = await _costs(sides, MANY, (*sides.proxies, *TRANSLATED))
    fast = await _costs(sides, FAST, (*sides.proxies,))
    in_step = await _costs(sides, IN_STEP, (*sides.proxies,))
    return [
        _against_go(f"CPU per chunk, {MANY}, native: gateway / Go", many, OURS, NATIVE),
        _against_go(f"CPU per chunk, {IN_STEP}, native: gateway / Go", in_step, OURS, NATIVE),
        _against_go(f"CPU per chunk, {FAST}, native: gateway / Go", fast, OURS, NATIVE_FAST),
        *(
            _against_go(f"CPU per chunk, {MANY}, {who}: gateway / Go", many, who, limit)
            for who, limit in TRANSLATED.items()
        ),
        *(
            without_target(f"CPU per chunk, {pace}", _medians(rounds, 1e6, "us"))
            for pace, rounds in {MANY: many, IN_STEP: in_step, FAST: fast}.items()
        ),
    ]


async def _costs(sides: ProxyComparison, pace: StreamPace, names: Sequence[str]) -> list[dict[str, float]]:
    return await sides.run_rounds(names, lambda name: chunk_s(sides.turn(name, pace), sides.extent.streams_s))


async def _delays(sides: ProxyComparison) -> list[BenchFigure]:
    """Return how much later first tokens come than from the engine itself."""
    dialects = dict.fromkeys(dialect_routes(), TRANSLATED_DELAY_MS)
    rounds = await sides.run_rounds(
        (*sides.proxies, *dialects),
        lambda name: delays_s(sides.turn(name, BESIDE), sides.engine.target, sides.extent.pairs),
    )
    delays_ms = {name: [delay * 1e3 for delays in rounds for delay in delays[name]] for name in rounds[0]}
    name = f"added to the first token beside {BESIDE}"
    each = [
        f"{who} {percentile(values, 50):.2f} / {percentile(values, 98):.2f} ms" for who, values in delays_ms.items()
    ]
    return [
        at_most(f"{name}, native, p50", percentile(delays_ms[OURS], 50), DELAY_MS, "ms"),
        at_most(f"{name}, native, p98", percentile(delays_ms[OURS], 98), LONGEST_DELAY_MS, "ms"),
        *(
            at_most(f"{name}, {dialect}, p50", percentile(delays_ms[dialect], 50), limit, "ms")
            for dialect, limit in dialects.items()
        ),
        without_target(f"{name}, p50 / p98", "; ".join(each)),
    ]


async def _answers(sides: ProxyComparison) -> list[BenchFigure]:
    """Return how many whole answers of 1 kB there are for a second of processor time."""
    rounds = await sides.run_rounds(
        list(sides.proxies), lambda name: answer_s(sides.proxies[name], sides.extent.answers_s)
    )
    per_s = [{name: 1 / cost_s for name, cost_s in costs.items()} for costs in rounds]
    name = "whole answers of 1 kB per second of CPU"
    return [
        _against_go(f"{name}: gateway / Go", per_s, OURS, ANSWERS, at_least),
        without_target(name, _medians(per_s, 1, "")),
    ]


async def _crowd(sides: ProxyComparison) -> list[BenchFigure]:
    """Return what became of many streams at once, asked for in one moment."""
    names = [name for name in (GO, OURS) if name in sides.proxies]
    turns = {ENGINE: ProxyTurn(sides.engine, CROWD), **{name: sides.turn(name, CROWD) for name in names}}
    rounds = await sides.run_rounds(list(turns), lambda name: run_crowd(turns[name], sides.extent.tokens))
    added_gaps = [{name: results[name].gap_s - results[ENGINE].gap_s for name in names} for results in rounds]
    gap_ms = statistics.median(gaps[OURS] for gaps in added_gaps) * 1e3
    return [
        at_most(f"{CROWD} at once: tokens and ends lost", sum(results[OURS].lost_count for results in rounds), 0),
        at_most(f"{CROWD} at once: added to the gap between tokens, p99", gap_ms, GAP_MS, "ms"),
        without_target(f"{CROWD} at once: added to the gap, p99", _medians(added_gaps, 1e3, "ms")),
    ]


def _against_go(
    name: str,
    rounds: Sequence[Mapping[str, float]],
    who: str,
    limit: float,
    compare: Callable[..., BenchFigure] = at_most,
) -> BenchFigure:
    if GO not in rounds[0]:
        return not_measured(name, f"{'<=' if compare is at_most else '>='} {limit:g}", "needs Go")
    return compare(name, statistics.median(values[who] / values[GO] for values in rounds), limit)


def _medians(rounds: Sequence[Mapping[str, float]], scale: float, unit: str) -> str:
    medians = {name: scale * statistics.median(values[name] for values in rounds) for name in rounds[0]}
    return "; ".join(f"{name} {median:.3g} {unit}".rstrip() for name, median in medians.items())
