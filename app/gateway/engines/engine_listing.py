"""What there is of every engine, put together: the advisor's judgement of this machine, what is here, what could be."""

from collections.abc import Container, Sequence
from pathlib import Path

import msgspec

from app.advisor.choosing.intents import build_workload
from app.advisor.choosing.rules import RankedEngine, rank_engines
from app.core.advice import Intent
from app.core.engine_store import BUNDLED, OWN, EngineListing, EngineOffer, EngineVersion
from app.core.errors import NotFound
from app.core.machine import Machine
from app.engine_store.catalogue import EngineCatalogue, find_missing_files
from app.engine_store.host import InstallHost, is_built_for, order_reason, order_variants, unfit_reason, variant_gain
from app.engine_store.recipe import InstallRecipe
from app.engine_store.version_store import VersionManifest, VersionState, place_of
from app.gateway.advising.engine_table import engines_for
from engines.api import EngineFamily, EngineInstallation, Failure, FailureKind


def list_engines(
    catalogue: EngineCatalogue, machine: Machine, host: InstallHost, preferred_engines: Sequence[str]
) -> list[EngineListing]:
    """Return every engine, those that suit this machine first. Looks at the disk."""
    table = engines_for(machine, catalogue.recipes, catalogue.list_engines(), host)
    ranked_engines = rank_engines(table, machine, build_workload(Intent.CHAT))
    order = {
        engine_entry.traits.id: number
        for number, engine_entry in enumerate(
            (engine_entry for engine_entry in ranked_engines if not engine_entry.refused), start=1
        )
    }
    ranked_by_id = {engine_entry.traits.id: engine_entry for engine_entry in ranked_engines}
    engines = [
        _describe_engine(
            catalogue,
            engine,
            host,
            rank=order.get(engine),
            ranked_engine=ranked_by_id.get(engine),
            is_preferred=engine in preferred_engines,
        )
        for engine, adapter in catalogue.adapters.items()
        if adapter.descriptor.family is not EngineFamily.EXTERNAL
    ]
    return sorted(
        engines,
        key=lambda engine_entry: (
            engine_entry.rank is None,
            engine_entry.rank or 0,
            not engine_entry.versions,
            engine_entry.name.casefold(),
        ),
    )


def _describe_engine(  # noqa: PLR0913 -- every one of them is a different thing to know about an engine
    catalogue: EngineCatalogue,
    engine: str,
    host: InstallHost,
    *,
    rank: int | None,
    ranked_engine: RankedEngine | None,
    is_preferred: bool,
) -> EngineListing:
    adapter, recipe = catalogue.adapters[engine], catalogue.recipes.get(engine)
    about, manifests = adapter.descriptor, catalogue.shelf.list_manifests(engine)
    versions = versions_of(catalogue, engine)
    role = _ROUTER if about.family is EngineFamily.ROUTER else about.legacy
    way = "" if versions or (rank is None and not about.legacy) else about.obtained
    offers = offers_of(recipe, host, manifests, catalogue.shelf.read_state(engine)) if recipe else []
    tried_variants = {entry.variant for entry in versions} | {offer.variant for offer in offers if offer.problem}
    gains = _gains(recipe, host, tried_variants) if recipe and rank is not None else ""
    order = order_reason(recipe, host) if recipe and rank is not None else ""
    return EngineListing(
        id=engine,
        name=about.name,
        licence=about.licence,
        homepage=about.homepage,
        formats=sorted(kind.value for kind in about.formats),
        rank=rank,
        is_redundant=ranked_engine is None and not role,
        advice=" ".join(filter(None, (role or _advice(about.name, rank, ranked_engine, versions), way, gains, order))),
        is_preferred=is_preferred,
        versions=versions,
        offers=offers,
        size_bytes=sum(version.size_bytes for version in versions),
        verified=about.verified,
        unverified=about.unverified,
        span="" if about.span is None else about.span.tried,
        legacy=about.legacy,
    )


_ROUTER = "It shares requests out over endpoints that serve one model alike: `roundhouse fleet`."


def _advice(name: str, rank: int | None, ranked_engine: RankedEngine | None, versions: Sequence[EngineVersion]) -> str:
    if ranked_engine is None:
        return "Another engine does the same with less effort."
    if ranked_engine.refused:
        works = any(version.is_working for version in versions)
        return (
            f"It passed its test on this machine, but is not recommended: {ranked_engine.refused}"
            if works
            else ranked_engine.refused
        )
    best = "The best choice for this machine" if rank == 1 else "It can run on this machine"
    return " ".join((f"{best}: {name} {ranked_engine.traits.strength}.", *ranked_engine.warnings))


