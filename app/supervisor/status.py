"""An engine as the rest of the product sees it, put together from its state and what its run has said."""

import math
import time

from app.core.engines import EngineState, EngineStatus, FailureReport
from app.supervisor.ending import COMING_UP, EngineTimer
from app.supervisor.facts import RunFacts
from app.supervisor.machine import EngineMachine
from app.supervisor.policy import LoadRequest, recent_restarts
from app.supervisor.remedy_offers import list_remedy_offers
from engines.api import Failure

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
        notes=[*(applied_remedy.sentence for applied_remedy in machine.applied), *facts.left_out] if is_there else [],
        mended=list(machine.applied) if is_there else [],
        pid=facts.pid if is_there else None,
        context=facts.context,
        slots=facts.slots,
        kv_type=machine.effective_request.options.kv_type or "" if machine.effective_request else "",
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
