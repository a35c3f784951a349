"""Our worker against its library's own loop, in turns: `python -m tests.bench.worker_against_loop ROUNDS`, JSON out.

Same model, same environment, same prompt, the same number of tokens. For each library: the ratio of tokens a second at
one to 64 streams, that of tokens a second of processor time, which other programs disturb less, and how much longer
than the library's own load the worker takes until it is ready.

Of two processes with the same work the one that was started last may compute 4 to 17 % faster, for as long as both
live. So there are two pairs: in one the worker is started first, in the other the loop.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO, NamedTuple

import msgspec
import psutil

from app.config.paths import RESOURCES
from engines.api import EngineAdapter, EngineInstallation, LaunchOptions, ModelFormat
from engines.exllama.exl2 import ADAPTER as EXL2
from engines.exllama.exl3 import ADAPTER as EXL3
from engines.llama_cpp.launch import ADAPTER as LLAMA_CPP
from engines.mistral_rs.launch import ADAPTER as MISTRAL_RS
from engines.mlx_lm.launch import ADAPTER as MLX_LM
from engines.onnx_genai.launch import ADAPTER as ONNX
from engines.openvino.launch import ADAPTER as OPENVINO
from tests.bench.library_loop import CONTEXT, SLOTS
from tests.bench.load import CHAT, BenchTarget, stream_all
from tests.end_to_end.worker import KEY, Engine, Worker
from tests.engine_environments import find_installed, is_made
from tests.real_engines import exllama_on_cpu, on_cpu

LOOP = Path(__file__).with_name("library_loop.py")
THREADS = max(1, (os.cpu_count() or 2) - 1)
"""One core is left to the client, which is no part of the worker."""
OPTIONS = LaunchOptions(context=CONTEXT, slots=SLOTS, threads=THREADS)
STREAMS = {1: 400, 4: 200, 16: 100, 64: 50}
"""Streams at once, and how many tokens each writes."""
COMPILED = "native"
_READY_S = 600.0
"""ExLlamaV3 tries its kernels beforehand, which PyTorch in their place takes minutes for on a busy processor."""
_FEWER = 4
"""So many times fewer tokens of an ExLlama on a processor, where it takes milliseconds for each."""


WRITES_ON: Mapping[str, object] = MappingProxyType({"ignore_eos": True})
"""What has most servers write as many tokens as they may."""
_WITHOUT_ENDS = {"logit_bias": {str(token): -100.0 for token in (2, 0)}}
"""The Guide's ends, for a server that knows no `ignore_eos`."""


class Case(NamedTuple):
    """A library: its folder and variant under `engines`, the Guide's form, and its name in `library_loop.py`."""

    title: str
    adapter: EngineAdapter
    folder: str
    form: str
    name: str
    variant: str = "cpu"
    format: ModelFormat | None = None
    """Where the adapter reads the Guide's form beside others."""
    stands_in: bool = False
    """Whether it is an ExLlama, with stand-ins for what it compiles for cards."""
    wishes: Mapping[str, object] = WRITES_ON
    """How its answers are made as long as all others."""

    @property
    def is_there(self) -> bool:
        """Whether it can be measured at once; what has to be compiled first takes minutes."""
        if self.stands_in:
            return on_cpu.is_made(exllama_on_cpu.NAME, exllama_on_cpu.VERSIONS["exllamav3"])
        return self.variant != COMPILED or is_made(self.folder, self.variant)

    @property
    def environment(self) -> Mapping[str, str]:
        """What its processes are started with, beside the usual."""
        return {**exllama_on_cpu.ENVIRONMENT, "OMP_NUM_THREADS": str(THREADS)} if self.stands_in else {}

    @property
    def options(self) -> LaunchOptions:
        """What the worker is planned with."""
        threads = None if self.adapter.descriptor.chooses_threads else THREADS
        return msgspec.structs.replace(OPTIONS, threads=threads, extra_env=self.environment)

    def find_installation(self) -> EngineInstallation:
        """Return where it is, made first if need be."""
        if self.stands_in:
            return exllama_on_cpu.exllama_installation(self.adapter.descriptor.id)
        return find_installed(self.adapter, self.folder, self.variant)

    def count_tokens(self, streams: int) -> int:
        """Return how many tokens each of so many streams writes."""
        return STREAMS[streams] // _FEWER if self.stands_in else STREAMS[streams]


CASES = (
    Case("OpenVINO GenAI", OPENVINO, "openvino", "openvino", "openvino"),
    Case("ONNX Runtime GenAI", ONNX, "onnx_genai", "onnx", "onnx"),
    Case("mistral.rs", MISTRAL_RS, "mistral_rs", "hf", "mistral_rs"),
    Case("MLX-LM", MLX_LM, "mlx_lm", "hf", "mlx", format=ModelFormat.SAFETENSORS, wishes=_WITHOUT_ENDS),
    Case("llama-cpp-python", LLAMA_CPP, "llama_cpp", "guide-q8_0.gguf", "llama_cpp_python", COMPILED),
    Case("ExLlamaV3", EXL3, "exllama", "hf", "exllamav3", stands_in=True),
    Case("ExLlamaV2", EXL2, "exllamav2", "hf", "exllamav2", stands_in=True),
)


