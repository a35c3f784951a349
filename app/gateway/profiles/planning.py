"""What a switch to another profile does: which models are loaded, loaded again, kept and unloaded, and in what memory.

Each model is planned as every load is, as if the profile were active; where it does not fit beside what stays and what
was planned before it, it is planned anew for the memory that is left, and left out if that is too little.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from app.config.profiles import REQUEST_PROFILE
from app.core.api import GUIDE
from app.core.engines import EngineState, EngineStatus, MemoryState
from app.core.errors import RoundhouseError
from app.core.profiles import Profile, ProfileAction, ProfilePlan, ProfilePool, ProfileStep
from app.core.words import format_bytes
from app.gateway.loading.launch import resolve_model
from app.gateway.services import Services
from app.supervisor.policy import LoadRequest

_LEAVING = frozenset({EngineState.DRAINING, EngineState.STOPPING, EngineState.STOPPED, EngineState.FAILED})


class LoadStep(NamedTuple):
    """One model that a switch loads."""

    request: LoadRequest
    is_again: bool
    """Whether it runs with another context now."""


@dataclass(frozen=True, slots=True)
class SwitchWork:
    """A switch: what is said of it, and what is to be done."""

    plan: ProfilePlan
    loads: Sequence[LoadStep] = ()
    unloads: Sequence[str] = ()


@contextmanager
def request_profile(profile: str) -> Iterator[None]:
    """Have a profile count, by name, for what runs in the block, as for a request that names it."""
    token = REQUEST_PROFILE.set(profile)
    try:
        yield
    finally:
        REQUEST_PROFILE.reset(token)


async def plan_switch(services: Services, profile: Profile) -> SwitchWork:
    """Return what switching to a profile does. One without models to load leaves what is loaded as it is."""
    names = [entry.model for entry in profile.models if entry.is_loaded]
    problems: dict[str, str] = {}
    requests: list[LoadRequest] = []
    with request_profile(profile.name):
        for name in names:
            try:
                resolved_model = await resolve_model(services, name)
            except RoundhouseError as error:
                problems[name] = error.body.sentence
            else:
                requests.append(resolved_model.load)
    work = await _plan_loads(services, profile, requests, is_whole=bool(names))
    left_out = [
        ProfileStep(model=name, action=ProfileAction.LEAVE_OUT, reason=reason) for name, reason in problems.items()
    ]
    return SwitchWork(_with_steps(work.plan, left_out), work.loads, work.unloads)


async def plan_return(services: Services, profile: Profile, requests: Sequence[LoadRequest]) -> SwitchWork:
    """Return what it takes that a profile is active and these loads alone run, exactly as they are."""
    return await _plan_loads(services, profile, requests, is_whole=True, is_exact=True)


async def _plan_loads(
    services: Services, profile: Profile, requests: Sequence[LoadRequest], *, is_whole: bool, is_exact: bool = False
) -> SwitchWork:
    draft = _SwitchDraft(services, profile, await services.supervisor.read_memory(), is_exact)
    names = {request.source.name for request in requests}
    for status in draft.running.values() if is_whole else ():
        if status.model not in names:
            draft.drop_or_keep(status)
    for request in requests:
        await draft.add_load(request)
    return draft.finish()


def _with_steps(plan: ProfilePlan, steps: Sequence[ProfileStep]) -> ProfilePlan:
    return ProfilePlan(profile=plan.profile, steps=[*plan.steps, *steps], pools=plan.pools)


@dataclass(slots=True)
class _SwitchDraft:
    """A switch while it is planned."""

    services: Services
    profile: Profile
    memory: MemoryState
    is_exact: bool = False
    """Whether contexts count that the profile says nothing of."""
    steps: list[ProfileStep] = field(default_factory=list)
    loads: list[LoadStep] = field(default_factory=list)
    unloads: list[str] = field(default_factory=list)
    running: dict[str, EngineStatus] = field(init=False)
    """What runs here and takes memory, but the Guide, which is small and there to help."""
    holds: dict[str, Mapping[str, int]] = field(init=False)
    """Bytes by pool of what will be loaded."""

    def __post_init__(self) -> None:
        supervisor = self.services.supervisor
        present = [status for status in supervisor.list_statuses() if status.state not in _LEAVING]
        self.running = {
            status.model: status
            for status in present
            if status.model != GUIDE
            and (request := supervisor.request_of(status.model)) is not None
            and request.takes_memory
        }
        self.holds = {
            status.model: {
                pool.id: holder.bytes or 0
                for pool in self.memory.pools
                for holder in pool.holders
                if holder.model == status.model
            }
            for status in present
            if status.model == GUIDE or status.model in self.running
        }

    def drop_or_keep(self, status: EngineStatus) -> None:
        """Have a model go that the profile does not name, unless it was pinned by itself."""
        is_pinned = self.services.model_settings.own_settings(status.model).pinned
        self._note_step(status.model, ProfileAction.STAY if is_pinned else ProfileAction.UNLOAD)
        if not is_pinned:
            self.unloads.append(status.model)
            self.holds.pop(status.model, None)

    async def add_load(self, request: LoadRequest) -> None:
        """Have a model be there as it is asked for, as far as there is room."""
        name = request.source.name
        if not request.takes_memory:
            self._note_step(name, ProfileAction.KEEP, reason="It runs elsewhere.")
            return
        held_request = self.services.supervisor.request_of(name) if name in self.running else None
        if held_request is not None and not self._differs(held_request, request):
            self._note_step(name, ProfileAction.KEEP)
            return
        before = self.holds.pop(name, None)
        fitting_load = await self._fit(request)
        if fitting_load is None:
            if before is not None:
                self.holds[name] = before
            self._note_step(name, ProfileAction.LEAVE_OUT, reason=self._why_no_room(request))
            return
        self.holds[name] = {} if fitting_load.needs is None else fitting_load.needs.pools
        self.loads.append(LoadStep(fitting_load, is_again=held_request is not None))
        self._note_step(
            name,
            ProfileAction.LOAD if held_request is None else ProfileAction.RELOAD,
            context=fitting_load.options.context,
            is_sized=fitting_load.needs is not None,
        )

    def finish(self) -> SwitchWork:
        """Return the switch."""
        names = {pool.id: pool.name for pool in self.memory.pools}
        machine = self.services.machine.last
        names |= {pool.id: pool.name for pool in machine.pools if pool.name} if machine is not None else {}
        pools = [
            ProfilePool(
                name=names[pool.id],
                limit=max(0, pool.limit),
                before_bytes=pool.bytes_in_use,
                after_bytes=sum(held_bytes.get(pool.id, 0) for held_bytes in self.holds.values()),
            )
            for pool in self.memory.pools
        ]
        return SwitchWork(
            ProfilePlan(profile=self.profile.name, steps=self.steps, pools=pools), self.loads, self.unloads
        )

    def _differs(self, held_request: LoadRequest, request: LoadRequest) -> bool:
        """Tell whether a model runs otherwise than the profile says: its context counts where the profile has one."""
        entry = self.profile.find_model(request.source.name)
        has_context = self.is_exact or (entry is not None and entry.context is not None)
        return (held_request.engine, held_request.source) != (request.engine, request.source) or (
            has_context and held_request.options.context != request.options.context
        )

    async def _fit(self, request: LoadRequest) -> LoadRequest | None:
        """Return the load as it fits beside the others; None if it does not."""
        if self.memory.max_loaded and len(self.holds) >= self.memory.max_loaded:
            return None
        free = {
            pool.id: pool.limit - sum(held_bytes.get(pool.id, 0) for held_bytes in self.holds.values())
            for pool in self.memory.pools
        }
        if self._fits(request, free):
            return request
        from app.gateway.loading.memory_fit import fit_load  # noqa: PLC0415 -- the advisor is brought in once it is needed

        smaller = await fit_load(
            self.services, request, capacity={pool: max(0, bytes_left) for pool, bytes_left in free.items()}
        )
        return smaller if self._fits(smaller, free) else None

    def _fits(self, request: LoadRequest, free: Mapping[str, int]) -> bool:
        needs = {} if request.needs is None else request.needs.pools
        alone = self.memory.pools[0].head_room if self.memory.pools and not self.holds else 0
        return all(needs.get(pool, 0) <= bytes_left + alone for pool, bytes_left in free.items())

    def _why_no_room(self, request: LoadRequest) -> str:
        if self.memory.max_loaded and len(self.holds) >= self.memory.max_loaded:
            return f"At most {self.memory.max_loaded} models are loaded at once (models.max_loaded)."
        beside = ", ".join(self.holds)
        size = "" if request.needs is None else f" for its {format_bytes(sum(request.needs.pools.values()))}"
        return f"There is no room{size} beside {beside}." if beside else f"There is no room{size}."

    def _note_step(
        self,
        name: str,
        action: ProfileAction,
        *,
        reason: str = "",
        context: int | None = None,
        is_sized: bool = True,
    ) -> None:
        status = self.running.get(name)
        held_bytes = self.holds.get(name)
        known_bytes = (
            sum(held_bytes.values())
            if held_bytes is not None and is_sized and action is not ProfileAction.LEAVE_OUT
            else None
        )
        self.steps.append(
            ProfileStep(
                model=name,
                action=action,
                memory_bytes=known_bytes,
                context=context or (status.context if status is not None else None),
                is_busy=status is not None and status.in_flight > 0,
                reason=reason,
            )
        )


def list_loads(services: Services) -> list[LoadRequest]:
    """Return how the models that are loaded here were loaded, those used last first; what is leaving is not."""
    supervisor = services.supervisor
    statuses = [status for status in supervisor.list_statuses() if status.state not in _LEAVING]
    statuses.sort(key=lambda status: -(status.last_used_at or status.loaded_at or 0.0))
    requests = (supervisor.request_of(status.model) for status in statuses if status.model != GUIDE)
    return [request for request in requests if request is not None and request.takes_memory]
