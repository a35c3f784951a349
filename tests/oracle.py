"""Ask llama.cpp what it allocates: load a file in a process of its own and read the buffers it names in its log.

The process takes the parameters that the product's worker would set; only the warm-up, which would compute with weights
that are not there, is left out. `python -m tests.oracle FILE [SETTING AS JSON]` prints the buffers of one load.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event, Timer
from typing import Any

from engines import worker_base
from engines.api import BufferAllocated, ContextSet, LogEvent
from engines.llama_cpp import worker
from engines.llama_cpp.log import read_log_line

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 100.0
"""A real-size 70B has its pages mapped first, which takes a minute on a slow disk."""
READY = "listening on http"
"""llama.cpp says so when everything is allocated."""


@dataclass(frozen=True)
class Setting:
    """How to load. `context` is per slot, as in the product; None for flash attention leaves it to llama.cpp."""

    context: int = 4096
    slots: int = 1
    kv_type: str = "f16"
    ubatch: int = 512
    flash_attention: bool | None = None
    repack: bool = False
    is_kv_unified: bool = False
    task: str = "chat"


@dataclass(frozen=True)
class Allocated:
    """The buffers of one load, as logged: rounded to a hundredth of a MiB."""

    buffers: tuple[BufferAllocated, ...]
    context: int
    slots: int | None
    log: str

    def of(self, purpose: str, device: str | None = None) -> int:
        """Return the bytes for "model", "kv", "recurrent", "compute" or "output", on one device or all."""
        return sum(
            buffer.size_bytes
            for buffer in self.buffers
            if buffer.purpose == purpose and device in {None, buffer.device}
        )

    def devices(self, purpose: str) -> dict[str, int]:
        """Return the bytes by device ("CPU", "CPU_Mapped", "CPU_REPACK", "CUDA0", ...)."""
        names = [buffer.device for buffer in self.buffers if buffer.purpose == purpose]
        return {name: self.of(purpose, name) for name in names}


class Refused(Exception):
    """llama.cpp did not load the file; the text is what it said."""


def load(path: Path, setting: Setting | None = None) -> Allocated:
    """Load `path` and return what was allocated. Raises Refused."""
    (load_result,) = load_each(path, [setting or Setting()])
    return load_result


def load_each(path: Path, settings: Sequence[Setting]) -> list[Allocated]:
    """Load `path` with one setting after another, in one process, and return what each allocated. Raises Refused."""
    argv = [
        sys.executable,
        "-m",
        "tests.oracle",
        "--child",
        str(path),
        json.dumps([asdict(setting) for setting in settings]),
    ]
    environment = {**os.environ, "GGML_NO_BACKTRACE": "1"}  # an assertion would start a debugger, for seconds
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=ROOT, env=environment
    ) as child:
        too_long = Timer(LIMIT_S, child.kill)
        too_long.start()
        logs = [log_of_next_load(child) for _ in settings]
        too_long.cancel()
        child.kill()  # ending the server at once after its start can hang
    for log in logs:
        if READY not in log:
            raise Refused("\n".join([f"exit code {child.returncode}", *complaints(log)]))
    return [read_allocations(log) for log in logs]


def log_of_next_load(child: subprocess.Popen[bytes]) -> str:
    """Have the child begin a load, so that none writes into another's log; return what it says until it is ready."""
    assert child.stdin is not None
    assert child.stderr is not None
    with suppress(BrokenPipeError):  # an earlier load has ended it
        child.stdin.write(b"\n")
        child.stdin.flush()
    lines: list[str] = []
    for line in child.stderr:
        lines.append(line.decode(errors="replace"))
        if READY in lines[-1]:
            break
    return "".join(lines)


def complaints(log: str) -> list[str]:
    marks = (" E ", "GGML_ASSERT", "error", "worker:")
    return [line for line in log.splitlines() if any(mark in line for mark in marks)] or log.splitlines()[-5:]


def read_allocations(log: str) -> Allocated:
    events = list(events_of(log.splitlines()))
    context = next(event for event in events if isinstance(event, ContextSet))
    buffers = tuple(event for event in events if isinstance(event, BufferAllocated))
    return Allocated(buffers=buffers, context=context.tokens, slots=context.slots, log=log)


def events_of(lines: Iterable[str]) -> Iterable[LogEvent]:
    for line in lines:
        yield from read_log_line(line)


def run_child(path: str, settings: Iterable[Setting]) -> None:
    """Load with each setting when a line comes in, beside the loads before, and wait to be ended."""
    import xllamacpp  # noqa: PLC0415 -- only the child loads native code

    servers = []
    for setting in settings:
        sys.stdin.readline()
        servers.append(xllamacpp.Server(parameters(xllamacpp, path, setting)))
    Event().wait()
    servers.clear()


def parameters(xllamacpp: Any, path: str, setting: Setting) -> Any:  # noqa: ANN401 -- the wheel has no type information
    launch = worker_base.WorkerLaunch(config=configuration(path, setting), key="none")
    params = worker.build_parameters(xllamacpp, launch)
    params.warmup = False
    params.n_ubatch = setting.ubatch
    params.n_batch = max(params.n_batch, setting.ubatch)
    params.no_extra_bufts = not setting.repack
    params.kv_unified = setting.is_kv_unified
    return params


def configuration(path: str, setting: Setting) -> dict[str, object]:
    """Return what the adapter would hand to the worker."""
    return {
        "model": path,
        "alias": "oracle",
        "host": "127.0.0.1",
        "port": 0,
        "context": setting.context,
        "slots": setting.slots,
        "prefix_cache": False,
        "state_folder": None,
        "threads": 1,
        "fit": False,
        "gpu_layers": None,
        "split_ratio": [],
        "rpc_servers": [],
        "cpu_moe_layers": None,
        "kv_type": setting.kv_type,
        "flash_attention": setting.flash_attention,
        "batch": None,
        "projector": None,
        "lora": [],
        "draft": None,
        "sampling": {"said": {}, "is_all": False},
        "chat_template": None,
        "task": setting.task,
    }


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--child"]:
        run_child(arguments[1], [Setting(**fields) for fields in json.loads(arguments[2])])
        return
    path, *rest = arguments
    setting = Setting(**json.loads(rest[0])) if rest else Setting()
    for buffer in load(Path(path), setting).buffers:
        sys.stdout.write(f"{buffer.purpose:10} {buffer.device:12} {buffer.size_bytes / 2**20:12.2f} MiB\n")


if __name__ == "__main__":
    main(sys.argv[1:])
