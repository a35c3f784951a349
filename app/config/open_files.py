"""How many files and connections a program may have open at once.

Systems start programs with few (macOS 256, Linux 1,024), so that those that cannot count further go on working, and
let them raise it themselves. A gateway holds two connections for each stream.
"""

import sys

MANY = 65_536


def raise_open_file_limit() -> int | None:
    """Raise the limit as far as the system lets us, at most to `MANY`; return what it is, None if there is none."""
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415 -- Windows has none, and needs none

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = MANY if hard == resource.RLIM_INFINITY else min(hard, MANY)
    if soft == resource.RLIM_INFINITY or soft >= target:
        return soft
    for limit in (target, _MACOS_MOST):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, target), hard))
        except (OSError, ValueError):
            continue
        return min(limit, target)
    return soft


_MACOS_MOST = 10_240
"""OPEN_MAX: some versions of macOS refuse more although they name no limit."""
