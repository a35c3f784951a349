"""How to start our own programs, from a checkout and, later, from a frozen application.

Every place that starts a child of ours asks here, so that freezing changes one function.
"""

import os
import sys
from collections.abc import Mapping


def command(module: str, *arguments: str) -> list[str]:
    """Return the argv that runs `module` (e.g. "app.gateway") with this interpreter."""
    return [sys.executable, "-m", module, *arguments]


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment for a child of ours, with `extra` on top."""
    return {**os.environ, **(extra or {})}
