"""From what somebody typed to a download: which repository, which of its variants, and why that one.

Without a quantisation it is the advisor's choice for this machine among what the repository offers, and the answer says
so. Everything blocking runs in a thread.
"""

import asyncio
import contextlib
from collections.abc import Collection
from pathlib import PurePosixPath
from typing import NamedTuple, TypeVar

from app.config.environment import hub_endpoint
from app.core import words
from app.core.downloads import Download, Pull
from app.core.errors import NotFound, Offline, RoundhouseError, Unauthorized, Unavailable, quote_value
from app.core.model_facts import ModelFacts
from app.gateway.hub.downloads import DownloadQueue
from app.gateway.hub.hub_plans import pick_best, plans_for
from app.gateway.hub.named_models import check_format, find_named
from app.gateway.hub.support_gaps import check_support
from app.gateway.services import Services
from app.hub.repositories.answers import HubAnswer, HubMemory
from app.hub.repositories.generation import fetch_recommendation
from app.hub.repositories.model_reference import ModelReference, parse_reference
from app.hub.repositories.offers import USUAL, RepositoryOffer, facts_of, read_offer, variant_label
from app.hub.repositories.repository import RepoFile, Repository, check_gate
from app.hub.repositories.variants import ModelVariant, companions_of, find_variant

T = TypeVar("T")

_RECOMMENDED_WITHIN_S = 5.0
_OWN_FILES = frozenset({"gguf", "openvino", "onnx-genai"})
"""Formats that are told by their files."""


class PullChoice(NamedTuple):
    """What will be fetched. `reason` is a sentence, empty where the caller named it."""

    repository: Repository
    variant: ModelVariant
    reason: str = ""
    file: str = ""
    """The one file that was asked for, where that goes with a model and is none."""
    facts: ModelFacts | None = None
    """What is known of the variant; None where nothing could be read."""

    @property
    def title(self) -> str:
        """What it is called from now on."""
        if self.file:
            return f"{self.repository.name}/{self.file}"
        tag = f":{self.variant.quantization}" if self.variant.quantization else ""
        return self.repository.name + tag


class OfferSource(NamedTuple):
    """What a name led to."""

    reference: ModelReference
    answer: HubAnswer[RepositoryOffer]
    note: str = ""
    """Why the answer is older than it might be."""
    reason: str = ""
    """Why this format."""


