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
from app.config.store import SettingsStore
from app.core import words
from app.core.advice import Intent, Plan
from app.core.downloads import Download, Pull
from app.core.errors import BadRequest, NotFound, Offline, RoundhouseError, Unauthorized, Unavailable, quote_value
from app.core.model_facts import ModelFacts
from app.gateway.hub.downloads import DownloadQueue
from app.gateway.services import Services
from app.hub.repositories.answers import HubAnswer, HubMemory
from app.hub.repositories.generation import fetch_recommendation
from app.hub.repositories.model_reference import ModelReference, parse_reference
from app.hub.repositories.offers import USUAL, RepositoryOffer, facts_of, read_offer, variant_label
from app.hub.repositories.repository import RepoFile, Repository, check_gate
from app.hub.repositories.variants import ModelVariant, companions_of, find_variant

T = TypeVar("T")

_RECOMMENDED_WITHIN_S = 5.0


class PullChoice(NamedTuple):
    """What will be fetched. `reason` is a sentence, empty where the caller named it."""

    repository: Repository
    variant: ModelVariant
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


class BestVariant(NamedTuple):
    """The variant to take, and why."""

    variant: ModelVariant
    reason: str


async def pull(services: Services, downloads: DownloadQueue, request: Pull) -> Download:
    """Queue what was asked for, or go on with it. Raises what naming, the hub and the choice raise."""
    choice = await choose(services, request.model, quantization=request.quantization)
    path = choice.variant.files[0].path
    token = await asyncio.to_thread(services.hub.token.read_token)
    await asyncio.to_thread(check_gate, hub_endpoint(), choice.repository, path, token=token)
    files = _files(choice, request)
    await _note_recommended(services.hub, choice, token)
    return downloads.add(
        choice.repository,
        files,
        title=choice.title,
        quantization=choice.variant.quantization,
        reason=_reason(choice, request),
        could_have=[] if choice.file else _other_companions(choice.repository, files),
    )


def _files(choice: PullChoice, request: Pull) -> list[RepoFile]:
    """Return what to fetch. Raises NotFound for a companion the repository has not."""
    left_out = None if request.projector else choice.variant.projector
    companions_offered = {file.path: file for _, file in companions_of(choice.repository)}
    for path in request.companions:
        if path not in companions_offered:
            raise NotFound(
                f"{choice.repository.name} has no {quote_value(path)} to go with it.",
                hint=f"There are {', '.join(companions_offered)}."
                if companions_offered
                else "It has neither draft models nor LoRA adapters.",
                code="companion_not_found",
            )
    named = dict.fromkeys(request.companions)
    return [
        *(file for file in choice.variant.files_to_fetch if file is not left_out),
        *(companions_offered[path] for path in named),
    ]


def _other_companions(repository: Repository, files: Collection[RepoFile]) -> list[str]:
    return [file.path for _, file in companions_of(repository) if file not in files]


def _reason(choice: PullChoice, request: Pull) -> str:
    projector = choice.variant.projector if request.projector else None
    if projector is None:
        return choice.reason
    name = PurePosixPath(projector.path).name
    return f"{choice.reason} With it comes {name}, {words.format_bytes(projector.size)}, which lets it see.".strip()


async def _note_recommended(hub: HubMemory, choice: PullChoice, token: str) -> None:
    """Ask what the model's makers recommend for sampling, where that does not come with its files.

    A hub that is slow about it does not hold up the download; its answer is kept whenever it comes.
    """
    repository = choice.repository
    if choice.variant.format != "gguf" or choice.variant.recommends is not None or not repository.base_models:
        return

    def keep_recommendation() -> None:
        with contextlib.suppress(RoundhouseError):  # it is worth having, and nothing more
            recommendation = fetch_recommendation(hub_endpoint(), repository.base_models[0], token=token)
            hub.generation.keep_answer(repository.name, recommendation)

    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.to_thread(keep_recommendation), _RECOMMENDED_WITHIN_S)


async def choose(services: Services, typed: str, *, quantization: str = "") -> PullChoice:
    """Return what a name means for this machine."""
    reference = await _parse_reference(services.settings, services.hub, typed)
    tag = quantization or reference.file or reference.quantization
    if tag:
        return _choose_by_tag((await asyncio.to_thread(_fetch_offer, services.hub, reference)).value, reference, tag)
    services.measuring.look_ahead()  # what the advisor asks for in the end takes as long as the hub
    offer = (await asyncio.to_thread(_fetch_offer, services.hub, reference)).value
    offered = offer.list_variants()
    if len(offered) == 1:
        return PullChoice(offer.home_of(offered[0]), offered[0])
    return await _choose_by_advice(services, offer)


def _choose_by_tag(offer: RepositoryOffer, reference: ModelReference, tag: str) -> PullChoice:
    companion = next((file for _, file in companions_of(offer.repository) if file.path == reference.file), None)
    if companion is not None:
        alone = ModelVariant(format="gguf", quantization="", first=companion.path, files=[companion])
        return PullChoice(offer.repository, alone, file=companion.path)
    variant = find_variant(offer.list_variants(), tag)
    return PullChoice(offer.home_of(variant), variant)


async def offer_of(settings: SettingsStore, hub: HubMemory, typed: str) -> tuple[HubAnswer[RepositoryOffer], str]:
    """Return what a name offers and, where it is older than it might be, why. Raises what naming and the hub raise."""
    reference = await _parse_reference(settings, hub, typed)
    return await asyncio.to_thread(_offer_with_note, hub, reference)


