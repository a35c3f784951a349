"""What every worker inside an engine's environment shares: its launch, its lifeline, its events, its exit codes.

A worker is started with its configuration as JSON in one environment variable and the per-launch key in another, so
neither is in argv for every user of the machine to read. It holds on to its parent through standard input: when that
ends, so does the worker. It writes one JSON object per line to standard output for what the supervisor should know.
Standard library only: this file runs in environments that have none of our packages.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

CONFIG_VARIABLE = "ROUNDHOUSE_WORKER_CONFIG"
KEY_VARIABLE = "ROUNDHOUSE_WORKER_KEY"
LISTENER_VARIABLE = "ROUNDHOUSE_LISTENER"
"""The socket on which requests come to an engine that is in a network of its own."""

END_WITHIN_S = 5.0

_PR_SET_PDEATHSIG = 1
"""From <linux/prctl.h>: the signal this process gets when the thread that started it ends."""


class ExitCode(IntEnum):
    """How a worker ends by itself. Far from the codes of shells (126..165) and interpreters (1, 2, 120)."""

    LOST_PARENT = 81
    BAD_CONFIG = 82
    MISSING_PACKAGE = 83
    REFUSED = 84
    """The engine said no: what it wrote to standard error names the cause."""


@dataclass(frozen=True, slots=True)
class WorkerLaunch:
    """What to run, as the adapter planned it, and the key every request must carry."""

    config: dict[str, object]
    key: str


def emit(event: str, **fields: object) -> None:
    """Tell the supervisor: one JSON object on one line of standard output, at once."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def run(serve: Callable[[WorkerLaunch], None]) -> None:
    """Hold the lifeline, read the launch, serve until told to end. Never returns; the exit code says how it ended."""
    hold_lifeline()
    keep_output()
    end_on_signals()
    try:
        serve(read_launch())
    except ImportError as error:
        _end(ExitCode.MISSING_PACKAGE, error)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        _end(ExitCode.BAD_CONFIG, error)
    except RuntimeError as error:
        _end(ExitCode.REFUSED, error)
    _end(0)


def read_launch() -> WorkerLaunch:
    """Take configuration and key out of the environment, so that nothing started from here inherits them.

    Raises KeyError when one is missing, ValueError when the configuration is not a JSON object.
    """
    config = json.loads(os.environ.pop(CONFIG_VARIABLE))
    key = os.environ.pop(KEY_VARIABLE)
    if not isinstance(config, dict):
        raise ValueError("the configuration is not a JSON object")  # noqa: TRY004 -- one kind of error: bad configuration
    return WorkerLaunch(config=config, key=key)


def end_on_signals() -> None:
    """End at once on SIGTERM and SIGINT, also inside native code that never lets Python's handlers run."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def hold_lifeline() -> None:
    """End this process with its parent.

    A thread waits for end-of-file on standard input; it needs the interpreter lock, which an engine may keep while it
    loads, so on Linux the kernel is asked to kill us too. The engine gets an empty standard input of its own.
    """
    _die_with_parent()
    lifeline = os.dup(0)
    silent, _held_open = os.pipe()  # the write end stays open for life: a reader of our standard input waits for ever
    os.dup2(silent, 0)
    os.close(silent)
    threading.Thread(target=_watch, args=(lifeline,), name="lifeline", daemon=True).start()


def keep_output() -> None:
    """Tell the supervisor through a descriptor of our own.

    llama.cpp points descriptor 1 at standard error once it has loaded, and writes its log there in parts of lines:
    what we tell would come in between, and be understood by nobody.
    """
    sys.stdout = os.fdopen(os.dup(1), "w", encoding="utf-8")


def _watch(lifeline: int) -> None:
    while True:
        try:
            received_bytes = os.read(lifeline, 4096)
        except OSError:
            received_bytes = b""
        if not received_bytes:
            os._exit(ExitCode.LOST_PARENT)


def _die_with_parent() -> None:
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415 -- only Linux needs it, and a worker's start is waited for

    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(ExitCode.LOST_PARENT)


def _end(code: int, error: Exception | None = None) -> None:
    """End the orderly way, so that an engine's logging threads write what they still hold; by force if that hangs."""
    if error is not None:
        sys.stderr.write(f"worker: {type(error).__name__}: {error}\n")
        sys.stderr.flush()
    by_force = threading.Timer(END_WITHIN_S, os._exit, (code,))
    by_force.daemon = True
    by_force.start()
    sys.exit(code)
