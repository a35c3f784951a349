"""Runs the Python program on its standard input: `python -m app.mcp_tools.python_child`."""

import sys

_CPU_S = 30
_MEMORY_BYTES = 2 << 30
_FILE_BYTES = 100 << 20


def limit_process() -> None:
    """Bound processor time, memory and files, where the system can."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 -- not on Windows

    for which, limit in (
        (resource.RLIMIT_CPU, _CPU_S),
        (resource.RLIMIT_AS, _MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, _FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(which)[1]
        resource.setrlimit(which, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def main() -> None:
    """Run what is on the standard input, as a script."""
    code = compile(sys.stdin.read(), "program.py", "exec")
    limit_process()
    exec(code, {"__name__": "__main__"})  # noqa: S102 -- what this process is for; it is confined


if __name__ == "__main__":
    main()
