"""`roundhouse update`: what is newer, with its notes; installed when it was said so; and the way back."""

import sys
import time
from collections.abc import Iterator

import click
import msgspec

from app.cli.gateway import connect_gateway
from app.cli.output import json_option, print_note, show_result
from app.client.discovery import find_running_gateway
from app.client.http import GatewayClient
from app.config.paths import default_paths
from app.core import words
from app.core.errors import BadRequest, EnvironmentFault, ErrorBody, GatewayGone, RoundhouseError
from app.core.updates import InstallUpdate, Release, SkipUpdate, UpdateJob, UpdateState

_CHECK_S = 60.0
_AGAIN_WITHIN_S = 120.0
"""The new service reads 300 MB from a slow disk in less."""
_POLL_S = 0.1


class UpdateOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: the version that runs now, and what is left to do by hand."""

    version: str
    said: str = ""


@click.command()
@click.option("--check", is_flag=True, help="Only show what is newer.")
@click.option("--now", is_flag=True, help="Do not wait for answers in progress; cut them off.")
@click.option("--skip", is_flag=True, help="Skip the newer version that is offered now.")
@click.option("--rollback", is_flag=True, help="Go back to the previous version.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
def update(*, check: bool, skip: bool, rollback: bool, as_json: bool, **how: bool) -> None:
    """Check for a newer version of Roundhouse, show what is new, and install it once you confirm.

    It is downloaded, verified by its signature and tested before anything is replaced, and answers in progress are
    finished first. Nothing is ever installed without asking you.
    """
    if check + skip + rollback > 1:
        raise BadRequest("Only one of --check, --skip and --rollback at a time.")
    client = connect_gateway()
    if rollback:
        before = client.get("/update", UpdateState).previous
        _confirm(f"Go back to version {before}?" if before else "", is_sure=how["yes"])
        _finish(client, _follow_job(client, "/update/rollback", None), as_json=as_json)
        return
    state = client.post("/update/check", None, UpdateState, timeout_s=_CHECK_S)
    if skip and state.release is not None:
        state = client.post("/update/skip", SkipUpdate(version=state.release.version), UpdateState)
    release = state.release
    if check or skip or release is None or release.problem or state.command:
        show_result("update", state, as_json=as_json, text=_update_lines)
        return
    for line in _update_lines(state):
        print_note(line)
    _confirm(f"Install version {release.version}?", is_sure=how["yes"])
    body = InstallUpdate(version=release.version, now=how["now"])
    _finish(client, _follow_job(client, "/update/install", body), as_json=as_json)


def _confirm(question: str, *, is_sure: bool) -> None:
    if not question or is_sure or (sys.stdin.isatty() and click.confirm(question, default=True, err=True)):
        return
    raise BadRequest("Nothing was changed.", hint="--yes goes on without asking.", code="not_confirmed")


def _follow_job(client: GatewayClient, path: str, body: object) -> UpdateJob:
    """Begin a job and say how far it is; return it as it was last seen. Ctrl-C calls it off."""
    job = client.post(path, body, UpdateJob, timeout_s=_CHECK_S)
    try:
        return _watch_job(client, job)
    except KeyboardInterrupt:
        client.delete("/update/job")
        raise


def _watch_job(client: GatewayClient, job: UpdateJob) -> UpdateJob:
    """Look until it is over: by its own word, or because the service went away for it."""
    stage_shown = ""
    while not job.is_done:
        stage_shown = _show_stage(job, stage_shown)
        time.sleep(_POLL_S)
        try:
            job = client.get("/update", UpdateState).job or job
        except GatewayGone:
            break
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)
    if job.error is not None:
        raise _error_of(job.error)
    return job


def _show_stage(job: UpdateJob, stage_shown: str) -> str:
    """Say what is done now: on one line that changes in a terminal, once for each stage elsewhere."""
    answers = "1 answer" if job.waits_for == 1 else f"{job.waits_for} answers"
    stage = f"Waiting for {answers} to end (--now does not wait)" if job.waits_for else job.stage
    if sys.stderr.isatty():
        share = f" {job.done_bytes / job.total_bytes:.0%}" if job.total_bytes else ""
        click.echo(f"\r\x1b[K{stage}{share}", err=True, nl=False)
    elif stage != stage_shown:
        print_note(stage)
    return stage


def _finish(client: GatewayClient, job: UpdateJob, *, as_json: bool) -> None:
    """Wait for the service that follows, if one does, and say what runs now."""
    version = job.version if job.said else _next_version(client, job)
    show_result("updated", UpdateOutcome(version=version, said=job.said), as_json=as_json, text=_outcome_lines)


def _next_version(client: GatewayClient, job: UpdateJob) -> str:
    deadline = time.monotonic() + _AGAIN_WITHIN_S
    paths, token = default_paths(), client.gateway.token
    while time.monotonic() < deadline:
        gateway = find_running_gateway(paths)
        if gateway is not None and gateway.token != token:
            return _check_version(GatewayClient(gateway), gateway.version, job)
        time.sleep(_POLL_S)
    raise GatewayGone(
        f"Version {job.version} was installed, but its service has not answered yet.",
        hint="`roundhouse up` starts it; `roundhouse update --rollback` goes back.",
    )


def _check_version(client: GatewayClient, version: str, job: UpdateJob) -> str:
    """Return the version that answers. Raises EnvironmentFault with why it is another than it should be."""
    failure = client.get("/update", UpdateState).failure
    if failure is not None:
        raise _error_of(failure)
    if job.version not in {version, "before"}:
        raise EnvironmentFault(f"The service answers as version {version}, not {job.version}.")
    return version


def _error_of(body: ErrorBody) -> RoundhouseError:
    return EnvironmentFault(body.sentence, hint=body.hint, code=body.code, detail=body.detail)


def _outcome_lines(outcome: UpdateOutcome) -> Iterator[str]:
    yield outcome.said or f"Roundhouse {outcome.version} is running."


def _update_lines(state: UpdateState) -> Iterator[str]:
    release = state.release
    if release is None:
        yield f"Roundhouse {state.version} is the newest version."
        return
    size = f", {words.format_bytes(release.size_bytes)}" if release.size_bytes else ""
    skip_note = ", skipped" if release.is_skipped else ""
    yield f"Roundhouse {state.version} -> {release.version} (from {release.released}{size}{skip_note})"
    if release.notes:
        yield ""
        yield from release.notes.strip().splitlines()
        yield ""
    yield from _manual_lines(state, release)


def _manual_lines(state: UpdateState, release: Release) -> Iterator[str]:
    if release.problem:
        yield release.problem
    elif state.command:
        yield f"Install it with: {state.command}"
