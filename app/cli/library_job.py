"""A job with models' files, followed from the command line: begun, shown while it goes on, called off by Ctrl-C."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from app.client.http import GatewayClient
from app.core import words
from app.core.errors import EnvironmentFault
from app.core.events import Event, LibraryJobChanged
from app.core.library import LibraryJob

_LONG_S = 24 * 3600.0
"""Hashing a library of terabytes takes hours."""
_DISK_S = 60.0
"""A drive that sleeps takes its time to spin up."""


def carry_out(client: GatewayClient, path: str, body: object) -> LibraryJob:
    """Begin a job and follow it to its end; Ctrl-C calls it off. Raises what it ended by."""
    events = client.stream_events("/events", Event, timeout_s=_LONG_S)
    job = client.post(path, body, LibraryJob, timeout_s=_DISK_S)
    try:
        done = _wait_for_end(events, job, _make_progress_line() if sys.stderr.isatty() else lambda _job: None)
    except KeyboardInterrupt:
        client.delete("/library/job")
        raise
    if done.error is not None:
        raise EnvironmentFault(done.error.sentence, hint=done.error.hint, code=done.error.code)
    return done


def _wait_for_end(events: Iterator[Event], job: LibraryJob, tell: Callable[[LibraryJob], None]) -> LibraryJob:
    for event in events:
        if isinstance(event, LibraryJobChanged) and event.job.id == job.id:
            tell(event.job)
            if event.job.is_done:
                return event.job
    raise EnvironmentFault("The service stopped during the job.", hint="Start it again.", code="gateway_gone")


def _make_progress_line() -> Callable[[LibraryJob], None]:
    def show_line(job: LibraryJob) -> None:
        share = job.done_bytes / job.total_bytes if job.total_bytes else 1.0
        line = "" if job.is_done else f"{share:4.0%} of {words.format_bytes(job.total_bytes)}  {Path(job.file).name}"
        click.echo(f"\r\x1b[K{line}", err=True, nl=False)

    return show_line
