"""What there is of every engine, put together: the advisor's judgement of this machine, what is here, what could be."""

from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from app.advisor.choosing.intents import workload
from app.advisor.choosing.rules import Ranked, ranking
from app.core.advice import Intent
from app.core.engine_store import BUNDLED, OWN, EngineOffer, EngineStock, EngineVersion
from app.core.errors import NotFound
from app.core.machine import Machine
from app.engine_store.catalogue import Catalogue
from app.engine_store.host import Host, gain, is_for, this_host, unfit
from app.engine_store.placed import missing
from app.engine_store.recipe import Recipe
from app.engine_store.shelf import Manifest, State, place_of
from app.gateway.advising.engine_table import engine_table
from engines.api import Failure, FailureKind, Family, Installation


def drivers_of(machine: Machine) -> Mapping[str, str]:
    """Return each GPU vendor's driver; empty text for one whose version nobody told."""
    return {gpu.vendor: gpu.driver.value or "" for gpu in machine.gpus}


def host_of(machine: Machine, *, has_uv: bool) -> Host:
    """Return what decides which variants start here."""
    return this_host(drivers_of(machine), isa=machine.cpu.isa.value or (), has_uv=has_uv)


def stock(catalogue: Catalogue, machine: Machine, host: Host, preferred: Sequence[str]) -> list[EngineStock]:
    """Return every engine, those that suit this machine first. Looks at the disk."""
    ranked = ranking(engine_table(), machine, workload(Intent.CHAT))
    order = {one.traits.id: number for number, one in enumerate((one for one in ranked if not one.refused), start=1)}
    judged = {one.traits.id: one for one in ranked}
    found = [
        _one(
            catalogue, engine, host, rank=order.get(engine), judged=judged.get(engine), is_preferred=engine in preferred
        )
        for engine, adapter in catalogue.adapters.items()
        if adapter.descriptor.family is not Family.EXTERNAL
    ]
    return sorted(found, key=lambda one: (one.rank is None, one.rank or 0, not one.versions, one.name.casefold()))


def _one(  # noqa: PLR0913 -- every one of them is a different thing to know about an engine
    catalogue: Catalogue, engine: str, host: Host, *, rank: int | None, judged: Ranked | None, is_preferred: bool
) -> EngineStock:
    adapter, recipe = catalogue.adapters[engine], catalogue.recipes.get(engine)
    about, manifests = adapter.descriptor, catalogue.shelf.manifests(engine)
    versions = versions_of(catalogue, engine)
    way = "" if versions or (rank is None and not about.legacy) else about.obtained
    offers = offers_of(recipe, host, manifests, catalogue.shelf.state(engine)) if recipe else []
    tried = {one.variant for one in versions} | {offer.variant for offer in offers if offer.problem}
    gains = _gains(recipe, host, tried) if recipe and rank is not None else ""
    return EngineStock(
        id=engine,
        name=about.name,
        licence=about.licence,
        homepage=about.homepage,
        formats=sorted(kind.value for kind in about.formats),
        rank=rank,
        advice=" ".join(filter(None, (about.legacy or _advice(about.name, rank, judged, versions), way, gains))),
        is_preferred=is_preferred,
        versions=versions,
        offers=offers,
        size_bytes=sum(version.size_bytes for version in versions),
        verified=about.verified,
        unverified=about.unverified,
        legacy=about.legacy,
    )


def _advice(name: str, rank: int | None, judged: Ranked | None, versions: Sequence[EngineVersion]) -> str:
    if judged is None:
        return "Another engine does the same with less effort."
    if judged.refused:
        works = any(one.works for one in versions)
        return (
            f"It passed its test on this machine, but is not recommended: {judged.refused}" if works else judged.refused
        )
    best = "The best choice for this machine" if rank == 1 else "It can run on this machine"
    return " ".join((f"{best}: {name} {judged.traits.strength}.", *judged.warnings))


