"""Every engine process of the gateway. A lease and `ensure_ready` are the only ways in.

`lease` (`lease_at_once`, `acquire_lease`) is for serving a request: it takes the model as it runs, starting it if need
be, and repeats a failure that the same arguments would only repeat. `ensure_ready` is for "load this": exactly these
options, and always a fresh attempt.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import msgspec

from app.confinement.confiner import Confiner
from app.core.engines import EngineState, EngineStatus, MemoryState
from app.core.errors import EngineFailed
from app.core.events import Event, LogLine, Notice
from app.supervisor import messages as m
from app.supervisor.faults import turn_away_error
from app.supervisor.lease import Lease, ReadyEndpoint
from app.supervisor.memory_arbiter import MemoryArbiter, memory_state
from app.supervisor.memory_limits import Gauge
from app.supervisor.memory_watch import MemoryWatch
from app.supervisor.owner import EngineOwner
from app.supervisor.pausing import PauseControl
from app.supervisor.policy import LeaseOptions, LoadRequest, SupervisorFolders, SupervisorPolicy
from app.supervisor.records import LaunchRecords
from app.supervisor.run import LoopbackPorts, RunDeps, StateKeeping
from app.supervisor.scheduling import Resident
from app.supervisor.states import StateFacts
from app.supervisor.waking import WakeWatch
from engines.api import EngineAdapter, Failure
from engines.environment import engine_environment

__all__ = ["Lease", "LeaseOptions", "LoadRequest", "Supervisor", "SupervisorFolders", "SupervisorPolicy"]

log = logging.getLogger(__name__)

_NO_OPTIONS = LeaseOptions()

Rescue = Callable[[LoadRequest, EngineStatus, EngineFailed], Awaitable[bool]]
"""Asked when a load has failed: whether another attempt would be a different one, because another version now runs."""


class Supervisor:
    """Start, share, watch and stop engines. Make it inside the event loop that will use it.

    `publish` is called in the loop and must return at once. `inherited` is the environment engines start with; by
    default what they need of this process's own, without credentials. Without `confiner` they may do what we may.
    """

    def __init__(  # noqa: PLR0913 -- what a supervisor is made of; half of it has defaults
        self,
        adapters: Mapping[str, EngineAdapter],
        folders: SupervisorFolders,
        policy: SupervisorPolicy,
        publish: Callable[[Event], None],
        *,
        inherited_environment: Mapping[str, str] | None = None,
        confiner: Confiner | None = None,
    ) -> None:
        self._policy = policy
        self._wake_watch = WakeWatch(self, publish)
        self._publish = self._note_and_publish(publish)
        self._is_closed = False
        self.rescue: Rescue | None = None
        self._owners: dict[str, EngineOwner] = {}
        self.states = StateKeeping()
        self._deps = RunDeps(
            adapters=adapters,
            folders=folders,
            inherited=engine_environment() if inherited_environment is None else inherited_environment,
            ports=LoopbackPorts(),
            records=LaunchRecords(folders.records, folders.scratch),
            confiner=confiner,
            keeping=self.states,
        )
        self._arbiter = MemoryArbiter(
            lambda: self._policy,
            describe_resident=lambda model: self._owners[model].describe_resident(),
            send=lambda model, message: self._owners[model].send_message(message),
        )
        self._watch_tasks: list[asyncio.Task[None]] = []
        self.pausing = PauseControl(self, publish)

    def _note_and_publish(self, publish: Callable[[Event], None]) -> Callable[[Event], None]:
        def publish_noted(event: Event) -> None:
            self._wake_watch.note_event(event)
            publish(event)

        return publish_noted

    def list_residents(self) -> list[Resident]:
        """Return who takes up room."""
        return self._arbiter.ledger.residents

    def request_of(self, model: str) -> LoadRequest | None:
        """Return how a model was loaded last."""
        owner = self._owners.get(model)
        return None if owner is None else owner.machine.request

    def stop_if_idle(self, model: str) -> None:
        """Stop a model's engine unless somebody uses it."""
        if model in self._owners:
            self._owners[model].send_message(m.StopRequest(how=m.StopReason.IF_IDLE))

    async def load_again(self, request: LoadRequest) -> None:
        """Load a model as it was, unless somebody has loaded it otherwise. Raises as `ensure_ready` does."""
        await self.ensure_ready(request, any_options=True)

    @property
    def policy(self) -> SupervisorPolicy:
        """What a person can set; assigning another takes effect at once. Whether it is paused stays as it is."""
        return self._policy

    @policy.setter
    def policy(self, policy: SupervisorPolicy) -> None:
        self._policy = msgspec.structs.replace(policy, is_paused=self.is_paused)
        self.tell_all(m.PolicyChanged())
        self._arbiter.reconsider_queue()

    @property
    def is_paused(self) -> bool:
        """Whether nothing is let in that takes memory; `pausing` changes it."""
        return self._policy.is_paused

    @is_paused.setter
    def is_paused(self, value: bool) -> None:
        self._policy = msgspec.structs.replace(self._policy, is_paused=value)

    def tell_all(self, message: m.Message) -> None:
        """Tell every owner."""
        for owner in self._owners.values():
            owner.send_message(message)

    @property
    def gauge(self) -> Gauge | None:
        """How much memory there is; without one it is taken to be endless."""
        return self._arbiter.gauge

    @gauge.setter
    def gauge(self, gauge: Gauge | None) -> None:
        self._arbiter.gauge = gauge

    async def start(self) -> int:
        """Kill what a gateway that was killed left running; return how many launches that were. Then watch memory."""
        self._watch_tasks = [
            asyncio.create_task(MemoryWatch(self, self._publish).run_forever(), name="memory for others"),
            asyncio.create_task(self._wake_watch.run_forever(), name="engines after sleep"),
        ]
        orphans = await asyncio.to_thread(self._deps.records.reap_orphans)
        if orphans:
            models = ", ".join(sorted({record.model for record in orphans}))
            sentence = f"Engines that an earlier run had left behind were stopped: {models}."
            self._publish(Notice(level="info", code="orphans_stopped", sentence=sentence))
        return len(orphans)

    async def close(self) -> None:
        """Stop every engine without waiting for requests, and start none again."""
        self._is_closed = True
        for task in self._watch_tasks:
            task.cancel()
        await asyncio.gather(*self._watch_tasks, return_exceptions=True)
        await self.pausing.close()
        self._arbiter.close()
        await asyncio.gather(*(owner.close() for owner in self._owners.values()))

    @asynccontextmanager
    async def lease(self, request: LoadRequest, options: LeaseOptions = _NO_OPTIONS) -> AsyncIterator[Lease]:
        """Hold a ready engine for as long as the block runs. Raises as `acquire_lease` does."""
        lease = self.lease_at_once(request, options) or await self.acquire_lease(request, options)
        try:
            yield lease
        finally:
            self.release_lease(lease)

    def lease_at_once(self, request: LoadRequest, options: LeaseOptions) -> Lease | None:
        """Hold the engine, until `release_lease`, if it is ready and has room; None if that takes waiting."""
        owner = self._owners.get(request.runs_as)
        return None if owner is None or self._is_closed else owner.lease_at_once(request, options)

    async def acquire_lease(self, request: LoadRequest, options: LeaseOptions) -> Lease:
        """Wait until the engine is ready, loading it first if need be, and hold it until `release_lease`.

        Raises EngineFailed when it cannot be made ready, Unavailable when the load is called off. Whoever is cancelled
        while waiting just leaves; a load that has begun goes on for half a minute.
        """
        owner = self._owner_of(request)
        try:
            return await owner.acquire_lease(request, options)
        except EngineFailed as error:
            if not await self._is_rescued(owner, request, error):
                raise
        # A fresh attempt, whatever was remembered of the one before.
        await owner.ensure_ready(request)
        return await owner.acquire_lease(request, options)

    def release_lease(self, lease: Lease) -> None:
        """Give a lease back."""
        self._owners[lease.model].release_lease(lease)

    async def ensure_ready(
        self, request: LoadRequest, *, any_options: bool = False, is_patient: bool = False
    ) -> EngineStatus:
        """Load the model with exactly these options, again if it runs with others or failed before.

        With `any_options` the request's are only for a load that has to begin. Answers of one that has to be loaded
        again get the policy's `drain_s`; with `is_patient` as long as they take. Raises EngineFailed when it cannot be
        made ready, Unavailable when the load is called off.
        """
        owner = self._owner_of(request)
        try:
            return await owner.ensure_ready(request, any_options=any_options, is_patient=is_patient)
        except EngineFailed as error:
            if not await self._is_rescued(owner, request, error):
                raise
        return await owner.ensure_ready(request)

    async def _is_rescued(self, owner: EngineOwner, request: LoadRequest, error: EngineFailed) -> bool:
        return self.rescue is not None and await self.rescue(request, owner.engine_status(), error)

    async def wait_for_holders(self, model: str) -> None:
        """Wait until the requests that a model's engine has now are done; later ones are not waited for."""
        if (owner := self._owners.get(model)) is not None:
            await owner.wait_for_holders()

    def pick_port(self) -> int:
        """Return a port for an engine with a seat: free now, and kept for no other engine."""
        return self._deps.ports.pick_port()

    async def is_answering(self, lease: Lease) -> bool | None:
        """Ask the engine of a lease, given back or not, until it answers; wait as long as its descriptor says.

        None where nobody can tell: the engine has ended or been replaced, somebody else runs it, or it would have to
        generate for an answer.
        """
        owner = self._owners.get(lease.status.model)
        return None if owner is None else await owner.is_answering(lease)

    async def still_computes(self, model: str) -> bool | None:
        """Ask a model's idle engine for a token; None where nobody can tell."""
        owner = self._owners.get(model)
        return None if owner is None else await owner.still_computes()

    async def end_broken(self, model: str) -> None:
        """Kill a model's engine, which computes no more, and wait for its end."""
        if (owner := self._owners.get(model)) is not None:
            await owner.end_broken()

    def fail_model(self, model: str, failure: Failure) -> None:
        """Have a model's engine killed that cannot know what happened: its answers end with `failure`."""
        if (owner := self._owners.get(model)) is not None:
            log.warning("%s was stopped: %s", model, failure.sentence, extra={"model": model})
            owner.fail_run(failure)

    def report_stuck(self, lease: Lease) -> None:
        """Have the engine of a lease, which answers nothing any more, killed; it starts again for those who wait."""
        model = lease.status.model
        if (owner := self._owners.get(model)) is not None and owner.end_stuck(lease):
            log.warning("%s answers nothing any more and is restarted.", model, extra={"model": model})

    async def unload_model(self, model: str, *, force: bool = False) -> EngineStatus:
        """Stop a model's engine, after the requests in flight unless `force`. Also forgets a failure."""
        return await self._stop_model(model, m.StopReason.NOW if force else m.StopReason.DRAIN)

    async def expire_model(self, model: str) -> EngineStatus:
        """Stop a model's engine at once if nobody uses it, else as soon as nobody does; no request is cut off."""
        return await self._stop_model(model, m.StopReason.EXPIRE)

    async def let_go(self, model: str) -> EngineStatus:
        """As `expire_model`, unless it is pinned: then it stays, and the status says so."""
        return await self._stop_model(model, m.StopReason.LET_GO)

    async def _stop_model(self, model: str, how: m.StopReason) -> EngineStatus:
        owner = self._owners.get(model)
        if owner is None:
            return EngineStatus(model=model, engine="", state=EngineState.STOPPED)
        return await owner.stop_engine(how)

    def serves_at_once(self, model: str) -> bool:
        """Tell whether a lease would be had without waiting, as things are."""
        owner = self._owners.get(model)
        return owner is not None and owner.machine.has_free_slot

    def free_endpoint(self, model: str) -> ReadyEndpoint | None:
        """Return where the engine is of which a lease would be had without waiting; None otherwise."""
        owner = self._owners.get(model)
        return owner.ready_endpoint() if owner is not None and owner.machine.has_free_slot else None

    async def read_memory(self) -> MemoryState:
        """Return the memory engines share, who holds it, and who waits for it. Pools are named by their ids."""
        limits = await self._arbiter.read_limits()
        return memory_state(self._arbiter.ledger, limits, self._policy, time.monotonic())

    async def model_capacity(self, model: str) -> dict[str, int]:
        """Return the most bytes of each pool that a model could have if all others went but the pinned ones."""
        limits = await self._arbiter.read_limits()
        pinned_bytes = [
            resident for resident in self._arbiter.ledger.residents if resident.is_pinned and resident.model != model
        ]
        return {
            pool: limit + limits.head_room - sum((resident.holds or {}).get(pool, 0) for resident in pinned_bytes)
            for pool, limit in limits.pools.items()
        }

    def list_statuses(self) -> list[EngineStatus]:
        """Return every engine that runs, is about to, or failed, by model name."""
        all_statuses = [owner.engine_status() for _, owner in sorted(self._owners.items())]
        return [status for status in all_statuses if status.state is not EngineState.STOPPED]

    def state_facts(self, model: str) -> StateFacts:
        """Tell whether the states of a model's slots are kept."""
        owner = self._owners.get(model)
        return StateFacts(is_kept=False) if owner is None else owner.state_facts()

    def list_ready(self) -> list[ReadyEndpoint]:
        """Return where every ready engine is."""
        endpoints = (owner.ready_endpoint() for _, owner in sorted(self._owners.items()))
        return [endpoint for endpoint in endpoints if endpoint is not None]

    def read_log(self, model: str, *, tail: int = 200) -> list[LogLine]:
        """Return the last lines a model's engine wrote, or with "" every engine, oldest first, over all runs."""
        owners = [owner for name, owner in self._owners.items() if model in {"", name}]
        lines = sorted((line for owner in owners for line in owner.log.tail_lines(tail)), key=lambda line: line.at)
        return lines[-tail:] if tail > 0 else []

    def _owner_of(self, request: LoadRequest) -> EngineOwner:
        model = request.runs_as
        if self._is_closed:
            raise turn_away_error(model, m.TurnAwayReason.CLOSING)
        if model not in self._owners:
            self._owners[model] = EngineOwner(
                model, self._deps, self._arbiter, policy=lambda: self._policy, publish=self._publish
            )
        return self._owners[model]
