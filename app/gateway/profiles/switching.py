"""Switching from one profile to another: what is active changes at once, models go and come in the background.

A model that writes answers goes after them, and one that is loaded again with another context does so after them too:
no answer is broken off. A second switch ends what the first still loads. One switch can be taken back: what was active
and what was loaded before it is so again.
"""

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from app.core.errors import Conflict, RoundhouseError
from app.core.events import ProfilesChanged
from app.core.models import ModelInfo
from app.core.profiles import (
    NO_PROFILE,
    OpenHours,
    Profile,
    ProfileCause,
    ProfileList,
    ProfileModel,
    ProfilePlan,
    SaveProfile,
    next_switch,
)
from app.gateway.background import Background
from app.gateway.loading.launch import renew_policy
from app.gateway.profiles.planning import LoadStep, SwitchWork, list_loads, plan_return, plan_switch
from app.gateway.services import Services
from app.supervisor.policy import LoadRequest

log = logging.getLogger(__name__)


class UndoPoint(msgspec.Struct, frozen=True, kw_only=True):
    """How it was before a switch."""

    active: str
    loads: list[LoadRequest]


class ProfileSwitcher:
    """The one that makes profiles active. Belongs to the event loop."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._background = Background()
        self._undo: UndoPoint | None = None
        self._loading_names: list[str] = []
        self._problems: list[str] = []
        self._work: asyncio.Task[None] | None = None

    def describe(self, now: float) -> ProfileList:
        """Return the profiles and how things stand."""
        profiles, state = self._services.profiles.list_profiles(), self._services.profiles.state
        return ProfileList(
            profiles=profiles,
            active=self._services.profiles.active_profile().name,
            cause=state.cause,
            next_switch=next_switch(profiles, now),
            can_undo=self._undo is not None,
            loading=list(self._loading_names),
            problems=list(self._problems),
        )

    async def save_profile(self, request: SaveProfile) -> Profile:
        """Keep a profile, with its models called as they run. Raises NotFound for a model that is not here."""
        profile, library = request.profile, self._services.library
        models = [await asyncio.to_thread(library.find_model, entry.model) for entry in profile.models]
        if profile.default:
            await asyncio.to_thread(library.find_model, profile.default)
        saved_profile = self._services.profiles.save_profile(
            msgspec.structs.replace(
                request, profile=msgspec.structs.replace(profile, models=_with_run_names(profile, models))
            )
        )
        self._note_change()
        return saved_profile

    def remove_profile(self, name: str) -> None:
        """Forget a profile; where it is active, none is. What is loaded stays. Raises NotFound."""
        self._services.profiles.remove_profile(name)
        self._note_change()

    def draft_from_now(self, name: str) -> Profile:
        """Return what is loaded and counts now as a profile, which is not kept."""
        services = self._services
        policy = services.supervisor.policy
        loads = sorted(list_loads(services), key=lambda request: request.source.name)
        models = [
            ProfileModel(
                model=request.source.name,
                is_pinned=policy.for_model(request.source.name).is_pinned,
                context=request.options.context,
            )
            for request in loads
        ]
        active = services.profiles.active_profile()
        return Profile(name=name, models=models, default=active.default, aliases=active.aliases)

    async def plan_switch_to(self, name: str) -> ProfilePlan:
        """Return what switching to a profile, or with an empty name to none, would do. Raises NotFound."""
        return (await plan_switch(self._services, self._find(name))).plan

    async def switch_to(self, name: str, cause: ProfileCause = ProfileCause.PERSON) -> ProfilePlan:
        """Make a profile the active one, and return what is done for it. Raises NotFound, or Conflict while paused."""
        profile = self._find(name)
        self._check_pause()
        work = await plan_switch(self._services, profile)
        self._undo = UndoPoint(active=self._services.profiles.active_profile().name, loads=list_loads(self._services))
        self._activate(profile.name, cause)
        self._begin(work)
        return work.plan

    async def undo_switch(self) -> ProfilePlan:
        """Have it again as it was before the last switch. Raises Conflict where there is none, or while paused."""
        self._check_pause()
        if self._undo is None:
            raise Conflict("There is no switch of profiles to take back.", code="nothing_to_undo")
        point, self._undo = self._undo, None
        names = {profile.name for profile in self._services.profiles.list_profiles()}
        profile = self._find(point.active if point.active in names else "")
        work = await plan_return(self._services, profile, point.loads)
        self._activate(profile.name, ProfileCause.PERSON)
        self._begin(work)
        return work.plan

    def note_hours(self, hours: OpenHours | None, *, before: str | None = None) -> None:
        """Note whose hours were seen last, and with `before` what was active until then."""
        profiles = self._services.profiles
        profiles.set_state(
            msgspec.structs.replace(
                profiles.state, hours=hours, before=profiles.state.before if before is None else before
            )
        )

    async def close(self) -> None:
        """End what goes on."""
        await self._background.join(cancel=True)

    def _find(self, name: str) -> Profile:
        return self._services.profiles.find_profile(name) if name else NO_PROFILE

    def _check_pause(self) -> None:
        if self._services.supervisor.is_paused:
            raise Conflict(
                "Roundhouse is paused, and loads nothing.", hint="`roundhouse resume` ends that.", code="paused"
            )

    def _activate(self, name: str, cause: ProfileCause) -> None:
        profiles = self._services.profiles
        profiles.set_state(msgspec.structs.replace(profiles.state, active=name, cause=cause))
        self._note_change()

    def _note_change(self) -> None:
        renew_policy(self._services)
        self._services.events.publish(ProfilesChanged())

    def _begin(self, work: SwitchWork) -> None:
        before, self._problems = self._work, []
        self._loading_names = [step.request.source.name for step in work.loads]
        if before is not None:
            before.cancel()
        self._work = self._background.spawn(self._carry_out(work))

    async def _carry_out(self, work: SwitchWork) -> None:
        supervisor = self._services.supervisor
        unload_tasks = [self._background.spawn(supervisor.let_go(model)) for model in work.unloads]
        try:
            await asyncio.sleep(0)  # whoever is idle begins to go before anything asks for room
            again = [self._load(step.request) for step in work.loads if step.is_again]
            await asyncio.gather(self._load_in_turn([step for step in work.loads if not step.is_again]), *again)
        finally:
            if asyncio.current_task() is self._work:
                self._loading_names = []
                self._services.events.publish(ProfilesChanged())
        await asyncio.gather(*unload_tasks, return_exceptions=True)

    async def _load_in_turn(self, steps: Sequence[LoadStep]) -> None:
        for step in steps:
            await self._load(step.request)

    async def _load(self, request: LoadRequest) -> None:
        supervisor, name = self._services.supervisor, request.source.name
        try:
            await supervisor.ensure_ready(request, is_patient=True)
        except RoundhouseError as error:
            log.info("%s, which a profile names, was not loaded: %s", name, error)
            self._problems.append(f"{name}: {error.body.sentence}")
        self._loading_names = [other for other in self._loading_names if other != name]
        self._services.events.publish(ProfilesChanged())


def _with_run_names(profile: Profile, models: list[ModelInfo]) -> list[ProfileModel]:
    return [
        msgspec.structs.replace(entry, model=model.runs_as) for entry, model in zip(profile.models, models, strict=True)
    ]
