"""From what somebody typed to a download: which repository, which of its variants, and why that one.

Without a quantisation it is the advisor's choice for this machine among what the repository offers, and the answer says
so. Everything blocking runs in a thread.
"""

import asyncio
import contextlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple, TypeVar

import msgspec

from app.config.environment import hub_endpoint
from app.config.store import Settings
from app.core import words
from app.core.advice import Intent, Plan
from app.core.downloads import Download, Pull
from app.core.errors import BadRequest, NotFound, Offline, RoundhouseError, Unauthorized, Unavailable
from app.core.model_facts import ModelFacts
from app.gateway.hub.downloads import Downloads
from app.gateway.services import Services
from app.hub.repositories.answers import Answer
from app.hub.repositories.asked import Asked, parse
from app.hub.repositories.gates import check_gate
from app.hub.repositories.generation import fetched
from app.hub.repositories.memory import HubMemory
from app.hub.repositories.offers import USUAL, Offer, facts_of, label, read_offer
from app.hub.repositories.repository import RepoFile, Repository
from app.hub.repositories.variants import Variant, companions_of, named

T = TypeVar("T")

_RECOMMENDED_WITHIN_S = 5.0


class Choice(NamedTuple):
    """What will be fetched. `reason` is a sentence, empty where the caller named it."""

    repository: Repository
    variant: Variant
    reason: str = ""
    file: str = ""
    """The one file that was asked for, where that goes with a model and is none."""

    @property
    def title(self) -> str:
        """What it is called from now on."""
        if self.file:
            return f"{self.repository.name}/{self.file}"
        tag = f":{self.variant.quantization}" if self.variant.quantization else ""
        return self.repository.name + tag


class Best(NamedTuple):
    """The variant to take, and why."""

    variant: Variant
    reason: str


async def pull(services: Services, downloads: Downloads, wanted: Pull) -> Download:
    """Queue what was asked for, or go on with it. Raises what naming, the hub and the choice raise."""
    choice = await choose(services, wanted.model, quantization=wanted.quantization)
    path = choice.variant.files[0].path
    token = await asyncio.to_thread(services.hub.token.read)
    await asyncio.to_thread(check_gate, hub_endpoint(), choice.repository, path, token=token)
    files = _files(choice, wanted)
    await _note_recommended(services.hub, choice, token)
    return downloads.add(
        choice.repository,
        files,
        title=choice.title,
        quantization=choice.variant.quantization,
        reason=_reason(choice, wanted),
        could_have=[] if choice.file else _left(choice.repository, files),
    )


def _files(choice: Choice, wanted: Pull) -> list[RepoFile]:
    """Return what to fetch. Raises NotFound for a companion the repository has not."""
    left_out = None if wanted.projector else choice.variant.projector
    offered = {file.path: file for _, file in companions_of(choice.repository)}
    for path in wanted.companions:
        if path not in offered:
            raise NotFound(
                f"{choice.repository.name} has no {path!r} to go with it.",
                hint=f"There are {', '.join(offered)}."
                if offered
                else "It has neither draft models nor LoRA adapters.",
                code="companion_not_found",
            )
    named = dict.fromkeys(wanted.companions)
    return [*(file for file in choice.variant.wanted if file is not left_out), *(offered[path] for path in named)]


def _left(repository: Repository, files: Collection[RepoFile]) -> list[str]:
    return [file.path for _, file in companions_of(repository) if file not in files]


def _reason(choice: Choice, wanted: Pull) -> str:
    projector = choice.variant.projector if wanted.projector else None
    if projector is None:
        return choice.reason
    name = PurePosixPath(projector.path).name
    return f"{choice.reason} With it comes {name}, {words.size(projector.size)}, which lets it see.".strip()


async def _note_recommended(hub: HubMemory, choice: Choice, token: str) -> None:
    """Ask what the model's makers recommend for sampling, where that does not come with its files.

    A hub that is slow about it does not hold up the download; its answer is kept whenever it comes.
    """
    repository = choice.repository
    if choice.variant.format != "gguf" or choice.variant.recommends is not None or not repository.base_models:
        return

    def note() -> None:
        with contextlib.suppress(RoundhouseError):  # it is worth having, and nothing more
            found = fetched(hub_endpoint(), repository.base_models[0], token=token)
            hub.generation.keep(repository.name, found)

    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.to_thread(note), _RECOMMENDED_WITHIN_S)


async def choose(services: Services, typed: str, *, quantization: str = "") -> Choice:
    """Return what a name means for this machine."""
    asked = await _asked(services.settings, services.hub, typed)
    wanted = quantization or asked.file or asked.quantization
    if wanted:
        return _named((await asyncio.to_thread(_read, services.hub, asked)).value, asked, wanted)
    services.measuring.look_ahead()  # what the advisor asks for in the end takes as long as the hub
    offer = (await asyncio.to_thread(_read, services.hub, asked)).value
    offered = offer.variants()
    if len(offered) == 1:
        return Choice(offer.home(offered[0]), offered[0])
    return await _advised(services, offer)