def _gains(recipe: Recipe, host: Host, tried: Container[str]) -> str:
    """Return what builds that were not tried here would make of this very processor."""
    return " ".join(filter(None, (gain(one, host) for one in recipe.variants if one.name not in tried)))


def versions_of(catalogue: Catalogue, engine: str) -> list[EngineVersion]:
    """Return the versions of an engine that are here, the one in use first."""
    state, adapter = catalogue.shelf.state(engine), catalogue.adapters[engine]
    found = [_installed(catalogue, state, manifest) for manifest in reversed(catalogue.shelf.manifests(engine))]
    bundled = adapter.probe()
    if isinstance(bundled, Installation):
        found.append(_bundled(state, bundled))
    if state.own:
        found.append(_own(catalogue, engine, state))
    program = catalogue.own.on_path(engine)
    if program is not None and program.resolve() != Path(state.own).resolve():
        found.append(_on_path(catalogue, engine, program))
    return sorted(found, key=lambda one: (not one.is_current, not one.is_previous))


def _installed(catalogue: Catalogue, state: State, manifest: Manifest) -> EngineVersion:
    folder = catalogue.shelf.folder(manifest.engine, manifest.name)
    gone = missing(catalogue.adapters[manifest.engine].descriptor, place_of(folder, manifest))
    return EngineVersion(
        name=manifest.name,
        version=manifest.version,
        variant=manifest.variant,
        backend=manifest.backend,
        is_current=state.current == manifest.name,
        is_previous=state.previous == manifest.name,
        size_bytes=manifest.size_bytes,
        installed_at=manifest.installed_at,
        path=str(folder),
        proof=state.proofs.get(manifest.name),
        problem=state.bad.get(manifest.name, "") or (gone.sentence if gone else ""),
    )


def _bundled(state: State, found: Installation) -> EngineVersion:
    return EngineVersion(
        name=BUNDLED,
        version=found.version,
        backend=found.backend,
        is_current=state.current == BUNDLED,
        is_previous=state.previous == BUNDLED,
        proof=state.proofs.get(BUNDLED),
        problem=state.bad.get(BUNDLED, ""),
    )


def _own(catalogue: Catalogue, engine: str, state: State) -> EngineVersion:
    try:
        catalogue.shelf.place(engine, OWN)
        found = catalogue.own.asked(engine, Path(state.own))
    except NotFound as error:
        found = Failure(kind=FailureKind.NOT_INSTALLED, sentence=str(error))
    here = found if isinstance(found, Installation) else None
    return EngineVersion(
        name=OWN,
        version=here.version if here else "",
        backend=here.backend if here else "",
        is_current=state.current == OWN,
        is_previous=state.previous == OWN,
        path=state.own,
        proof=state.proofs.get(OWN),
        problem=state.bad.get(OWN, "") or (found.sentence if isinstance(found, Failure) else ""),
    )


def _on_path(catalogue: Catalogue, engine: str, program: Path) -> EngineVersion:
    found = catalogue.own.asked(engine, program)
    return EngineVersion(
        name=catalogue.adapters[engine].descriptor.program,
        version=found.version if isinstance(found, Installation) else "",
        path=str(program),
        problem=found.sentence if isinstance(found, Failure) else "",
        is_on_path=True,
    )


def offers_of(recipe: Recipe, host: Host, manifests: Sequence[Manifest], state: State) -> list[EngineOffer]:
    """Return what could be installed on this kind of system, what this very machine can run first."""
    here = {(manifest.variant, manifest.version) for manifest in manifests}
    mine = [variant for variant in recipe.variants if is_for(variant, host)] or recipe.variants
    found = [
        EngineOffer(
            variant=variant.name,
            version=variant.version,
            backend=variant.backend,
            download_bytes=variant.download_bytes,
            disk_bytes=variant.disk_bytes,
            is_installed=(variant.name, variant.version) in here,
            unfit=unfit(variant, host),
            problem=state.bad.get(f"{variant.version}-{variant.name}", ""),
        )
        for variant in mine
    ]
    return sorted(found, key=lambda offer: bool(offer.unfit))
