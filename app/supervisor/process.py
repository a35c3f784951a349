"""What a started process is on every platform; `posix` and `windows` add how to signal and kill all it started."""

import subprocess
from typing import IO


def stdin_for(*, has_lifeline: bool) -> int:
    """Return what to start a process's standard input with: a pipe nobody writes to, or nothing at all."""
    return subprocess.PIPE if has_lifeline else subprocess.DEVNULL


class ChildProcess:
    """A child with both outputs on pipes, which are for the caller to drain."""

    def __init__(self, popen: "subprocess.Popen[bytes]") -> None:
        self._popen = popen

    @property
    def pid(self) -> int:
        """The process id; on POSIX the group's too."""
        return self._popen.pid

    @property
    def pipes(self) -> dict[str, IO[bytes]]:
        """Standard output as "out", standard error as "err"."""
        outputs = {"out": self._popen.stdout, "err": self._popen.stderr}
        return {name: pipe for name, pipe in outputs.items() if pipe is not None}

    def close_stdin(self) -> None:
        """Close the lifeline, if there is one."""
        if self._popen.stdin is not None:
            self._popen.stdin.close()
