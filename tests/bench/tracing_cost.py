"""What sending traces costs the gateway: its processor time for an answer and for a token, with traces and without.

Both gateways stand before the same scripted engine and take turns; a third, a second one without, says how much two
that are alike differ.
"""

import asyncio
import contextlib
import statistics
from collections.abc import Mapping, Sequence

from app.config.programs import module_command
from tests.bench.figures import BenchFigure, at_most, without_target
from tests.bench.proxied import GATEWAY, Proxy, run_server, start_proxy
from tests.bench.proxy_turns import ProxyTurn, StreamPace, answer_s, chunk_s

ROUNDS = 7
SECONDS = 1.5
PACE = StreamPace(streams=16, per_second=50)
MOST_OF_AN_ANSWER, MOST_OF_A_TOKEN = 1.5, 1.1
"""Times what it takes without traces. Short answers, which an engine writes at once, are the worst case."""
US = 1e6


def measure() -> Sequence[BenchFigure]:
    """Return the ratios of the medians, and what an answer takes with traces and without."""
    with contextlib.ExitStack() as stack:
        engine = stack.enter_context(run_server(module_command("tests.bench.paced_engine"))).target
        sink = stack.enter_context(run_server(module_command("tests.bench.trace_sink"))).target
        return compare(
            {
                "without": stack.enter_context(start_proxy(GATEWAY, engine)),
                "alike": stack.enter_context(start_proxy(GATEWAY, engine)),
                "with": stack.enter_context(start_proxy(GATEWAY, engine, sink.url)),
            }
        )


def compare(gateways: Mapping[str, Proxy]) -> Sequence[BenchFigure]:
    """Let the gateways take turns."""
    answers: dict[str, list[float]] = {name: [] for name in gateways}
    tokens: dict[str, list[float]] = {name: [] for name in gateways}
    for _ in range(ROUNDS):
        for name, gateway in gateways.items():
            answers[name].append(asyncio.run(answer_s(gateway, SECONDS)) * US)
            tokens[name].append(asyncio.run(chunk_s(ProxyTurn(gateway, PACE), SECONDS)) * US)
    answer_us = {name: statistics.median(turns) for name, turns in answers.items()}
    token_us = {name: statistics.median(turns) for name, turns in tokens.items()}
    return [
        at_most("an answer with traces to one without", answer_us["with"] / answer_us["without"], MOST_OF_AN_ANSWER),
        at_most("a token with traces to one without", token_us["with"] / token_us["without"], MOST_OF_A_TOKEN),
        without_target("two without traces: an answer", f"{answer_us['alike'] / answer_us['without']:.2f}"),
        without_target("two without traces: a token", f"{token_us['alike'] / token_us['without']:.2f}"),
        without_target("an answer with and without", f"{answer_us['with']:.0f} and {answer_us['without']:.0f} us"),
        without_target("a token with and without", f"{token_us['with']:.1f} and {token_us['without']:.1f} us"),
    ]
