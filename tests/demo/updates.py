"""What the demo gateway knows of newer versions."""

import time

from msgspec.structs import replace

from app import __version__
from app.core.errors import ErrorBody
from app.core.updates import InstallationKind, Release, UpdateJob, UpdateState

_NOTES = """\
## New

- **Voices**: a model that hears is asked by speaking, with `Ctrl M`.
- Qwen4 in every engine that reads it; see [the list](https://example.org).
- Loading says what it waits for, and how long that will take.

## Better

1. The first token of a long prompt comes in half the time on Apple's M5.
2. Downloads go on after a change of network without starting anew.
"""
RELEASE = Release(version="0.4.0", released="2027-02-11", notes=_NOTES, size_bytes=118 << 20)
UP_TO_DATE = UpdateState(
    version=__version__,
    kind=InstallationKind.ARCHIVE,
    place="/home/ada/apps/roundhouse",
    checked_at=time.time() - 3 * 86_400 - 5,
)
NEWER = replace(UP_TO_DATE, release=RELEASE, previous="0.0.9")
BY_COMMAND = replace(
    NEWER,
    kind=InstallationKind.WHEEL,
    place="/home/ada/.local/share/uv/tools/roundhouse-ai",
    command="uv tool upgrade roundhouse-ai",
    previous="",
)
BLIND = replace(
    UP_TO_DATE,
    checked_at=None,
    unavailable="This copy trusts no update key yet: no version of Roundhouse has been released.",
)
FETCHING = replace(
    NEWER,
    job=UpdateJob(
        id="7", verb="install", version="0.4.0", stage="Downloading", done_bytes=71 << 20, total_bytes=118 << 20
    ),
)
WAITING = replace(
    NEWER, job=UpdateJob(id="7", verb="install", version="0.4.0", stage="Waiting for answers to end", waits_for=2)
)
FAILED = replace(
    NEWER,
    failure=ErrorBody(
        code="update_does_not_run",
        sentence="Version 0.4.0 does not run on this computer, so nothing was changed.",
        hint="The current version stays in use. Its notes may say what it needs.",
        detail="roundhouse: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.41' not found",
    ),
)
AHEAD = replace(UP_TO_DATE, version="0.4.0", previous=__version__)
STATES = {
    "newer": NEWER,
    "command": BY_COMMAND,
    "blind": BLIND,
    "fetching": FETCHING,
    "waiting": WAITING,
    "failed": FAILED,
    "ahead": AHEAD,
}
