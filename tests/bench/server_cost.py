"""What standing before an engine with a server of its own costs, where it batches: tokens a second at 1 to 64 streams.

vLLM on the processor, by our plan and behind our key, against the same command without either; and llama.cpp through
the gateway against its own port (`throughput`). The two vLLMs run one after the other, in turns: idle as well as busy
they would take cores from each other. Needs what `make test-engines` installs.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from app.config.paths import RESOURCES
from engines.api import EngineInstallation, LaunchOptions, ListenOptions, ModelFormat, ModelSource
from engines.vllm.launch import ADAPTER
from tests.bench.figures import BenchFigure, at_least, not_measured, without_target
from tests.bench.load import BenchTarget
from tests.bench.programs import HOST, run_program, wait_for
from tests.bench.worker_against_loop import STREAMS, rate
from tests.ports import free_port
from tests.real_engines import vllm_on_cpu
from tests.real_engines.on_cpu import is_made

RATIO = 0.95
TURNS = 2
ROUNDS = 3
NAME = "vLLM's tokens/s by our plan / alone"
OPTIONS = LaunchOptions(context=1024, slots=max(STREAMS), gpu_memory_fraction=0.1)
_READY_WITHIN_S = 900.0
"""Half a minute on two quiet cores; four among others."""
_GUARD = "engines.foreign_worker"


class ServerRates(NamedTuple):
    """The best rate of each number of streams, by our plan and alone."""

    ours: dict[int, float]
    alone: dict[int, float]


def measure(turns: int = TURNS, rounds: int = ROUNDS) -> Sequence[BenchFigure]:
    """Return the ratio at each number of streams, and the rates."""
    if not is_made(vllm_on_cpu.NAME, vllm_on_cpu.VERSION):
        return [not_measured(NAME, f">= {RATIO:g}", "`make test-engines` first")]
    return list(_compare(measure_vllm(vllm_on_cpu.vllm_program(), turns, rounds)))


def measure_vllm(program: Path, turns: int, rounds: int) -> ServerRates:
    """Return the best of several rounds in several turns."""
    rates = ServerRates(dict.fromkeys(STREAMS, 0.0), dict.fromkeys(STREAMS, 0.0))
    for _ in range(turns):
        for best, is_guarded in ((rates.ours, True), (rates.alone, False)):
            with run_vllm(program, is_guarded=is_guarded) as target:
                for streams, tokens in STREAMS.items():
                    best[streams] = max(best[streams], *(rate(target, "guide", streams, tokens) for _ in range(rounds)))
    return rates


@contextmanager
def run_vllm(program: Path, *, is_guarded: bool) -> Iterator[BenchTarget]:
    """Run vLLM by its plan, or the same command without what stands before it."""
    installation = EngineInstallation(
        engine="vllm", version=vllm_on_cpu.VERSION, backend="cpu", python=program.with_name("python")
    )
    net = ListenOptions(host=HOST, port=free_port(), key=secrets.token_hex(16))
    source = ModelSource(name="guide", path=RESOURCES / "guide" / "hf", format=ModelFormat.SAFETENSORS)
    plan = ADAPTER.plan(source, OPTIONS, net, installation)
    (process,) = plan.processes
    argv = process.argv if is_guarded else tuple(word for word in process.argv if word != _GUARD)
    with run_program(argv, {**process.env, **process.secrets}) as child:
        wait_for(net.port, child, plan.readiness.path, key=net.key, within_s=_READY_WITHIN_S)
        yield BenchTarget(plan.base_url, net.key)


def _compare(rates: ServerRates) -> Iterator[BenchFigure]:
    for streams, ours in rates.ours.items():
        yield at_least(f"{NAME}, {streams} at once", ours / rates.alone[streams], RATIO)
        yield without_target(f"vLLM by our plan, {streams} at once", f"{ours:.0f} tokens/s")
