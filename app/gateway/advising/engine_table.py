"""What the advisor is told of engines: what their descriptors say, and which builds of them there are."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from app.advisor.choosing.builds import Builds, EngineBuild, table_for, with_support
from app.advisor.choosing.engine_table import EngineTable
from app.core.engines import EngineInfo
from app.core.machine import Machine
from app.engine_store.host import InstallHost, unfit_reason
from app.engine_store.recipe import BundledVersion, EngineVariant, InstallRecipe
from engines.api.support import EngineSupport
from engines.api.traits import ARM, LINUX, MAC, WINDOWS, X86
from engines.registry import ADAPTERS

_SYSTEMS = {"linux": LINUX, "darwin": MAC, "win32": WINDOWS}
_WHEEL_SYSTEMS = {"manylinux": LINUX, "macosx": MAC, "win": WINDOWS}


@cache
def engine_table() -> EngineTable:
    """Return every engine of the registry that can be advised; none changes while the program runs."""
    return EngineTable.of(adapter.descriptor for adapter in ADAPTERS.values())


def engines_for(
    machine: Machine,
    recipes: Mapping[str, InstallRecipe],
    engines: Sequence[EngineInfo],
    host: InstallHost,
    supports: Mapping[str, EngineSupport] | None = None,
) -> EngineTable:
    """Return the engines as they can be had for a machine: what is installed counts as had. `host` describes it too.

    With `supports` they are kept from models that the versions which are here do not load.
    """
    table = table_for(engine_table(), machine, builds_of(recipes, engines, host))
    return with_support(table, supports) if supports else table


def builds_of(recipes: Mapping[str, InstallRecipe], engines: Iterable[EngineInfo], host: InstallHost) -> Builds:
    """Return the builds of every engine, and why `host` cannot run those that it cannot."""
    builds = {engine: list(_recipe_builds(recipe, host)) for engine, recipe in recipes.items()}
    system = frozenset({_SYSTEMS.get(host.platform, host.platform)})
    for engine in engines:
        if engine.installed:
            here = EngineBuild(backend=engine.backend, systems=system, architectures=frozenset({host.architecture}))
            builds.setdefault(engine.id, []).append(here)
    return builds


def _recipe_builds(recipe: InstallRecipe, host: InstallHost) -> Iterator[EngineBuild]:
    """Yield what can surely be had: whether kernels are published for a variant shows once it is installed."""
    yield from (_variant_build(variant, host) for variant in recipe.variants if not variant.needs_prebuilt)
    if recipe.bundled is not None:
        yield from _list_bundled_builds(recipe.bundled)


def _variant_build(variant: EngineVariant, host: InstallHost) -> EngineBuild:
    return EngineBuild(
        backend=variant.backend,
        systems=frozenset(_SYSTEMS.get(name, name) for name in variant.platforms),
        architectures=frozenset(variant.architectures),
        problem=unfit_reason(variant, host),
    )


def _list_bundled_builds(bundled_version: BundledVersion) -> Iterator[EngineBuild]:
    """Yield what comes with Roundhouse itself: wheels for processors, on Apple silicon for its GPU too."""
    for tag in bundled_version.wheels:
        system = next(name for prefix, name in _WHEEL_SYSTEMS.items() if tag.startswith(prefix))
        architecture = ARM if tag.endswith(("arm64", "aarch64")) else X86
        for backend in ("cpu", "metal") if (system, architecture) == (MAC, ARM) else ("cpu",):
            yield EngineBuild(backend=backend, systems=frozenset({system}), architectures=frozenset({architecture}))
