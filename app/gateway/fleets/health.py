"""Whether replicas work: what they answer when asked for their models, and now and then whether they write a token.

An engine whose graphics card hangs, or that was frozen, may answer the first and not the second; one that answers
neither may only be busy. An engine of this computer is judged by its use of the processor too, as every other.
"""

import asyncio
import time
from collections.abc import Callable

import msgspec

from app.core.engines import EngineState
from app.gateway.fleets.fleet_file import VERSION
from app.gateway.fleets.replicas import seat_name
from app.hub.library.attached import Attachment, ReplicaRecord
from app.supervisor.pool import Supervisor
from app.supervisor.readiness import EngineEndpoint, computes
from app.supervisor.remote import MODELS, check_endpoint

TOKEN_EVERY_S = 60.0
"""Each token takes a slot for a moment, and with it what that slot had read of the conversation it was used for."""
TOKEN_S = 60.0
"""For a token of an engine elsewhere, which waits for the work before it."""
_CHAT = "/chat/completions"


class ReplicaHealth(msgspec.Struct, kw_only=True):
    """What came of looking at one replica."""

    problem: str = ""
    token_at: float | None = None
    """When it was last asked for a token, in monotonic seconds."""


class HealthWatch:
    """Looks at replicas. Belongs to the event loop."""

    def __init__(self, supervisor: Supervisor, clock: Callable[[], float] = time.monotonic) -> None:
        self._supervisor, self._clock = supervisor, clock
        self._states: dict[str, ReplicaHealth] = {}

    def problem_of(self, fleet: str, member: ReplicaRecord) -> str:
        """Return what is wrong with a replica, in a sentence; empty for one that works, or was never looked at."""
        state = self._states.get(seat_name(fleet, member.name))
        return "" if state is None else state.problem

    def forget(self, fleet: str, member: ReplicaRecord) -> None:
        """Begin anew with a replica that is not the one that was looked at."""
        self._states.pop(seat_name(fleet, member.name), None)

    async def look_at(self, attachment: Attachment, member: ReplicaRecord, key: str) -> None:
        """Look at one replica; one of this computer that computes no more is killed, which gives its requests back."""
        seat = seat_name(attachment.name, member.name)
        if member.weights and not self._is_ready(seat):
            self.forget(attachment.name, member)
            return
        state = self._states.setdefault(seat, ReplicaHealth())
        endpoint = EngineEndpoint(base_url=member.url + VERSION, key=key, served_name=attachment.served_as)
        failure = await check_endpoint(endpoint, MODELS)
        if not member.weights and failure is not None:
            state.problem, state.token_at = failure.sentence, None
        elif failure is not None or self._is_token_due(state):
            state.token_at = self._clock()
            state.problem = await self._ask_token(endpoint, member, seat)

    def _is_token_due(self, state: ReplicaHealth) -> bool:
        return bool(state.problem) or state.token_at is None or self._clock() - state.token_at >= TOKEN_EVERY_S

    def _is_ready(self, seat: str) -> bool:
        return any(
            status.model == seat and status.state is EngineState.READY for status in self._supervisor.list_statuses()
        )

    async def _ask_token(self, endpoint: EngineEndpoint, member: ReplicaRecord, seat: str) -> str:
        if member.weights:
            if await self._supervisor.still_computes(seat) is False:
                await self._supervisor.end_broken(seat)
                return "It computed nothing any more and was ended."
            return ""
        try:
            if await computes(endpoint, _CHAT, timeout_s=TOKEN_S):
                return ""
        except (OSError, ValueError, asyncio.CancelledError) as error:  # TimeoutError too
            if isinstance(error, asyncio.CancelledError):
                raise
        return "It lists the model, and writes no token."
