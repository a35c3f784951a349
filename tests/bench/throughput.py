"""Tokens per second through the gateway, as a share of what the same engine process gives directly.

The built-in model is so small that it writes thousands of tokens a second: the hardest case for whoever stands between.
"""

import contextlib
import secrets
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from app.config.paths import guide_gguf
from engines.api import EngineInstallation, LaunchOptions, ListenOptions, ModelFormat, ModelSource
from engines.registry import ADAPTERS
from tests.bench.figures import BenchFigure, at_least, not_measured, without_target
from tests.bench.load import BenchTarget, stream_all
from tests.bench.programs import HOST, run_program, wait_for
from tests.bench.proxied import GATEWAY, start_proxy
from tests.ports import free_port

ENGINE = "llama.cpp"
TARGETS = {1: 0.95, 8: 0.90}
"""Streams at once, and the least share that must be left."""
ROUNDS = 11
TOKENS = 400
CONTEXT = 1024


class ThroughputSides(NamedTuple):
    """The same engine, directly and through the gateway, and what is asked of both."""

    direct: BenchTarget
    gateway: BenchTarget
    streams: int
    request: dict[str, object]

    def tokens_per_s(self) -> tuple[float, float]:
        """Return the tokens per second of all streams together, of both sides."""
        return self._measure_side(self.direct), self._measure_side(self.gateway)

    def _measure_side(self, target: BenchTarget) -> float:
        tokens_done, seconds = stream_all(target, streams=self.streams, request=self.request)
        return sum(stream.tokens for stream in tokens_done) / seconds


def measure(model: Path | None = None, rounds: int = ROUNDS, tokens: int = TOKENS) -> Sequence[BenchFigure]:
    """Return the share for one stream and for eight."""
    file = model or guide_gguf()
    if not file.exists():
        why = "needs the Guide"
        return [not_measured(_name(streams), f">= {target:g}", why) for streams, target in TARGETS.items()]
    request: dict[str, object] = {
        "max_tokens": tokens,
        "ignore_eos": True,
        "stream_options": {"include_usage": True},
    }
    with run_engine(file) as direct, start_proxy(GATEWAY, direct) as gateway:
        return [
            figure
            for streams, least in TARGETS.items()
            for figure in _compare_sides(
                ThroughputSides(direct, gateway.target, streams, request), least=least, rounds=rounds
            )
        ]


@contextlib.contextmanager
def run_engine(file: Path) -> Iterator[BenchTarget]:
    """Run the engine on a model file, as the supervisor would."""
    adapter = ADAPTERS[ENGINE]
    installation = adapter.probe()
    if not isinstance(installation, EngineInstallation):
        raise RuntimeError(installation.sentence)  # noqa: TRY004 -- not a wrong type: the engine is missing
    net = ListenOptions(host=HOST, port=free_port(), key=secrets.token_hex(16))
    source = ModelSource(name="guide", path=file, format=ModelFormat.GGUF)
    plan = adapter.plan(source, LaunchOptions(context=CONTEXT, slots=max(TARGETS)), net, installation)
    (process,) = plan.processes
    with run_program(process.argv, {**process.env, **process.secrets}) as child:
        wait_for(net.port, child, plan.readiness.path)
        yield BenchTarget(plan.base_url, net.key)


def _compare_sides(sides: ThroughputSides, *, least: float, rounds: int) -> list[BenchFigure]:
    sides.tokens_per_s()
    pairs = [sides.tokens_per_s() for _ in range(rounds)]
    share = statistics.median(through / straight for straight, through in pairs)
    speed = f"{statistics.median(through for _, through in pairs):.0f} tokens/s"
    return [
        at_least(_name(sides.streams), share, least),
        without_target(f"{_streams(sides.streams)} through the gateway", speed),
    ]


def _name(streams: int) -> str:
    return f"tokens/s through the gateway / direct, {_streams(streams)}"


def _streams(count: int) -> str:
    return "1 stream" if count == 1 else f"{count} streams"