class Loop:
    """The library's loop in a process of its own."""

    def __init__(self, case: Case, installation: EngineInstallation, model: Path) -> None:
        self._process = subprocess.Popen(
            (str(installation.python), str(LOOP), case.name, str(model), str(THREADS)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **case.environment},
        )
        self.process_id = self._process.pid
        self.load_s = self._read_reply()["load_s"]

    def rate(self, streams: int, tokens: int) -> float:
        """Return tokens a second of all streams together."""
        pipe = self._process.stdin
        assert pipe is not None
        pipe.write(f"{streams} {tokens}\n")
        pipe.flush()
        return self._read_reply()["tokens_per_s"]

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()

    def _read_reply(self) -> dict[str, float]:
        pipe: IO[str] | None = self._process.stdout
        assert pipe is not None
        body: dict[str, float] = json.loads(pipe.readline())
        return body


def rate(target: BenchTarget, name: str, streams: int, tokens: int, wishes: Mapping[str, object] = WRITES_ON) -> float:
    """Return tokens a second of all streams together, as clients see them. Raises ValueError for short answers."""
    body: dict[str, object] = {
        "model": name,
        "messages": [{"role": "user", "content": "what is vram?"}],
        "max_tokens": tokens,
        **wishes,
        "temperature": 0,
        "stream_options": {"include_usage": True},
    }
    answers, seconds = stream_all(target, streams=streams, request=body, route=CHAT)
    if any(answer.tokens != tokens for answer in answers):
        raise ValueError(f"{name} wrote {[answer.tokens for answer in answers]} tokens instead of {tokens} each")
    return streams * tokens / seconds


def start_worker(case: Case, installation: EngineInstallation) -> Worker:
    """Start a library's worker, and wait until it is ready."""
    engine = Engine(case.adapter, installation, case.format)
    model = RESOURCES / "guide" / case.form
    worker = Worker(model, case.options, engine=engine, is_confined=not case.stands_in)
    assert worker.is_ready(within_s=_READY_S), worker.lines
    return worker


def start_loop(case: Case, installation: EngineInstallation) -> Loop:
    """Start a library's loop, and wait until its model is loaded."""
    return Loop(case, installation, RESOURCES / "guide" / case.form)


@contextmanager
def both(case: Case, *, is_loop_first: bool) -> Iterator[tuple[Worker, Loop]]:
    """Start the worker and the loop, in this order or the other."""
    installation = case.find_installation()
    with ExitStack() as stack:
        loop = stack.enter_context(closing(start_loop(case, installation))) if is_loop_first else None
        worker = stack.enter_context(closing(start_worker(case, installation)))
        yield worker, loop or stack.enter_context(closing(start_loop(case, installation)))


class _Round(NamedTuple):
    """Tokens a second, and what the process took of the processor."""

    rate: float
    processor_s: float


class _Rounds(NamedTuple):
    """Rounds of the worker and of the loop, with the same number of streams."""

    ours: list[_Round]
    theirs: list[_Round]

    def add(self, case: Case, worker: Worker, loop: Loop, streams: int) -> None:
        """Run one of each."""
        target, tokens = BenchTarget(worker.plan.base_url, KEY), case.count_tokens(streams)
        name = worker.plan.served_name
        self.ours.append(_time_round(worker.process.pid, lambda: rate(target, name, streams, tokens, case.wishes)))
        self.theirs.append(_time_round(loop.process_id, lambda: loop.rate(streams, tokens)))

    def compare_best(self) -> tuple[float, float]:
        """Return the best against the best, by the clock and by the processor: what other programs take is no cost."""
        return (
            max(each.rate for each in self.ours) / max(each.rate for each in self.theirs),
            min(each.processor_s for each in self.theirs) / min(each.processor_s for each in self.ours),
        )


def _time_round(process_id: int, run: Callable[[], float]) -> _Round:
    before = processor_time(process_id)
    tokens_per_s = run()
    return _Round(tokens_per_s, processor_time(process_id) - before)


def processor_time(process_id: int) -> float:
    """Return the seconds that all threads of a process have computed, those that have ended among them."""
    if sys.platform == "linux":
        return time.clock_gettime(~process_id << 3 | 2)  # <linux/posix-timers.h>: the clock of another process
    times = psutil.Process(process_id).cpu_times()
    return float(times.user + times.system)


def extra_start_s(case: Case, rounds: int) -> float:
    """Return how much longer the worker takes to be ready than the library to start and load, at best of each."""
    installation = case.find_installation()
    ours, theirs = [], []
    for _ in range(rounds):
        began = time.perf_counter()
        with closing(start_worker(case, installation)):
            ours.append(time.perf_counter() - began)
        began = time.perf_counter()
        with closing(start_loop(case, installation)):
            theirs.append(time.perf_counter() - began)
    return min(ours) - min(theirs)


def main() -> None:
    """Measure the libraries named after the rounds, or every; null stands for one that has to be compiled first."""
    rounds, names = int(sys.argv[1]), sys.argv[2:]
    chosen_cases = [case for case in CASES if not names or case.name in names]
    sys.stdout.write(
        json.dumps({case.title: measure_case(case, rounds) if case.is_there else None for case in chosen_cases})
    )


def measure_case(case: Case, rounds: int) -> dict[str, float]:
    """Measure one, half of the rounds with each of the two pairs."""
    rounds_by_streams = {streams: _Rounds([], []) for streams in STREAMS}
    for is_loop_first in (False, True):
        with both(case, is_loop_first=is_loop_first) as (worker, loop):
            for streams, case_rounds in rounds_by_streams.items():
                for _ in range((rounds + 1) // 2):
                    case_rounds.add(case, worker, loop, streams)
    figures = {}
    for streams, case_rounds in rounds_by_streams.items():
        figures[f"ratio_{streams}"], figures[f"processor_{streams}"] = case_rounds.compare_best()
    return {**figures, "extra_start_s": extra_start_s(case, rounds)}


if __name__ == "__main__":
    main()
