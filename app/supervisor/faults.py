"""What goes wrong with engines on our side of the contract, in sentences. An adapter names the rest."""

import math

import msgspec

from app.core import words
from app.core.engines import FailureReport
from app.core.errors import EngineFailed, Overloaded, RoundhouseError, Unavailable, is_disk_full, write_fault
from app.supervisor.messages import TurnAwayReason
from app.supervisor.policy import MAX_RESTARTS, RESTART_WINDOW_S
from app.supervisor.scheduling import PLACES, SYSTEM, RefuseLoad
from engines.api import Failure, FailureKind

_IN_DETAIL = 8
"""Last log lines an error carries."""
_ASK_FOR_REPORT = "Please report this with the log."


class StartFailed(Exception):
    """No process could be started."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.sentence)
        self.failure = failure


TOO_SLOW = Failure(
    kind=FailureKind.TOO_SLOW,
    sentence="Loading took longer than allowed, so it was stopped.",
    hint="Choose a smaller model, or keep the file on a faster disk.",
)

UNRESPONSIVE = Failure(
    kind=FailureKind.UNRESPONSIVE,
    sentence="The engine answered nothing any more, so it was stopped.",
    hint="Send the request again; if only this request does it, make it shorter or leave out its grammar.",
)

UNKILLABLE = Failure(
    kind=FailureKind.KILLED,
    sentence="The engine did not exit, even when it was killed.",
    hint="Its driver may be stuck. Restart the computer if its memory does not come back.",
)

CALLED_OFF = Failure(kind=FailureKind.KILLED, sentence="The start was cancelled.")

MISTAKE = Failure(
    kind=FailureKind.UNKNOWN,
    sentence="The engine could not be run because of a bug in Roundhouse.",
    hint=_ASK_FOR_REPORT,
)


def stall_failure(stall_s: float) -> Failure:
    """Name a load that went quiet."""
    return Failure(
        kind=FailureKind.STALLED,
        sentence=f"The engine showed no sign of life for {stall_s:g} seconds while loading, so it was stopped.",
        hint="Try again, or choose a smaller model; the engine's log may say what it was waiting for.",
    )


def give_up_failure(failure: Failure, model: str) -> Failure:
    """Say of an engine that ended again and again that it is left alone now, and how to go on."""
    attempts_note = (
        f"It ended {MAX_RESTARTS + 1} times within {RESTART_WINDOW_S / 60:g} minutes, and is not restarted for now"
    )
    hint = f"{failure.hint} {attempts_note}: `roundhouse load {model}` starts it again.".strip()
    return msgspec.structs.replace(failure, hint=hint)


def unknown_engine_failure(engine: str) -> Failure:
    """Name an engine this build does not know."""
    return Failure(
        kind=FailureKind.NOT_INSTALLED,
        sentence=f"This version of Roundhouse has no engine called {engine}.",
        hint="`roundhouse engines list` shows those it has.",
    )


def options_failure(sentence: str) -> Failure:
    """Pass on what an adapter says about options it cannot honour."""
    return Failure(kind=FailureKind.BAD_FLAG, sentence=sentence, hint="Load the model with other options.")


def start_failure(program: str, error: OSError) -> Failure:
    """Name a program that the operating system would not start."""
    if isinstance(error, FileNotFoundError):
        return Failure(
            kind=FailureKind.NOT_INSTALLED,
            sentence=f"The engine's program is missing: {program}.",
            hint="Install the engine again.",
        )
    return Failure(
        kind=FailureKind.UNKNOWN,
        sentence=f"The engine could not be started: {error.strerror or error}.",
        hint="Check that its program may be executed.",
    )


def prepare_failure(error: OSError) -> Failure:
    """Name a launch whose private files or record the disk would not take."""
    if is_disk_full(error):
        fault = write_fault("the engine", error, action="started").body
        return Failure(kind=FailureKind.DISK_FULL, sentence=fault.sentence, hint=fault.hint)
    return Failure(
        kind=FailureKind.UNKNOWN,
        sentence=f"The engine could not be started: {error}.",
        hint="Check that the disk is not read-only, and who owns Roundhouse's folders.",
    )


def room_failure(refusal: RefuseLoad) -> Failure:
    """Name a load that would not fit even if everything went that may go."""
    model, pinned_models = refusal.model, ", ".join(refusal.pinned)
    hint = (
        f"Unpin or unload {pinned_models}."
        if pinned_models
        else "Choose a smaller model, or a smaller quantisation of this one."
    )
    if refusal.pool == PLACES:
        sentence = f"{model} cannot be loaded: as many models as allowed at once are pinned ({pinned_models})."
    else:
        beside = (
            f" beside {pinned_models}, which {'are' if len(refusal.pinned) > 1 else 'is'} pinned"
            if pinned_models
            else ""
        )
        takes = "an unknown amount of" if refusal.needed is None else f"about {words.format_bytes(refusal.needed)} of"
        where = "memory" if refusal.pool == SYSTEM else f"memory on {refusal.pool}"
        available = words.format_bytes(refusal.available)
        sentence = f"{model} takes {takes} {where}, and at most {available} can be made available{beside}."
    kind = FailureKind.OUT_OF_MEMORY if refusal.pool in {SYSTEM, PLACES} else FailureKind.OUT_OF_GPU_MEMORY
    return Failure(kind=kind, sentence=sentence, hint=hint)


def as_error(report: FailureReport) -> EngineFailed:
    """Return the error a caller gets for a failure."""
    return EngineFailed(
        report.sentence, hint=report.hint, code=report.code, detail="\n".join(report.log_tail[-_IN_DETAIL:])
    )


def engine_stop_error(model: str) -> EngineFailed:
    """Return the error of an answer whose engine somebody stopped."""
    return EngineFailed(
        f"{model} was stopped while it answered.", hint="Send the request again to load it.", code="engine_stopped"
    )


def turn_away_error(model: str, reason: TurnAwayReason, *, retry_s: float = 0.0) -> RoundhouseError:
    """Return the error a caller gets when its load was called off, or too many wait."""
    match reason:
        case TurnAwayReason.FULL:
            return Overloaded(
                f"Server busy: too many requests are waiting for {model}.",
                hint=f"Try again in {math.ceil(retry_s)} seconds, or raise the setting gateway.queue_limit.",
                retry_s=retry_s,
            )
        case TurnAwayReason.UNLOADED:
            sentence, hint = f"{model} was unloaded before it was ready.", "Send the request again to load it."
        case TurnAwayReason.REPLACED:
            sentence, hint = f"{model} is being reloaded with other options.", "Try again in a moment."
        case TurnAwayReason.PAUSED:
            sentence = f"Roundhouse is paused, so {model} is not loaded."
            hint = "Resume in the window or with `roundhouse resume`, then try again."
        case TurnAwayReason.CLOSING:
            sentence, hint = "Roundhouse is shutting down.", "Start it again to continue."
    return Unavailable(sentence, hint=hint, code=reason.value)
