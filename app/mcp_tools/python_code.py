"""Python for what a calculator cannot: a program that a model writes runs in a process of its own, without network.

The gateway starts this server only where the system confines it: the program can read the system's files and ours,
write in a folder of the server, and reach no other computer. Processor time, memory and output are bounded here.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from typing import Annotated

import msgspec

from app.config.programs import module_command
from app.mcp_tools.toolbox import BuiltinTool, ToolMistake

_LONGEST_CODE = 100_000
_LONGEST_OUTPUT = 50_000
_LIMIT_S = 60.0
MODULE = "app.mcp_tools.python_child"


class RunPython(msgspec.Struct, frozen=True):
    """A program in Python; what it prints is the answer."""

    code: Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST_CODE)]


def run_python(request: RunPython, limit_s: float = _LIMIT_S) -> str:
    """Return what a program prints. Raises ToolMistake with what it printed last, if it fails."""
    with tempfile.TemporaryDirectory(prefix="python-") as folder:
        process = subprocess.Popen(
            module_command(MODULE),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=os.name == "posix",
        )
        try:
            output, _ = process.communicate(request.code.encode(), timeout=limit_s)
        except subprocess.TimeoutExpired:
            _end_session(process)
            output, _ = process.communicate()
            raise ToolMistake(f"It was ended after {limit_s:.0f} seconds.\n{_cut(output)}") from None
        finally:
            _end_session(process)
    text = _cut(output)
    if process.returncode != 0:
        raise ToolMistake(text or f"The program ended with {process.returncode}.")
    return text or "(It printed nothing: use print.)"


def _end_session(process: "subprocess.Popen[bytes]") -> None:
    """End a program and what it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform != "win32":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _cut(output: bytes) -> str:
    text = output.decode("utf-8", "replace")
    return text if len(text) <= _LONGEST_OUTPUT else f"{text[:_LONGEST_OUTPUT]}\n(The rest was left out.)"


TOOLS = (
    BuiltinTool(
        name="run_python",
        description=(
            "Run a Python program, with the standard library and without network, and return what it prints. Use it "
            "for calculations, tables and texts that need a program."
        ),
        arguments=RunPython,
        run=run_python,
    ),
)
