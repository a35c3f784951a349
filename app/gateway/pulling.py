"""From what somebody typed to a download: which repository, which of its variants, and why that one.

Without a quantisation it is the advisor's choice for this machine among what the repository offers, and the answer says
so. Everything blocking runs in a thread.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from app.config.environment import hub_endpoint, hub_token
from app.core.advice import Intent, Plan
from app.core.downloads import Download, Pull
from app.core.errors import BadRequest, Conflict, NotFound, RoundhouseError, Unauthorized
from app.core.model_facts import ModelFacts
from app.gateway.downloads import Downloads
from app.gateway.services import Services
from app.hub.asked import Asked, parse
from app.hub.repository import Repository, read_repository
from app.hub.variants import Variant, named, variants_of

USUAL = "Q4_K_M"
"""Where the advisor has nothing to go by."""


class Choice(NamedTuple):
    """What will be fetched. `reason` is a sentence, empty where the caller named it."""

    repository: Repository
    variant: Variant
    reason: str = ""

    @property
    def title(self) -> str:
        """What it is called from now on."""
        tag = f":{self.variant.quantization}" if self.variant.quantization else ""
        return self.repository.name + tag


class Best(NamedTuple):
    """The variant to take, and why."""

    variant: Variant
    reason: str


async def pull(services: Services, downloads: Downloads, wanted: Pull) -> Download:
    """Queue what was asked for, or go on with it. Raises what naming, the hub and the choice raise."""
    choice = await choose(services, wanted.model, quantization=wanted.quantization)
    return downloads.add(
        choice.repository,
        choice.variant.wanted,
        title=choice.title,
        quantization=choice.variant.quantization,
        reason=choice.reason,
    )


async def choose(services: Services, typed: str, *, quantization: str = "") -> Choice:
    """Return what a name means for this machine."""
    asked = _asked(services, typed)
    repository = await asyncio.to_thread(_read, asked)
    offered = variants_of(repository)
    wanted = quantization or asked.file or asked.quantization
    if wanted:
        return Choice(repository, named(offered, wanted))
    if len(offered) == 1:
        return Choice(repository, offered[0])
    return await _advised(services, repository, offered)


async def repository_of(services: Services, typed: str) -> Repository:
    """Return the repository a name means. Raises what naming and the hub raise."""
    return await asyncio.to_thread(_read, _asked(services, typed))


def _asked(services: Services, typed: str) -> Asked:
    if services.settings.flag("network.offline"):
        raise Offline
    asked = parse(typed, endpoint=hub_endpoint())
    if not asked.repository:
        raise BadRequest(
            f"{asked.text!r} is a short name, and no catalogue has it.",
            hint="Write it as owner/name, as on its page at huggingface.co.",
            code="model_not_found",
        )
    return asked


def _read(asked: Asked) -> Repository:
    try:
        return read_repository(hub_endpoint(), asked.repository, revision=asked.revision, token=hub_token())
    except Unauthorized as error:  # the hub does not tell strangers which of the two it is
        said = f"{asked.repository} does not exist, or it is private."
        raise NotFound(said, hint=error.hint, code=error.code) from None
    except NotFound as error:
        said = f"{asked.repository} has no revision {asked.revision!r}." if asked.revision else str(error)
        raise NotFound(said, hint=error.hint, code=error.code) from None


class Offline(Conflict):
    """The person does not want anything to be fetched."""

    default_code = "offline"

    def __init__(self) -> None:
        super().__init__("Roundhouse is set to stay offline.", hint="Switch `network.offline` off to download models.")


async def _advised(services: Services, repository: Repository, offered: list[Variant]) -> Choice:
    """Let the advisor choose; where it cannot tell, take the usual balance of size and quality."""
    try:
        facts = await asyncio.to_thread(facts_of, repository, offered)
        best = recommended(await plans_for(services, facts), offered, facts)
    except RoundhouseError:
        best = None
    if best is not None:
        return Choice(repository, best.variant, best.reason)
    usual = next((one for one in offered if one.quantization == USUAL), None) or offered[len(offered) // 2]
    return Choice(repository, usual, "It is the usual balance of size and quality.")


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
    from app.advisor.plans import PlanInputs, advise  # noqa: PLC0415 -- the gateway starts without the advisor

    engines = [engine for engine in await asyncio.to_thread(services.catalogue.list) if engine.installed]
    inputs = PlanInputs(
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


def facts_of(repository: Repository, offered: list[Variant]) -> dict[str, ModelFacts]:
    """Return the facts of every variant: of one as its header says, of the others as far as they follow from it."""
    from app.hub.facts.remote import read_remote_facts  # noqa: PLC0415 -- the gateway starts without it
    from app.hub.shapes import requantized  # noqa: PLC0415 -- as above

    ggufs = [one for one in offered if one.format == "gguf"]
    read = next((one for one in ggufs if one.quantization == USUAL), ggufs[-1] if ggufs else offered[0])
    known = read_remote_facts(
        repository.name,
        filename=read.first if read.format == "gguf" else "",
        revision=repository.commit,
        endpoint=hub_endpoint(),
        token=hub_token(),
    )
    found = {label(read): msgspec.structs.replace(known, file_bytes=read.size_bytes)}
    for other in ggufs:
        if other is read or not other.quantization:
            continue
        try:
            changed = requantized(known, other.quantization.removeprefix("UD-"))
        except RoundhouseError:  # a mixture nobody wrote down: it can still be named
            continue
        found[label(other)] = msgspec.structs.replace(
            changed, quantization=other.quantization, file_bytes=other.size_bytes
        )
    return found


def label(variant: Variant) -> str:
    """Return what tells a variant from the others of its repository."""
    return f"{variant.format}:{variant.quantization}:{variant.first}"
