"""Updates on the command line: what is shown, what is asked of the service, and how it is followed to its end."""

import json
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from app.cli import main, update
from app.core.api import PortFile
from app.core.errors import ErrorBody, GatewayGone
from app.core.updates import InstallationKind, InstallUpdate, Release, SkipUpdate, UpdateJob, UpdateState

RELEASE = Release(version="0.2.0", released="2026-12-01", notes="- It is better.\n", size_bytes=118 << 20)
STATE = UpdateState(version="0.1.0", kind=InstallationKind.ARCHIVE, place="/home/me/roundhouse", release=RELEASE)
JOB = UpdateJob(id="7", verb="install", version="0.2.0", stage="Downloading", total_bytes=100)
DONE = msgspec.structs.replace(JOB, is_done=True, stage="Done")
BEFORE = PortFile(pid=1, created_at=0.0, url="http://127.0.0.1:1", token="old", version="0.1.0")
AFTER = msgspec.structs.replace(BEFORE, token="new", version="0.2.0")


class Gateway:
    """Answers from a table and notes what it is asked. `jobs` are seen one after the other; None is a service gone."""

    def __init__(self) -> None:
        self.gateway = BEFORE
        self.requests: list[tuple[str, object]] = []
        self.state = STATE
        self.jobs: list[UpdateJob | type[BaseException] | None] = [JOB, DONE]

    def get(self, path: str, reply: Any, *, timeout_s: float | None = None) -> Any:  # noqa: ANN401 -- any type
        del path, reply, timeout_s
        if "/update/install" not in dict(self.requests) or not self.jobs:
            return self.state
        job = self.jobs.pop(0)
        if job is None:
            raise GatewayGone("gone")
        if isinstance(job, type):
            raise job
        return msgspec.structs.replace(self.state, job=job)

    def post(self, path: str, body: object, reply: Any, *, timeout_s: float | None = None) -> Any:  # noqa: ANN401 -- any type
        del timeout_s
        self.requests.append((path, body))
        return JOB if reply is UpdateJob else self.state

    def delete(self, path: str) -> None:
        self.requests.append((path, "deleted"))


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Gateway:
    played_gateway = Gateway()
    monkeypatch.setattr(update, "connect_gateway", lambda: played_gateway)
    monkeypatch.setattr(update, "GatewayClient", lambda _info: played_gateway)
    monkeypatch.setattr(update, "find_running_gateway", lambda _paths: AFTER)
    monkeypatch.setattr(update, "_POLL_S", 0.0)
    return played_gateway


def run(*arguments: str) -> Any:  # noqa: ANN401 -- click's
    return CliRunner().invoke(main.roundhouse, ["update", *arguments])


def test_what_is_newer_is_shown_with_its_notes_and_not_installed(gateway: Gateway) -> None:
    result = run("--check")
    assert result.exit_code == 0
    assert "0.1.0 -> 0.2.0 (from 2026-12-01, 118 MiB)" in result.stdout
    assert "- It is better." in result.stdout
    assert gateway.requests == [("/update/check", None)]
    task = json.loads(run("--check", "--json").stdout)["update"]
    assert task["release"]["version"] == "0.2.0"


def test_without_a_yes_nothing_is_installed(gateway: Gateway) -> None:
    refusal = run()
    assert refusal.exit_code == 2
    assert "Nothing was changed." in refusal.stderr
    assert "- It is better." in refusal.stderr
    assert [path for path, _ in gateway.requests] == ["/update/check"]


def test_an_installation_is_followed_until_the_new_service_answers(gateway: Gateway) -> None:
    result = run("--yes", "--now")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "Roundhouse 0.2.0 is running.\n"
    assert "Downloading" in result.stderr
    assert ("/update/install", InstallUpdate(version="0.2.0", now=True)) in gateway.requests


def test_a_service_that_leaves_for_it_is_no_failure(gateway: Gateway) -> None:
    waiting_job = msgspec.structs.replace(JOB, stage="Waiting for answers to end", waits_for=2)
    gateway.jobs = [waiting_job, None]
    result = run("--yes")
    assert result.stdout == "Roundhouse 0.2.0 is running.\n"
    assert "Waiting for 2 answers to end (--now does not wait)" in result.stderr


def test_what_is_left_to_do_by_hand_is_said(gateway: Gateway) -> None:
    gateway.jobs = [msgspec.structs.replace(DONE, said="Drag it to Applications.")]
    assert run("--yes").stdout == "Drag it to Applications.\n"


def test_a_failure_is_said_with_its_code(gateway: Gateway) -> None:
    wrong = ErrorBody(code="update_damaged", sentence="It is not what was signed.", hint="Try again.")
    gateway.jobs = [msgspec.structs.replace(DONE, error=wrong)]
    failed_run = run("--yes", "--json")
    assert failed_run.exit_code == 1
    assert json.loads(failed_run.stdout)["error"]["code"] == "update_damaged"


def test_what_failed_after_the_service_had_ended_is_said(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update, "find_running_gateway", lambda _paths: msgspec.structs.replace(AFTER, version="0.1.0"))
    failed_run = run("--yes")
    assert (failed_run.exit_code, "answers as version 0.1.0" in failed_run.stderr) == (1, True)
    gateway.jobs = [DONE]
    gateway.state = msgspec.structs.replace(STATE, failure=ErrorBody(code="x", sentence="The disk refused."))
    failed_run = run("--yes")
    assert (failed_run.exit_code, "The disk refused." in failed_run.stderr) == (1, True)


def test_ctrl_c_calls_it_off(gateway: Gateway) -> None:
    gateway.jobs = [JOB, KeyboardInterrupt]
    assert run("--yes").exit_code == 130
    assert gateway.requests[-1] == ("/update/job", "deleted")


def test_a_new_service_that_never_answers_is_said(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update, "_AGAIN_WITHIN_S", 0.0)
    failed_run = run("--yes")
    assert (failed_run.exit_code, "--rollback" in failed_run.stderr) == (1, True)


def test_a_version_is_skipped(gateway: Gateway) -> None:
    assert run("--skip").exit_code == 0
    assert gateway.requests[-1] == ("/update/skip", SkipUpdate(version="0.2.0"))


def test_a_copy_that_a_command_updates_says_the_command(gateway: Gateway) -> None:
    gateway.state = msgspec.structs.replace(STATE, command="uv tool upgrade roundhouse-ai")
    assert "Install it with: uv tool upgrade roundhouse-ai" in run("--yes").stdout
    gateway.state = msgspec.structs.replace(
        STATE, release=msgspec.structs.replace(RELEASE, problem="There is no file for it.")
    )
    assert "There is no file for it." in run("--yes").stdout
    assert {path for path, _ in gateway.requests} == {"/update/check"}


def test_the_newest_is_said_to_be(gateway: Gateway) -> None:
    gateway.state = msgspec.structs.replace(STATE, release=None)
    assert run().stdout == "Roundhouse 0.1.0 is the newest version.\n"


def test_the_way_back_is_asked_for_and_followed(gateway: Gateway) -> None:
    gateway.state = msgspec.structs.replace(STATE, previous="0.0.9")
    assert run("--rollback").exit_code == 2
    gateway.state = msgspec.structs.replace(gateway.state, job=msgspec.structs.replace(DONE, said="Open it again."))
    assert run("--rollback", "--yes").stdout == "Open it again.\n"
    assert gateway.requests[-1] == ("/update/rollback", None)


def test_two_wishes_at_once_are_refused(gateway: Gateway) -> None:
    assert run("--check", "--rollback").exit_code == 2
    assert gateway.requests == []