async def pull(services: Services, downloads: DownloadQueue, request: Pull) -> Download:
    """Queue what was asked for, or go on with it. Raises what naming, the hub and the choice raise."""
    choice = await choose(services, request.model, quantization=request.quantization, model_format=request.format)
    if choice.facts is not None and not request.anyway:
        await check_support(services.catalogue, services.machine, services.support, choice.facts)
    path = choice.variant.files[0].path
    token = await asyncio.to_thread(services.hub.token.read_token)
    await asyncio.to_thread(check_gate, hub_endpoint(), choice.repository, path, token=token)
    files = _files(choice, request)
    await _note_recommended(services.hub, choice, token)
    return downloads.add(
        choice.repository,
        files,
        title=choice.title,
        model=request.model,
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
    companion_names = dict.fromkeys(request.companions)
    return [
        *(file for file in choice.variant.files_to_fetch if file is not left_out),
        *(companions_offered[path] for path in companion_names),
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


async def choose(services: Services, typed_name: str, *, quantization: str = "", model_format: str = "") -> PullChoice:
    """Return what a name means for this machine."""
    model_format = check_format(model_format)
    reference = parse_reference(typed_name, endpoint=hub_endpoint())
    if not (quantization or reference.file or reference.quantization):
        services.speed_measurements.look_ahead()  # what the advisor asks for in the end takes as long as the hub
    named_offer = await _find_offer(services, reference, model_format)
    reference, offer = named_offer.reference, named_offer.answer.value
    tag = quantization or reference.file or reference.quantization
    facts: dict[str, ModelFacts] = {}
    with contextlib.suppress(RoundhouseError):  # what cannot be read is not judged
        facts = await asyncio.to_thread(read_variant_facts, services.hub, named_offer)
    if tag:
        choice = _choose_by_tag(offer, reference, tag)
    else:
        choice = await _choose_variant(services, offer, facts, model_format)
    known_facts = None if choice.file else facts.get(variant_label(choice.variant))
    return choice._replace(reason=f"{named_offer.reason} {choice.reason}".strip(), facts=known_facts)


async def _choose_variant(
    services: Services, offer: RepositoryOffer, facts: dict[str, ModelFacts], model_format: str
) -> PullChoice:
    offered_variants = [variant for variant in offer.list_variants() if _is_in_format(variant, model_format)]
    if not offered_variants:
        raise NotFound(f"{offer.repository.name} has nothing in {model_format}.", code="format_not_found")
    if len(offered_variants) == 1:
        return PullChoice(offer.home_of(offered_variants[0]), offered_variants[0])
    return await _choose_by_advice(services, offer, offered_variants, facts)


def _is_in_format(variant: ModelVariant, model_format: str) -> bool:
    """Whether a variant is, or may be, of a format: safetensors files hold several, which only they tell apart."""
    return model_format in {"", variant.format} or (variant.format == "safetensors" and model_format not in _OWN_FILES)


def _choose_by_tag(offer: RepositoryOffer, reference: ModelReference, tag: str) -> PullChoice:
    companion = next((file for _, file in companions_of(offer.repository) if file.path == reference.file), None)
    if companion is not None:
        alone = ModelVariant(format="gguf", quantization="", first=companion.path, files=[companion])
        return PullChoice(offer.repository, alone, file=companion.path)
    variant = find_variant(offer.list_variants(), tag)
    return PullChoice(offer.home_of(variant), variant)


async def offer_of(services: Services, typed_name: str) -> OfferSource:
    """Return what a name offers and, where it is older than it might be, why. Raises what naming and the hub raise."""
    return await _find_offer(services, parse_reference(typed_name, endpoint=hub_endpoint()), may_be_old=True)


async def _find_offer(
    services: Services, reference: ModelReference, model_format: str = "", *, may_be_old: bool = False
) -> OfferSource:
    """Return what the first repository that a name means and the hub has offers."""
    references, reason = [reference], ""
    if reference.catalogue:
        named_repository = await find_named(services, reference, model_format)
        references, reason = named_repository.references, named_repository.reason
    ask = _offer_with_note if may_be_old else _fresh_offer
    for place, candidate in enumerate(references):
        try:
            answer, note = await asyncio.to_thread(ask, services.hub, candidate)
        except NotFound:
            if place == len(references) - 1:
                raise
            continue
        return OfferSource(candidate, answer, note, reason)
    raise AssertionError  # a name has one repository at least


def _fresh_offer(hub: HubMemory, reference: ModelReference) -> tuple[HubAnswer[RepositoryOffer], str]:
    return _fetch_offer(hub, reference), ""


def _offer_with_note(hub: HubMemory, reference: ModelReference) -> tuple[HubAnswer[RepositoryOffer], str]:
    cached_answer = hub.offers.find_answer(_question(reference))
    if cached_answer is not None and cached_answer.is_fresh:
        return cached_answer, ""
    try:
        return _fetch_offer(hub, reference), ""
    except (Unavailable, Offline) as error:
        return older_answer(cached_answer, error)


def older_answer(cached_answer: HubAnswer[T] | None, error: RoundhouseError) -> tuple[HubAnswer[T], str]:
    """Return what was told before, and why it is not what is so now. Raises the error where nothing was."""
    if cached_answer is None:
        raise error
    return cached_answer, f"{error} This is the hub's answer from {words.format_duration(cached_answer.age_s)} ago."


def _question(reference: ModelReference) -> str:
    return f"{hub_endpoint()} {reference.repository} {reference.revision}"


def _fetch_offer(hub: HubMemory, reference: ModelReference) -> HubAnswer[RepositoryOffer]:
    try:
        offer = read_offer(
            hub_endpoint(),
            reference.repository,
            revision=reference.revision,
            token=hub.token.read_token(),
            preferred_names=hub.catalogue.list_branches(reference.repository),
        )
    except Unauthorized as error:  # of the hub, which does not answer who asks us
        raise NotFound(str(error), hint=error.hint, code=error.code) from None
    return hub.offers.keep_answer(_question(reference), offer)


def read_variant_facts(hub: HubMemory, source: OfferSource) -> dict[str, ModelFacts]:
    """Return facts of the variants; what had to be read for them is kept. Blocks. Raises what reading raises."""
    offer = source.answer.value
    read, facts = facts_of(offer, hub_endpoint(), hub.token.read_token())
    if read is not offer:
        hub.offers.keep_answer(_question(source.reference), read, at=source.answer.at)
    return facts


async def _choose_by_advice(
    services: Services, offer: RepositoryOffer, offered_variants: list[ModelVariant], facts: dict[str, ModelFacts]
) -> PullChoice:
    """Let the advisor choose; where it cannot tell, take the usual balance of size and quality."""
    try:
        best = pick_best(await plans_for(services, facts), offered_variants, facts) if facts else None
    except RoundhouseError:
        best = None
    if best is not None:
        return PullChoice(offer.home_of(best.variant), best.variant, best.reason)
    usual = (
        next((variant for variant in offered_variants if variant.quantization == USUAL), None)
        or offered_variants[len(offered_variants) // 2]
    )
    return PullChoice(offer.home_of(usual), usual, "It is the usual balance of size and quality.")
