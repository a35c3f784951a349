"""What an engine's owner is told, and what it then does: the two vocabularies of the state machine.

A message that comes from a run of the engine carries that run's number: news of an earlier run is ignored. A ticket
names one caller that waits for one answer.
"""

from enum import StrEnum

import msgspec

from app.supervisor.policy import LeaseOptions, LoadRequest
from engines.api import Failure


class ReadyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody wants the model ready.

    `explicit`: a person or program said "load it", so exactly these options count and an earlier failure does not.
    `any_options`: they named no options, so what runs or is loading will do, unless the model's file changed.
    `client`: for whom; where requests wait, each client has its turn, however many it sends.
    `is_patient`: what runs with other options is not stopped before its answers are done, however long they take.
    `holds`: the caller takes a lease. `fingerprint` tells whether the model's file changed.
    """

    ticket: int
    request: LoadRequest
    explicit: bool = False
    any_options: bool = False
    is_patient: bool = False
    holds: bool = False
    fingerprint: tuple[int, ...] = ()
    terms: LeaseOptions = LeaseOptions()
    client: str = ""


class WithdrawTicket(msgspec.Struct, frozen=True, kw_only=True):
    """A caller no longer waits."""

    ticket: int


class ReleaseLease(msgspec.Struct, frozen=True, kw_only=True):
    """A lease ended; `slot` as in its grant."""

    run: int
    slot: bool = True


class StopReason(StrEnum):
    """How to stop. None of these is silent about a crash."""

    DRAIN = "drain"
    """Let requests in flight finish, for as long as the policy allows."""
    YIELD = "yield"
    """Let them finish however long they take, and take no new ones: another model waits for the room."""
    PAUSE = "pause"
    """Let them finish however long they take, and send away whoever waits: a person wants the memory."""
    IF_IDLE = "if_idle"
    """Only if nothing is in flight."""
    EXPIRE = "expire"
    """At once if nobody uses it or waits for it, else when the last one is done. New requests are served meanwhile."""
    LET_GO = "let_go"
    """As `EXPIRE`, but not what is pinned: a request said so, not a person."""
    NOW = "now"
    """Do not wait for requests; if it is already stopping, kill it."""
    CLOSE = "close"
    """As `NOW`, and never start again."""


class StopRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody wants the engine gone. `ticket` 0 wants no answer."""

    how: StopReason
    ticket: int = 0


class RoomGranted(msgspec.Struct, frozen=True, kw_only=True):
    """There is room to load this model now."""

    run: int


class RoomAwaited(msgspec.Struct, frozen=True, kw_only=True):
    """There is no room for this model yet: others have to make some. News only for those who watch."""

    run: int


class RoomRefused(msgspec.Struct, frozen=True, kw_only=True):
    """There will be no room for this model as things are."""

    run: int
    failure: Failure


class ProcessesStarted(msgspec.Struct, frozen=True, kw_only=True):
    """The processes exist. Times in seconds, as the engine's adapter wants them."""

    run: int
    stall_s: float
    hard_s: float
    grace_s: float


class SignOfLife(msgspec.Struct, frozen=True, kw_only=True):
    """A sign of life: a log line, progress, or use of the processor."""

    run: int


class EngineReady(msgspec.Struct, frozen=True, kw_only=True):
    """It was seen to work. `slots`: how many requests it works on at once; None: no bound is known."""

    run: int
    slots: int | None = None


class EngineStuck(msgspec.Struct, frozen=True, kw_only=True):
    """It can answer nothing any more, and does not end by itself: `failure` says why."""

    run: int
    failure: Failure


class RunEnded(msgspec.Struct, frozen=True, kw_only=True):
    """No process of this run is left, or none could be started. `failure` is what it would be if nobody asked."""

    run: int
    failure: Failure


class PolicyChanged(msgspec.Struct, frozen=True):
    """Times and limits may be others now."""


News = RoomGranted | RoomAwaited | RoomRefused | ProcessesStarted | SignOfLife | EngineReady | EngineStuck | RunEnded
Message = ReadyRequest | WithdrawTicket | ReleaseLease | StopRequest | PolicyChanged | News


class LeaseGranted(msgspec.Struct, frozen=True, kw_only=True):
    """The caller holds this run until it releases it; `slot`: it takes one of those there are."""

    run: int
    slot: bool = True


class Acknowledgement(msgspec.Struct, frozen=True):
    """What was asked for is so; the status says the rest."""


class LoadRefused(msgspec.Struct, frozen=True, kw_only=True):
    """The engine failed."""

    failure: Failure


class TurnAwayReason(StrEnum):
    """Why a waiter was sent away although nothing failed."""

    UNLOADED = "unloaded"
    REPLACED = "replaced"
    CLOSING = "closing"
    FULL = "queue_full"
    PAUSED = "paused"


class LoadTurnedAway(msgspec.Struct, frozen=True, kw_only=True):
    """The load was called off, or too many wait already: then `retry_s` says when it is worth another try."""

    reason: TurnAwayReason
    retry_s: float = 0.0


CallOutcome = LeaseGranted | Acknowledgement | LoadRefused | LoadTurnedAway


class EnterRoom(msgspec.Struct, frozen=True, kw_only=True):
    """Queue for room; answered with `RoomGranted` or `RoomRefused`."""

    run: int


class LeaveRoom(msgspec.Struct, frozen=True):
    """Give the room back, or leave the queue."""


class LaunchRun(msgspec.Struct, frozen=True, kw_only=True):
    """Start the processes; answered with `ProcessesStarted` or `RunEnded`."""

    run: int
    request: LoadRequest


class AskToEnd(msgspec.Struct, frozen=True, kw_only=True):
    """Soft stop; answered with `RunEnded`."""

    run: int


class KillRun(msgspec.Struct, frozen=True, kw_only=True):
    """Kill the process group; answered with `RunEnded`."""

    run: int


class AbandonRun(msgspec.Struct, frozen=True, kw_only=True):
    """It survived being killed: watch it no longer, and leave its record for the next start."""

    run: int


class AnswerCaller(msgspec.Struct, frozen=True, kw_only=True):
    """Wake one caller."""

    ticket: int
    outcome: CallOutcome


MachineEffect = EnterRoom | LeaveRoom | LaunchRun | AskToEnd | KillRun | AbandonRun | AnswerCaller
