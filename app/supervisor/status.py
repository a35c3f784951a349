"""An engine as the rest of the product sees it, put together from its state and what its run has said.

What may help against a failure, as an offer with the command that does it.
"""

import math
import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import NamedTuple

from app.core.engines import EngineState, EngineStatus, FailureReport, RemedyOffer
from app.core.hub import origin_of
from app.core.models import LoadOptions
from app.supervisor.ending import COMING_UP, EngineTimer
from app.supervisor.facts import RunFacts
from app.supervisor.machine import EngineMachine
from app.supervisor.policy import LoadRequest, recent_restarts
from engines.api import Failure, FailureKind, Remedy, RemedyKind

_WITHOUT_PROCESS = frozenset({EngineState.STOPPED, EngineState.FAILED, EngineState.BACKING_OFF})
_LOG_TAIL = 20


def status_of(model: str, machine: EngineMachine, facts: RunFacts, *, now: float, is_queued: bool) -> EngineStatus:
    """Return the status at a monotonic time; its own times are Unix seconds, right by the clock of this moment.

    `is_queued`: another model has to make room first.
    """
    is_there = machine.state not in _WITHOUT_PROCESS
    wall = time.time()
    due = machine.timers.get(EngineTimer.RETRY)
    engine = machine.request.engine if machine.request else ""
    return EngineStatus(
        model=model,
        engine=engine,
        version=facts.version,
        backend=facts.backend,
        state=machine.state,
        progress=facts.progress if machine.state in COMING_UP else None,
        stage=_stage_text(machine, facts, is_queued=is_queued),
        failure=report_of(model, machine.failure, facts, machine.request) if machine.failure else None,
        placement=machine.request.placement if machine.request else "",
        notes=[*(applied_remedy.sentence for applied_remedy in machine.applied), *facts.left_out] if is_there else [],
        mended=list(machine.applied) if is_there else [],
        pid=facts.pid if is_there else None,
        context=facts.context,
        slots=facts.slots,
        kv_type=machine.effective_request.options.kv_type or "" if machine.effective_request else "",
        draft=machine.effective_request.options.draft_name if machine.effective_request else "",
        in_flight=machine.in_flight,
        queued=machine.queue_length,
        is_pinned=machine.is_pinned,
        memory_bytes=(sum(facts.buffers.values()) or facts.resident or None) if is_there else None,
        buffers=dict(facts.buffers) if is_there else {},
        restarts=len(recent_restarts(machine.restarts, now)),
        retry_at=None if due is None else wall + due - now,
        loaded_at=facts.loaded_at if is_there else None,
        load_seconds=facts.load_s if is_there else None,
        last_used_at=wall + machine.last_used - now if machine.last_used else None,
        unload_at=_unload_at(machine, now, wall),
    )


def _unload_at(machine: EngineMachine, now: float, wall: float) -> float | None:
    if machine.state is not EngineState.READY or not math.isfinite(machine.idle_s):
        return None
    unused_since = now if machine.in_flight else machine.last_used
    return wall + unused_since + machine.idle_s - now


def report_of(model: str, failure: Failure, facts: RunFacts, request: LoadRequest | None) -> FailureReport:
    """Return a failure with the engine's last words, and what may help."""
    return FailureReport(
        code=failure.kind.value,
        sentence=failure.sentence,
        hint=failure.hint,
        evidence=failure.evidence,
        remedies=list_remedy_offers(model, failure, request),
        log_tail=list(facts.tail)[-_LOG_TAIL:],
        exit_code=facts.exit_code,
    )


def _stage_text(machine: EngineMachine, facts: RunFacts, *, is_queued: bool) -> str:
    if machine.state not in COMING_UP:
        return ""
    return "Waiting for another model to free memory" if is_queued else facts.stage or "Starting"


class _OfferContext(NamedTuple):
    """What a command may have to name. `origin` is how to pull the model, empty where that is not known."""

    model: str
    engine: str
    origin: str
    kind: FailureKind


def list_remedy_offers(model: str, failure: Failure, request: LoadRequest | None) -> list[RemedyOffer]:
    """Return what may help against a failure, each with the command that does it."""
    engine, place = ("", None) if request is None else (request.engine, request.source.path)
    context = _OfferContext(model=model, engine=engine, origin=_pull_name(place), kind=failure.kind)
    return [_build_offer(context, remedy) for remedy in failure.remedies]


def _build_offer(context: _OfferContext, remedy: Remedy) -> RemedyOffer:
    """Return a remedy with its command. Options that a load cannot choose are left to `apply_auto_remedy`."""
    options = dict(remedy.options) if remedy.options.keys() <= set(LoadOptions.__struct_fields__) else {}
    is_load = bool(options) or remedy.kind is RemedyKind.LOAD_AGAIN
    words = ["load", context.model, *(word for name, value in options.items() for word in _option_flag(name, value))]
    command = _shell_command(*words) if is_load else _COMMANDS.get(remedy.kind, _no_command)(context)
    return RemedyOffer(kind=remedy.kind.value, label=remedy.label, command=command, options=options)


def _option_flag(name: str, value: float | str) -> tuple[str, str]:
    return (f"--{name.replace('_', '-')}", str(value))


def _shell_command(*words: str) -> str:
    return shlex.join(["roundhouse", *words])


def _command_template(*words: str) -> Callable[[_OfferContext], str]:
    return lambda context: _shell_command(*(word.format(engine=context.engine, model=context.model) for word in words))


def _no_command(_context: _OfferContext) -> str:
    return ""


def _download_command(context: _OfferContext) -> str:
    """Return how to have a model's files anew: what lies here whole is not fetched again, so it goes first."""
    if not context.origin:
        return _shell_command("search", context.model)
    pull = _shell_command("pull", context.origin)
    return f"{_shell_command('rm', context.model)} && {pull}" if context.kind in _DAMAGED else pull


def _pull_name(place: Path | None) -> str:
    origin = None if place is None else origin_of(place)
    if origin is None:
        return ""
    return f"{origin.repository}/{origin.path}" if PurePath(origin.path).suffix == _GGUF else origin.repository


_GGUF = ".gguf"
_DAMAGED = frozenset({FailureKind.MODEL_CORRUPT, FailureKind.BAD_TEMPLATE})
_COMMANDS: Mapping[RemedyKind, Callable[[_OfferContext], str]] = MappingProxyType(
    {
        RemedyKind.ALLOW_CODE: _command_template("tune", "{model}", "--allow-code"),
        RemedyKind.DOWNLOAD_AGAIN: _download_command,
        RemedyKind.FREE_DISK: _command_template("disk"),
        RemedyKind.FREE_MEMORY: _command_template("ps"),
        RemedyKind.INSTALL_AGAIN: _command_template("engines", "install", "{engine}"),
        RemedyKind.OTHER_MODEL: _command_template("list"),
        RemedyKind.OTHER_RUNTIME: _command_template("engines"),
        RemedyKind.RESET_OPTIONS: _command_template("tune", "{model}", "--reset"),
        RemedyKind.SIGN_IN: _command_template("token", "set"),
        RemedyKind.SMALLER_MODEL: _command_template("list"),
        RemedyKind.UPDATE_DRIVER: _command_template("doctor"),
        RemedyKind.UPDATE_ENGINE: _command_template("engines", "update", "{engine}"),
    }
)
"""What does it, or shows the way where a person has to choose."""
