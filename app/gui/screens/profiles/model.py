"""What the page of profiles knows and does: they are kept, changed, planned, used and removed through the gateway."""

import time
from collections.abc import Sequence

import msgspec

from app.client.http import quote_segment
from app.core import words
from app.core.errors import BadRequest, ErrorBody
from app.core.models import ModelInfo
from app.core.profiles import (
    NextSwitch,
    Profile,
    ProfileAction,
    ProfileList,
    ProfileModel,
    ProfilePlan,
    ProfileStep,
    SaveProfile,
    UseProfile,
    format_hours,
    parse_hours,
)
from app.core.translation import tr, tr_list
from app.gui.net.managed_list import ManagedStore
from app.gui.net.remote_lists import Stores
from app.gui.shell.contract import Shell


class ProfilesModel(ManagedStore[ProfileList]):
    """The profiles, and what the last one that was looked at would do."""

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(stores.profiles, shell)
        self._profiles, self._library = stores.profiles, stores.library
        self.plans: dict[str, ProfilePlan] = {}
        """What switching would do, by the profiles that somebody looked at."""
        self._library.changed.connect(self.changed)

    @property
    def state(self) -> ProfileList:
        """How it stands."""
        return self._profiles.state

    def list_models(self) -> list[ModelInfo]:
        """Return the models that a profile can hold, by title: each once, however many names share its engine."""
        models = [model for model in self._library.items if model.runs_as == model.name and not model.problem]
        return sorted(models, key=lambda model: model.title.casefold())

    def save_present(self, name: str) -> None:
        """Keep what is loaded now as a profile; one of this name keeps its hours."""

        def save(draft: Profile) -> None:
            before = next((profile for profile in self.state.profiles if profile.name == name), None)
            hours = before.hours if before is not None else []
            self._save(SaveProfile(profile=msgspec.structs.replace(draft, name=name, hours=hours)))

        self.api.get("/profile/draft", Profile, save, self.show_refusal)

    def change_profile(self, name: str, profile: Profile) -> None:
        """Keep a profile as it was changed."""
        self._save(SaveProfile(profile=profile, replaced=name))

    def use_profile(self, name: str) -> None:
        """Make a profile the active one, or with an empty name none."""
        self.plans.pop(name, None)
        self._profiles.use_profile(name)

    def preview_switch(self, name: str) -> None:
        """Ask what switching to a profile would do; asked again, it is hidden."""
        if self.plans.pop(name, None) is not None:
            self.changed.emit()
            return

        def keep(plan: ProfilePlan) -> None:
            self.plans[name] = plan
            self.changed.emit()

        self.api.post("/profile/plan", UseProfile(name=name), kind=ProfilePlan, then=keep, on_error=self.show_refusal)

    def remove_profile(self, name: str) -> None:
        """Remove a profile, once that is confirmed."""
        sentence = tr("Its models stay as they are, on the disk and in memory.")
        self.confirm_removal(name, f"/profiles/{quote_segment(name)}", sentence)

    def _save(self, request: SaveProfile) -> None:
        self.api.post("/profiles", request, kind=Profile, then=self._finish_saving, on_error=self.show_refusal)

    def _finish_saving(self, profile: Profile) -> None:
        self.plans.pop(profile.name, None)
        self.finish_adding()


class ProfileFields(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wrote into the fields of a profile."""

    name: str
    models: Sequence[ProfileModel]
    default: str
    aliases: str
    """`name=model`, separated by commas."""
    hours: str


def parse_profile(fields: ProfileFields) -> Profile | ErrorBody:
    """Return the profile that was written, or what is wrong with it."""
    try:
        hours = parse_hours(fields.hours)
    except BadRequest as error:
        return error.body
    aliases = [alias.strip() for alias in fields.aliases.split(",") if alias.strip()]
    return Profile(
        name=" ".join(fields.name.split()),
        models=list(fields.models),
        default=fields.default,
        aliases=aliases,
        hours=hours,
    )


def describe_profile(profile: Profile) -> str:
    """Return what is in a profile, in a line."""
    if not profile.models:
        return tr("Leaves what is loaded as it is")
    return tr_list([_describe_model(entry) for entry in profile.models])


def _describe_model(entry: ProfileModel) -> str:
    facts = [tr("{tokens} context", tokens=words.format_tokens(entry.context))] if entry.context else []
    facts += [tr("pinned")] if entry.is_pinned else []
    facts += [] if entry.is_loaded else [tr("loaded on request")]
    return f"{entry.model} ({', '.join(facts)})" if facts else entry.model


def describe_terms(profile: Profile) -> str:
    """Return a profile's names and hours, in a line; empty where it has none."""
    parts = [tr("{name} answers for auto", name=profile.default)] if profile.default else []
    parts += [tr("aliases: {aliases}", aliases=", ".join(profile.aliases))] if profile.aliases else []
    parts += [tr("active {hours}", hours=format_hours(profile.hours))] if profile.hours else []
    return " · ".join(parts)


def describe_switch(switch: NextSwitch) -> str:
    """Say when the next switch is."""
    at = time.strftime("%a %H:%M", time.localtime(switch.at))
    if switch.profile:
        return tr("{time}: {name} becomes active by its hours.", time=at, name=switch.profile)
    return tr("{time}: the hours end, and what was active before is again.", time=at)


def describe_plan(plan: ProfilePlan) -> list[str]:
    """Say what a switch does: a line for each model, and one for each memory."""
    lines = [describe_step(step) for step in plan.steps] or [tr("Nothing is loaded or unloaded.")]
    return [
        *lines,
        *(
            tr(
                "{memory}: {before} now, {after} afterwards, of {limit}",
                memory=pool.name,
                before=words.format_bytes(pool.before_bytes),
                after=words.format_bytes(pool.after_bytes),
                limit=words.format_bytes(pool.limit),
            )
            for pool in plan.pools
        ),
    ]


def describe_step(step: ProfileStep) -> str:
    """Say what happens to one model."""
    sentences = {
        ProfileAction.LOAD: tr("{model} is loaded.", model=step.model),
        ProfileAction.RELOAD: tr("{model} is loaded again with another context.", model=step.model),
        ProfileAction.KEEP: tr("{model} stays as it is.", model=step.model),
        ProfileAction.UNLOAD: tr("{model} is unloaded.", model=step.model),
        ProfileAction.STAY: tr("{model} stays: you pinned it.", model=step.model),
        ProfileAction.LEAVE_OUT: tr("{model} is left out.", model=step.model),
    }
    facts = [words.format_bytes(step.memory_bytes)] if step.memory_bytes else []
    facts += [tr("after its answers")] if step.is_busy and step.action in _WAITING else []
    facts += [step.reason] if step.reason else []
    return " ".join([sentences[step.action], " · ".join(facts)]).rstrip()


_WAITING = frozenset({ProfileAction.UNLOAD, ProfileAction.RELOAD})