def _offer_with_note(hub: HubMemory, reference: ModelReference) -> tuple[HubAnswer[RepositoryOffer], str]:
    cached = hub.offers.find_answer(_question(reference))
    if cached is not None and cached.is_fresh:
        return cached, ""
    try:
        return _fetch_offer(hub, reference), ""
    except (Unavailable, Offline) as error:
        return older_answer(cached, error)


def older_answer(cached: HubAnswer[T] | None, error: RoundhouseError) -> tuple[HubAnswer[T], str]:
    """Return what was told before, and why it is not what is so now. Raises the error where nothing was."""
    if cached is None:
        raise error
    return cached, f"{error} This is the hub's answer from {words.format_duration(cached.age_s)} ago."


async def _parse_reference(settings: SettingsStore, hub: HubMemory, typed: str) -> ModelReference:
    reference = parse_reference(typed, endpoint=hub_endpoint())
    if reference.repository:
        return reference
    key = settings.get_text("catalogue.key")
    entry = await asyncio.to_thread(hub.catalogue.find_entry, reference.catalogue, reference.quantization, key=key)
    if entry is None:
        raise BadRequest(
            f"{quote_value(reference.text)} is a short name that is not in the catalogue.",
            hint="Write it as owner/name, as on its page at huggingface.co, or search for it: `roundhouse search`.",
            code="model_not_found",
        )
    return ModelReference(repository=entry.repository, revision=reference.revision, quantization=entry.quantization)


def _question(reference: ModelReference) -> str:
    return f"{hub_endpoint()} {reference.repository} {reference.revision}"


def _fetch_offer(hub: HubMemory, reference: ModelReference) -> HubAnswer[RepositoryOffer]:
    try:
        offer = read_offer(
            hub_endpoint(), reference.repository, revision=reference.revision, token=hub.token.read_token()
        )
    except Unauthorized as error:  # of the hub, which does not answer who asks us
        raise NotFound(str(error), hint=error.hint, code=error.code) from None
    return hub.offers.keep_answer(_question(reference), offer)


def read_variant_facts(hub: HubMemory, typed: str, answer: HubAnswer[RepositoryOffer]) -> dict[str, ModelFacts]:
    """Return facts of the variants; what had to be read for them is kept. Blocks. Raises what reading raises."""
    offer = answer.value
    read, facts = facts_of(offer, hub_endpoint(), hub.token.read_token())
    if read is not offer:
        reference = msgspec.structs.replace(
            parse_reference(typed, endpoint=hub_endpoint()), repository=offer.repository.name
        )
        hub.offers.keep_answer(_question(reference), read, at=answer.at)
    return facts


async def _choose_by_advice(services: Services, offer: RepositoryOffer) -> PullChoice:
    """Let the advisor choose; where it cannot tell, take the usual balance of size and quality."""
    offered = offer.list_variants()
    try:
        token = await asyncio.to_thread(services.hub.token.read_token)
        _, facts = await asyncio.to_thread(facts_of, offer, hub_endpoint(), token)
        best = pick_best(await plans_for(services, facts), offered, facts)
    except RoundhouseError:
        best = None
    if best is not None:
        return PullChoice(offer.home_of(best.variant), best.variant, best.reason)
    usual = next((variant for variant in offered if variant.quantization == USUAL), None) or offered[len(offered) // 2]
    return PullChoice(offer.home_of(usual), usual, "It is the usual balance of size and quality.")


def pick_best(
    plans: Iterable[Plan], offered: Iterable[ModelVariant], facts: Mapping[str, ModelFacts]
) -> BestVariant | None:
    """Return the first plan's variant that is offered and fits."""
    known = {
        (variant_facts.format, variant_facts.quantization): variant
        for variant in offered
        if (variant_facts := facts.get(variant_label(variant))) is not None
    }
    for plan in plans:
        chosen = known.get((plan.format, plan.quantization))
        if chosen is not None and (plan.estimate is None or plan.estimate.fits):
            return BestVariant(chosen, plan.sentence or next((reason.text for reason in plan.reasons), ""))
    return None


async def plans_for(services: Services, facts: Mapping[str, ModelFacts]) -> list[Plan]:
    """Return how these variants would be run here, the best that is installed first."""
    from app.advisor.plans.ranking import PlanInputs, build_advice  # noqa: PLC0415 -- the gateway starts without the advisor
    from app.engine_store.host import host_of  # noqa: PLC0415 -- as above
    from app.gateway.advising.engine_table import engines_for  # noqa: PLC0415 -- as above

    engines = [engine for engine in await asyncio.to_thread(services.catalogue.list_engines) if engine.installed]
    machine = await services.machine.read_free()
    inputs = PlanInputs(
        traits=engines_for(machine, services.catalogue.recipes, engines, host_of(machine)),
        machine=machine,
        candidates=list(facts.values()),
        model=next(iter(facts.values())).name,
        intent=Intent.CHAT,
        engines=engines,
        calibrations=await services.measuring.calibrations(),
    )
    advice = await asyncio.to_thread(build_advice, inputs)
    usable = [plan for plan in advice.plans if not plan.refused]
    return sorted(usable, key=lambda plan: not plan.is_installed)