def _named(offer: Offer, asked: Asked, wanted: str) -> Choice:
    beside = next((file for _, file in companions_of(offer.repository) if file.path == asked.file), None)
    if beside is not None:
        alone = Variant(format="gguf", quantization="", first=beside.path, files=[beside])
        return Choice(offer.repository, alone, file=beside.path)
    variant = named(offer.variants(), wanted)
    return Choice(offer.home(variant), variant)


async def offer_of(settings: Settings, hub: HubMemory, typed: str) -> tuple[Answer[Offer], str]:
    """Return what a name offers and, where it is older than it might be, why. Raises what naming and the hub raise."""
    asked = await _asked(settings, hub, typed)
    return await asyncio.to_thread(_told, hub, asked)


def _told(hub: HubMemory, asked: Asked) -> tuple[Answer[Offer], str]:
    kept = hub.offers.find(_question(asked))
    if kept is not None and kept.is_fresh:
        return kept, ""
    try:
        return _read(hub, asked), ""
    except (Unavailable, Offline) as error:
        return older(kept, error)


def older(kept: Answer[T] | None, error: RoundhouseError) -> tuple[Answer[T], str]:
    """Return what was told before, and why it is not what is so now. Raises the error where nothing was."""
    if kept is None:
        raise error
    return kept, f"{error} This is the hub's answer from {words.seconds(kept.age_s)} ago."


async def _asked(settings: Settings, hub: HubMemory, typed: str) -> Asked:
    asked = parse(typed, endpoint=hub_endpoint())
    if asked.repository:
        return asked
    key = settings.text("catalogue.key")
    entry = await asyncio.to_thread(hub.catalogue.find, asked.catalogue, asked.quantization, key=key)
    if entry is None:
        raise BadRequest(
            f"{asked.text!r} is a short name that is not in the catalogue.",
            hint="Write it as owner/name, as on its page at huggingface.co, or search for it: `roundhouse search`.",
            code="model_not_found",
        )
    return Asked(repository=entry.repository, revision=asked.revision, quantization=entry.quantization)


def _question(asked: Asked) -> str:
    return f"{hub_endpoint()} {asked.repository} {asked.revision}"


def _read(hub: HubMemory, asked: Asked) -> Answer[Offer]:
    try:
        found = read_offer(hub_endpoint(), asked.repository, revision=asked.revision, token=hub.token.read())
    except Unauthorized as error:  # of the hub, which does not answer who asks us
        raise NotFound(str(error), hint=error.hint, code=error.code) from None
    return hub.offers.keep(_question(asked), found)


def with_facts(hub: HubMemory, typed: str, told: Answer[Offer]) -> dict[str, ModelFacts]:
    """Return facts of the variants; what had to be read for them is kept. Blocks. Raises what reading raises."""
    offer = told.value
    read, facts = facts_of(offer, hub_endpoint(), hub.token.read())
    if read is not offer:
        asked = msgspec.structs.replace(parse(typed, endpoint=hub_endpoint()), repository=offer.repository.name)
        hub.offers.keep(_question(asked), read, at=told.at)
    return facts


async def _advised(services: Services, offer: Offer) -> Choice:
    """Let the advisor choose; where it cannot tell, take the usual balance of size and quality."""
    offered = offer.variants()
    try:
        token = await asyncio.to_thread(services.hub.token.read)
        _, facts = await asyncio.to_thread(facts_of, offer, hub_endpoint(), token)
        best = recommended(await plans_for(services, facts), offered, facts)
    except RoundhouseError:
        best = None
    if best is not None:
        return Choice(offer.home(best.variant), best.variant, best.reason)
    usual = next((one for one in offered if one.quantization == USUAL), None) or offered[len(offered) // 2]
    return Choice(offer.home(usual), usual, "It is the usual balance of size and quality.")


def recommended(plans: Iterable[Plan], offered: Iterable[Variant], facts: Mapping[str, ModelFacts]) -> Best | None:
    """Return the first plan's variant that is offered and fits."""
    known = {(found.format, found.quantization): one for one in offered if (found := facts.get(label(one))) is not None}
    for plan in plans:
        chosen = known.get((plan.format, plan.quantization))
        if chosen is not None and (plan.estimate is None or plan.estimate.fits):
            return Best(chosen, plan.sentence or next((reason.text for reason in plan.reasons), ""))
    return None


async def plans_for(services: Services, facts: Mapping[str, ModelFacts]) -> list[Plan]:
    """Return how these variants would be run here, the best that is installed first."""
    from app.advisor.plans.ranking import PlanInputs, advise  # noqa: PLC0415 -- the gateway starts without the advisor
    from app.gateway.advising.engine_table import engine_table  # noqa: PLC0415 -- as above

    engines = [engine for engine in await asyncio.to_thread(services.catalogue.list) if engine.installed]
    inputs = PlanInputs(
        traits=engine_table(),
        machine=await services.machine.read_free(),
        candidates=list(facts.values()),
        model=next(iter(facts.values())).name,
        intent=Intent.CHAT,
        engines=engines,
        calibrations=await services.measuring.calibrations(),
    )
    found = await asyncio.to_thread(advise, inputs)
    usable = [plan for plan in found.plans if not plan.refused]
    return sorted(usable, key=lambda plan: not plan.is_installed)
