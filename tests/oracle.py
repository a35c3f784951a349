"""Ask llama.cpp what it allocates: load a file in a process of its own and read the buffers it names in its log.

The process takes the parameters that the product's worker would set; only the warm-up, which would compute with weights
that are not there, is left out. `python -m tests.oracle FILE [SETTING AS JSON]` prints the buffers of one load.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Event, Timer
from typing import Any

from engines import worker_base
from engines.api import BufferAllocated, ContextSet, LogEvent
from engines.llama_cpp import worker
from engines.llama_cpp.log import read

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
    unified: bool = False
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
    argv = [sys.executable, "-m", "tests.oracle", "--child", str(path), json.dumps(asdict(setting or Setting()))]
    environment = {**os.environ, "GGML_NO_BACKTRACE": "1"}  # an assertion would start a debugger, for seconds
    with subprocess.Popen(argv, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=ROOT, env=environment) as child:
        too_long = Timer(LIMIT_S, child.kill)
        too_long.start()
        log = log_until_ready(child)
        too_long.cancel()
        child.kill()  # ending the server at once after its start can hang
    if READY not in log:
        raise Refused("\n".join([f"exit code {child.returncode}", *complaints(log)]))
    return allocated(log)


def log_until_ready(child: subprocess.Popen[bytes]) -> str:
    assert child.stderr is not None
    lines: list[str] = []
    for line in child.stderr:
        lines.append(line.decode(errors="replace"))
        if READY in lines[-1]:
            break
    return "".join(lines)


def complaints(log: str) -> list[str]:
    marks = (" E ", "GGML_ASSERT", "error", "worker:")
    return [line for line in log.splitlines() if any(mark in line for mark in marks)] or log.splitlines()[-5:]


def allocated(log: str) -> Allocated:
    events = list(events_of(log.splitlines()))
    context = next(event for event in events if isinstance(event, ContextSet))
    buffers = tuple(event for event in events if isinstance(event, BufferAllocated))
    return Allocated(buffers=buffers, context=context.tokens, slots=context.slots, log=log)


def events_of(lines: Iterable[str]) -> Iterable[LogEvent]:
    for line in lines:
        yield from read(line)


def run_child(path: str, setting: Setting) -> None:
    """Load, and wait to be ended."""
    import xllamacpp  # noqa: PLC0415 -- only the child loads native code

    server = xllamacpp.Server(parameters(xllamacpp, path, setting))
    Event().wait()
    del server


def parameters(xllamacpp: Any, path: str, setting: Setting) -> Any:  # noqa: ANN401 -- the wheel has no type information
    launch = worker_base.Launch(config=configuration(path, setting), key="none")
    params = worker.parameters(xllamacpp, launch)
    params.warmup = False
    params.n_ubatch = setting.ubatch
    params.n_batch = max(params.n_batch, setting.ubatch)
    params.no_extra_bufts = not setting.repack
    params.kv_unified = setting.unified
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
        "threads": 1,
        "fit": False,
        "gpu_layers": None,
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
    is_child = arguments[:1] == ["--child"]
    path, *rest = arguments[1:] if is_child else arguments
    setting = replace(Setting(), **json.loads(rest[0])) if rest else Setting()
    if is_child:
        run_child(path, setting)
        return
    for buffer in load(Path(path), setting).buffers:
        sys.stdout.write(f"{buffer.purpose:10} {buffer.device:12} {buffer.size_bytes / 2**20:12.2f} MiB\n")


if __name__ == "__main__":
    main(sys.argv[1:])
