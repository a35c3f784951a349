"""Plays `docker run`: starts the entry point with the variables that were named and no others, on the published port.

There is no container: the launcher it starts is `launcher.py`, found on PATH by its real name.
"""

import os
import sys

ARGS = sys.argv[1:]


def after(flag: str) -> str:
    """Return what follows a flag."""
    return ARGS[ARGS.index(flag) + 1]


variable_names = [ARGS[at + 1] for at, word in enumerate(ARGS) if word == "--env"]
environment = {name: os.environ[name] for name in (*variable_names, "PATH")}
entry = ARGS.index("--entrypoint")
program, _image, *rest = ARGS[entry + 1 :]
rest[rest.index("--port") + 1] = after("--publish").split(":")[1]
os.execve(program, [program, *rest], environment)  # noqa: S606 -- the shell that the adapter names
