"""Our worker against its library's own loop, in turns: `python -m tests.bench.worker_against_loop ROUNDS`, JSON out.

Same model, same environment, same prompt, the same number of tokens. For each library: the ratio of tokens a second at
one and four streams, and how much longer than the library's own load the worker takes until it is ready.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from app.config.paths import RESOURCES
from engines.api import EngineAdapter, EngineInstallation, LaunchOptions
from engines.llama_cpp.launch import ADAPTER as LLAMA_CPP
from engines.mistral_rs.launch import ADAPTER as MISTRAL_RS
from engines.onnx_genai.launch import ADAPTER as ONNX
from engines.openvino.launch import ADAPTER as OPENVINO
from tests.bench.library_loop import SLOTS, TOKENS
from tests.bench.load import CHAT, BenchTarget, stream_all
from tests.end_to_end.worker import KEY, Engine, Worker
from tests.engine_environments import installed, is_made

LOOP = Path(__file__).with_name("library_loop.py")
THREADS = max(1, (os.cpu_count() or 2) - 1)
"""One core is left to the client, which is no part of the worker."""
OPTIONS = LaunchOptions(context=1024, slots=SLOTS, threads=THREADS)


COMPILED = "native"


class Case(NamedTuple):
    """A library: its folder and variant under `engines`, the Guide's form, and its name in `library_loop.py`."""

    title: str
    adapter: EngineAdapter
    folder: str
    form: str
    name: str
    variant: str = "cpu"

    @property
    def is_there(self) -> bool:
        """Whether it can be measured at once; what has to be compiled first takes minutes."""
        return self.variant != COMPILED or is_made(self.folder, self.variant)


CASES = (
    Case("OpenVINO GenAI", OPENVINO, "openvino", "openvino", "openvino"),
    Case("ONNX Runtime GenAI", ONNX, "onnx_genai", "onnx", "onnx"),
    Case("mistral.rs", MISTRAL_RS, "mistral_rs", "hf", "mistral_rs"),
    Case("llama-cpp-python", LLAMA_CPP, "llama_cpp", "guide-q8_0.gguf", "llama_cpp_python", COMPILED),
)


class Loop:
    """The library's loop in a process of its own."""

    def __init__(self, case: Case, installation: EngineInstallation, model: Path) -> None:
        self._process = subprocess.Popen(
            (str(installation.python), str(LOOP), case.name, str(model), str(THREADS)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.load_s = self._said()["load_s"]

    def rate(self, streams: int) -> float:
        """Return tokens a second of all streams together."""
        pipe = self._process.stdin
        assert pipe is not None
        pipe.write(f"{streams}\n")
        pipe.flush()
        return self._said()["tokens_per_s"]

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()

    def _said(self) -> dict[str, float]:
        pipe: IO[str] | None = self._process.stdout
        assert pipe is not None
        body: dict[str, float] = json.loads(pipe.readline())
        return body


def rate(worker: Worker, streams: int) -> float:
    """Return tokens a second of all streams together, as clients see them."""
    body: dict[str, object] = {
        "messages": [{"role": "user", "content": "what is vram?"}],
        "max_tokens": TOKENS,
        "ignore_eos": True,
        "temperature": 0,
        "stream_options": {"include_usage": True},
    }
    done, seconds = stream_all(BenchTarget(worker.plan.base_url, KEY), streams=streams, request=body, route=CHAT)
    return sum(answer.tokens for answer in done) / seconds


@contextmanager
def both(case: Case) -> Iterator[tuple[Worker, Loop]]:
    """Start the worker and the loop."""
    installation, model = installed(case.adapter, case.folder, case.variant), RESOURCES / "guide" / case.form
    with ExitStack() as stack:
        worker = stack.enter_context(closing(Worker(model, OPTIONS, engine=Engine(case.adapter, installation))))
        assert worker.is_ready(), worker.lines
        yield worker, stack.enter_context(closing(Loop(case, installation, model)))


def ratio(worker: Worker, loop: Loop, streams: int, rounds: int) -> float:
    """Return the best of several rounds against the best, the two in turns: what other programs take is no cost."""
    rates = [(rate(worker, streams), loop.rate(streams)) for _ in range(rounds)]
    return max(ours for ours, _ in rates) / max(theirs for _, theirs in rates)


def extra_start_s(case: Case, rounds: int) -> float:
    """Return how much longer the worker takes to be ready than the library to start and load, at best of each."""
    installation, model = installed(case.adapter, case.folder, case.variant), RESOURCES / "guide" / case.form
    ours, theirs = [], []
    for _ in range(rounds):
        began = time.perf_counter()
        with closing(Worker(model, OPTIONS, engine=Engine(case.adapter, installation))) as worker:
            assert worker.is_ready(), worker.lines
            ours.append(time.perf_counter() - began)
        began = time.perf_counter()
        with closing(Loop(case, installation, model)):
            theirs.append(time.perf_counter() - began)
    return min(ours) - min(theirs)


def main() -> None:
    """Measure every library; null stands for one that has to be compiled first."""
    rounds = int(sys.argv[1])
    sys.stdout.write(json.dumps({case.title: measured(case, rounds) if case.is_there else None for case in CASES}))


def measured(case: Case, rounds: int) -> dict[str, float]:
    """Measure one."""
    with both(case) as (worker, loop):
        figures = {f"ratio_{streams}": ratio(worker, loop, streams, rounds) for streams in (1, SLOTS)}
    return {**figures, "extra_start_s": extra_start_s(case, rounds)}


if __name__ == "__main__":
    main()