def _gains(recipe: InstallRecipe, host: InstallHost, tried_variants: Container[str]) -> str:
    """Return what builds that were not tried here would make of this very processor."""
    return " ".join(
        filter(None, (variant_gain(variant, host) for variant in recipe.variants if variant.name not in tried_variants))
    )


def versions_of(catalogue: EngineCatalogue, engine: str) -> list[EngineVersion]:
    """Return the versions of an engine that are here, the one in use first."""
    state, adapter = catalogue.shelf.read_state(engine), catalogue.adapters[engine]
    versions = [
        _version_from_manifest(catalogue, state, manifest)
        for manifest in reversed(catalogue.shelf.list_manifests(engine))
    ]
    bundled_version = adapter.probe()
    if isinstance(bundled_version, EngineInstallation):
        versions.append(_version_with_app(state, bundled_version))
    if state.own:
        versions.append(_own_version(catalogue, engine, state))
    program = catalogue.own_programs.find_on_path(engine)
    if program is not None and program.resolve() != Path(state.own).resolve():
        versions.append(_version_on_path(catalogue, engine, program))
    return sorted(versions, key=lambda version: (not version.is_current, not version.is_previous))


def _version_from_manifest(catalogue: EngineCatalogue, state: VersionState, manifest: VersionManifest) -> EngineVersion:
    folder = catalogue.shelf.version_folder(manifest.engine, manifest.name)
    missing_files = find_missing_files(catalogue.adapters[manifest.engine].descriptor, place_of(folder, manifest))
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
        problem=state.bad.get(manifest.name, "") or (missing_files.sentence if missing_files else ""),
    )


def _version_with_app(state: VersionState, installation: EngineInstallation) -> EngineVersion:
    return EngineVersion(
        name=BUNDLED,
        version=installation.version,
        backend=installation.backend,
        is_current=state.current == BUNDLED,
        is_previous=state.previous == BUNDLED,
        proof=state.proofs.get(BUNDLED),
        problem=state.bad.get(BUNDLED, ""),
    )


def _own_version(catalogue: EngineCatalogue, engine: str, state: VersionState) -> EngineVersion:
    try:
        catalogue.shelf.find_place(engine, OWN)
        answer = catalogue.own_programs.probe_program(engine, Path(state.own))
    except NotFound as error:
        answer = Failure(kind=FailureKind.NOT_INSTALLED, sentence=str(error))
    installation = answer if isinstance(answer, EngineInstallation) else None
    return EngineVersion(
        name=OWN,
        version=installation.version if installation else "",
        backend=installation.backend if installation else "",
        is_current=state.current == OWN,
        is_previous=state.previous == OWN,
        path=state.own,
        proof=state.proofs.get(OWN),
        problem=state.bad.get(OWN, "") or (answer.sentence if isinstance(answer, Failure) else ""),
    )


def _version_on_path(catalogue: EngineCatalogue, engine: str, program: Path) -> EngineVersion:
    answer = catalogue.own_programs.probe_program(engine, program)
    return EngineVersion(
        name=catalogue.adapters[engine].descriptor.program,
        version=answer.version if isinstance(answer, EngineInstallation) else "",
        path=str(program),
        problem=answer.sentence if isinstance(answer, Failure) else "",
        is_on_path=True,
    )


def offers_of(
    recipe: InstallRecipe, host: InstallHost, manifests: Sequence[VersionManifest], state: VersionState
) -> list[EngineOffer]:
    """Return what could be installed on this kind of system, what this very machine can run first."""
    here = {(manifest.variant, manifest.version) for manifest in manifests}
    ordered_variants = order_variants(recipe, host)
    mine = [variant for variant in ordered_variants if is_built_for(variant, host)] or ordered_variants
    offers = [
        EngineOffer(
            variant=variant.name,
            version=variant.version,
            backend=variant.backend,
            download_bytes=variant.download_bytes,
            disk_bytes=variant.disk_bytes,
            is_installed=(variant.name, variant.version) in here,
            unfit=unfit_reason(variant, host),
            problem=state.bad.get(f"{variant.version}-{variant.name}", ""),
        )
        for variant in mine
    ]
    offers.sort(key=lambda offer: bool(offer.unfit))
    first, *others = offers
    return [msgspec.structs.replace(first, note=order_reason(recipe, host)), *others]
