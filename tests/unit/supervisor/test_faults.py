"""What goes wrong with engines, in sentences: each names its cause, its kind and what to do."""

import errno

import pytest

from app.core.engines import FailureReport
from app.core.errors import Overloaded, Unavailable
from app.supervisor.faults import (
    as_error,
    give_up_failure,
    options_failure,
    prepare_failure,
    room_failure,
    stall_failure,
    start_failure,
    turn_away_error,
    unknown_engine_failure,
)
from app.supervisor.messages import TurnAwayReason
from app.supervisor.scheduling import PLACES, SYSTEM, RefuseLoad
from engines.api import Failure, FailureKind

GIB = 1 << 30


def test_a_program_that_does_not_start_is_missing_or_may_not_run() -> None:
    missing_failure = start_failure("/opt/x", FileNotFoundError(errno.ENOENT, "No such file"))
    assert (missing_failure.kind, missing_failure.sentence) == (
        FailureKind.NOT_INSTALLED,
        "The engine's program is missing: /opt/x.",
    )
    refused_failure = start_failure("/opt/x", PermissionError(errno.EACCES, "Permission denied"))
    assert refused_failure.kind is FailureKind.UNKNOWN
    assert refused_failure.sentence == "The engine could not be started: Permission denied."
    assert "OSError" not in start_failure("/opt/x", OSError("odd")).sentence


def test_a_launch_that_the_disk_does_not_take_is_said_by_its_cause() -> None:
    full = prepare_failure(OSError(errno.ENOSPC, "No space left on device"))
    assert full.kind is FailureKind.DISK_FULL
    assert full.sentence.startswith("The disk is full")
    other = prepare_failure(OSError(errno.EROFS, "Read-only file system"))
    assert other.kind is FailureKind.UNKNOWN
    assert "Read-only file system" in other.sentence
    assert "read-only" in other.hint


@pytest.mark.parametrize(
    ("pool", "needed_bytes", "pinned_models", "kind", "sentence", "hint"),
    [
        (SYSTEM, 9 * GIB, (), FailureKind.OUT_OF_MEMORY,
         "m takes about 9.0 GiB of memory, and at most 4.0 GiB can be made available.", "Choose a smaller"),
        (SYSTEM, None, ("a",), FailureKind.OUT_OF_MEMORY,
         "m takes an unknown amount of memory, and at most 4.0 GiB can be made available beside a, which is pinned.",
         "Unpin or unload a."),
        ("RTX", 9 * GIB, ("a", "b"), FailureKind.OUT_OF_GPU_MEMORY,
         ("m takes about 9.0 GiB of memory on RTX, and at most 4.0 GiB can be made available beside a, b, which are "
         "pinned."), "Unpin or unload a, b."),
        (PLACES, 1, ("a",), FailureKind.OUT_OF_MEMORY,
         "m cannot be loaded: as many models as allowed at once are pinned (a).", "Unpin or unload a."),
    ],
)  # fmt: skip
def test_a_load_without_room_is_refused_with_figures_and_what_stands_in_the_way(  # noqa: PLR0913, PLR0917 -- a table
    pool: str, needed_bytes: int | None, pinned_models: tuple[str, ...], kind: FailureKind, sentence: str, hint: str
) -> None:
    failure = room_failure(
        RefuseLoad(model="m", pool=pool, needed=needed_bytes, available=4 * GIB, pinned=pinned_models)
    )
    assert (failure.kind, failure.sentence) == (kind, sentence)
    assert failure.hint.startswith(hint)


def test_an_error_carries_the_last_eight_lines() -> None:
    report = FailureReport(code="crashed", sentence="It crashed.", hint="Try.", log_tail=[str(at) for at in range(20)])
    error = as_error(report)
    assert (str(error), error.hint, error.code) == ("It crashed.", "Try.", "crashed")
    assert error.body.detail == "\n".join(str(at) for at in range(12, 20))


@pytest.mark.parametrize("reason", list(TurnAwayReason))
def test_who_is_turned_away_is_told_why_and_when_to_come_back(reason: TurnAwayReason) -> None:
    error = turn_away_error("m", reason, retry_s=2.1)
    if reason is TurnAwayReason.FULL:
        assert isinstance(error, Overloaded)
        assert error.hint.startswith("Try again in 3 seconds")
        assert error.retry_s == 2.1
    else:
        assert isinstance(error, Unavailable)
        assert error.code == reason.value
    assert str(error).startswith(("m ", "Server busy", "Roundhouse is"))
    assert error.hint


def test_of_one_that_ends_again_and_again_the_cause_stays_and_the_command_is_named() -> None:
    failure = Failure(kind=FailureKind.CRASHED, sentence="It crashed.", hint="Update it.")
    last_failure = give_up_failure(failure, "m")
    assert (last_failure.kind, last_failure.sentence) == (failure.kind, failure.sentence)
    assert last_failure.hint == (
        "Update it. It ended 4 times within 10 minutes, and is not restarted for now: `roundhouse load m` starts it "
        "again."
    )


def test_other_failures_name_what_they_are_about() -> None:
    assert "for 12.5 seconds" in stall_failure(12.5).sentence
    assert unknown_engine_failure("x").kind is FailureKind.NOT_INSTALLED
    assert options_failure("No such flag.").sentence == "No such flag."
