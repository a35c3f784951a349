"""What every worker does whatever its engine: run for real, with a few lines in the engine's place."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import psutil
import pytest

from engines import worker_base
from engines.api import BufferAllocated, ContextSet, LoadProgress, PortOpened
from engines.worker_launch import read_worker_line
from tests.patience import PATIENCE_S

WITHIN_S = PATIENCE_S
PROLOGUE = "from engines import worker_base\nimport ctypes, os, sys, threading\n"
HOLD_THE_INTERPRETER = "worker_base.emit('ready'); ctypes.PyDLL(None).sleep(60)"
"""A native call that keeps the interpreter lock, as loading a model does."""
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="signals and PyDLL(None) are POSIX")


def environment(config: str = '{"a": 1}', key: str = "secret") -> dict[str, str]:
    return {**os.environ, worker_base.CONFIG_VARIABLE: config, worker_base.KEY_VARIABLE: key}


@contextmanager
def worker(body: str, env: dict[str, str] | None = None) -> Iterator["subprocess.Popen[str]"]:
    script = f"{PROLOGUE}def serve(launch):\n    {body}\nworker_base.run(serve)\n"
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        env=environment() if env is None else env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def expect_pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("pass", 0),
        ("import no_such_engine", worker_base.ExitCode.MISSING_PACKAGE),
        ("launch.config['absent']", worker_base.ExitCode.BAD_CONFIG),
        ("__import__('array').array('i', [2**31])", worker_base.ExitCode.BAD_CONFIG),
        ("raise RuntimeError('no')", worker_base.ExitCode.REFUSED),
    ],
)
def test_the_exit_code_says_how_it_ended(body: str, code: int) -> None:
    with worker(body) as process:
        assert process.wait(WITHIN_S) == code


@pytest.mark.parametrize("config", ["", "not json", "[1]"])
def test_a_configuration_that_is_none_is_refused(config: str) -> None:
    with worker("pass", environment(config)) as process:
        assert process.wait(WITHIN_S) == worker_base.ExitCode.BAD_CONFIG


def test_the_launch_arrives_and_leaves_the_environment() -> None:
    code_left = "[name for name in os.environ if 'ROUNDHOUSE_WORKER' in name]"
    body = f"worker_base.emit('seen', config=launch.config, key=launch.key, left={code_left})"
    with worker(body) as process:
        seen_environment = json.loads(expect_pipe(process.stdout).readline())
    assert seen_environment == {"event": "seen", "config": {"a": 1}, "key": "secret", "left": []}


def test_what_a_library_does_to_standard_output_keeps_nothing_back() -> None:
    with worker("os.dup2(2, 1); os.write(2, b'half a line'); worker_base.emit('ready', text='é')") as process:
        assert json.loads(expect_pipe(process.stdout).readline()) == {"event": "ready", "text": "é"}
        assert expect_pipe(process.stderr).read() == "half a line"


def test_it_ends_when_its_standard_input_ends() -> None:
    with worker("worker_base.emit('ready'); threading.Event().wait()") as process:
        expect_pipe(process.stdout).readline()
        expect_pipe(process.stdin).close()
        assert process.wait(WITHIN_S) == worker_base.ExitCode.LOST_PARENT


def test_what_is_written_to_it_is_ignored() -> None:
    with worker("worker_base.emit('ready'); threading.Event().wait(0.2)") as process:
        expect_pipe(process.stdin).write("cmd_router_to_child:exit\n")
        expect_pipe(process.stdin).flush()
        assert process.wait(WITHIN_S) == 0


def test_the_engine_reads_from_an_input_that_never_ends() -> None:
    body = "reader = threading.Thread(target=sys.stdin.read, daemon=True); reader.start(); reader.join(0.2); "
    body += "worker_base.emit('waiting', still=reader.is_alive()); os._exit(0)"
    with worker(body) as process:
        assert json.loads(expect_pipe(process.stdout).readline())["still"]


@posix_only
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_inside_native_code(how: signal.Signals) -> None:
    with worker(HOLD_THE_INTERPRETER) as process:
        expect_pipe(process.stdout).readline()
        process.send_signal(how)
        assert process.wait(30) == -how, "half of what the native call takes"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the lifeline waits for the native call to end")
def test_it_dies_with_its_parent_inside_native_code() -> None:
    child = f"{PROLOGUE}def serve(launch):\n    {HOLD_THE_INTERPRETER}\nworker_base.run(serve)\n"
    parent = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        orphan = psutil.Process(int(expect_pipe(process.stdout).readline()))
        process.kill()
        psutil.wait_procs([orphan], timeout=WITHIN_S)
        assert not orphan.is_running()


def test_every_event_is_understood_on_the_other_side() -> None:
    lines = {
        '{"event": "progress", "stage": "Reading", "fraction": 0.5}': LoadProgress(stage="Reading", fraction=0.5),
        '{"event": "listening", "port": 5}': PortOpened(port=5),
        '{"event": "context", "tokens": 512, "slots": 2}': ContextSet(tokens=512, slots=2),
        '{"event": "buffer", "device": "CPU", "purpose": "kv", "size_bytes": 9}': BufferAllocated(
            device="CPU", purpose="kv", size_bytes=9
        ),
    }
    assert [list(read_worker_line(line) or []) for line in lines] == [[event] for event in lines.values()]
    assert list(read_worker_line('{"event": "something new"}') or []) == []
    assert read_worker_line("llama_context: n_ctx = 512") is None
