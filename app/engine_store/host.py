"""What a variant asks of the machine, and in which words it is refused. Pure but for `this_host`."""

import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from app.config.programs import uv_program
from app.core.machine import Machine
from app.engine_store.recipe import EngineVariant, InstallRecipe, VariantKind
from app.engine_store.toolkits import TOOLKITS, find_toolkits

_SYSTEMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
_ARCHITECTURES = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "arm64", "aarch64": "arm64"}
_BACKENDS = {"cuda": "CUDA", "rocm": "ROCm", "sycl": "SYCL", "vulkan": "Vulkan", "cpu": "the processor"}
_VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}


class InstallHost(msgspec.Struct, frozen=True, kw_only=True):
    """What of this machine decides which variants start, and which are fast.

    `drivers` are those that are known, by vendor; `isa` names the processor's vector extensions, as Linux does.
    """

    platform: str
    architecture: str
    glibc: str | None = ""
    """None: nobody knows; empty: another C library."""
    drivers: Mapping[str, str] = {}
    has_uv: bool = True
    isa: Sequence[str] = ()
    toolkits: frozenset[str] = frozenset()
    """What builds can be compiled with here: names in `toolkits.TOOLKITS`."""


def this_host(drivers: Mapping[str, str], *, isa: Sequence[str] = (), has_uv: bool = True) -> InstallHost:
    """Return the machine this process runs on."""
    machine = platform.machine().lower()
    return InstallHost(
        platform=sys.platform,
        architecture=_ARCHITECTURES.get(machine, machine),
        glibc=_glibc_version(),
        drivers=drivers,
        has_uv=has_uv,
        isa=isa,
        toolkits=frozenset(find_toolkits()),
    )


def host_of(machine: Machine) -> InstallHost:
    """Return what decides which variants start on this very machine."""
    return this_host(_drivers_of(machine), isa=machine.cpu.isa.value or (), has_uv=uv_program() is not None)


def described_host(machine: Machine) -> InstallHost:
    """Return what decides which variants start on a machine that somebody described; its C library is not known."""
    platforms = {name: platform_name for platform_name, name in _SYSTEMS.items()}
    architecture = (machine.os.architecture.value or "").lower()
    return InstallHost(
        platform=platforms.get(machine.os.name.value or "", ""),
        architecture=_ARCHITECTURES.get(architecture, architecture),
        glibc=None,
        drivers=_drivers_of(machine),
        isa=machine.cpu.isa.value or (),
    )


def _drivers_of(machine: Machine) -> Mapping[str, str]:
    """Return each GPU vendor's driver; empty text for one whose version nobody told."""
    return {gpu.vendor: gpu.driver.value or "" for gpu in machine.gpus}


def _glibc_version() -> str:
    if sys.platform != "linux":
        return ""
    try:
        version = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):  # musl has no such name
        return ""
    return version.removeprefix("glibc ")


def is_built_for(variant: EngineVariant, host: InstallHost) -> bool:
    """Tell whether a variant was built for this kind of system and processor at all."""
    return host.platform in variant.platforms and host.architecture in variant.architectures


def installable_engines(recipes: Mapping[str, InstallRecipe], host: InstallHost) -> frozenset[str]:
    """Return the engines of which any variant runs on a machine, by id."""
    return frozenset(
        engine
        for engine, recipe in recipes.items()
        if any(not unfit_reason(variant, host) for variant in recipe.variants)
    )


def unfit_reason(variant: EngineVariant, host: InstallHost) -> str:
    """Return why this machine cannot run a variant, in a sentence; empty when it can."""
    if host.platform not in variant.platforms:
        systems = _join_words(_SYSTEMS.get(platform_name, platform_name) for platform_name in variant.platforms)
        return f"It is made for {systems}."
    if host.architecture not in variant.architectures:
        return f"It is made for {_join_words(variant.architectures)} processors; this one is {host.architecture}."
    too_old = _library_problem(variant, host)
    if too_old:
        return too_old
    if variant.kind is VariantKind.VENV and not host.has_uv:
        return "Installing it needs uv, which is missing: install Roundhouse again, or put uv on PATH."
    lack = _driver_problem(variant, host)
    if not lack and variant.toolkit and variant.toolkit not in host.toolkits:
        return f"It is compiled here, which needs {TOOLKITS[variant.toolkit].title}; that was not found."
    return lack


def _library_problem(variant: EngineVariant, host: InstallHost) -> str:
    if host.platform != "linux" or not variant.glibc or host.glibc is None:
        return ""
    if not host.glibc:
        return f"It needs glibc {variant.glibc} or newer, which this system does not have."
    if version_numbers(host.glibc) < version_numbers(variant.glibc):
        return f"It needs glibc {variant.glibc} or newer; this system has {host.glibc}."
    return ""


def _driver_problem(variant: EngineVariant, host: InstallHost) -> str:
    for vendor, least in variant.driver.items():
        installed_version, name = host.drivers.get(vendor), _VENDORS.get(vendor, vendor)
        if installed_version is None:
            condition = f" with driver {least} or newer" if least else ""
            return f"It needs a GPU by {name}{condition}; none was found."
        if installed_version and version_numbers(installed_version) < version_numbers(least):
            return f"It needs {name}'s driver {least} or newer; this machine has {installed_version}."
    return ""


def variant_gain(variant: EngineVariant, host: InstallHost) -> str:
    """Return what a variant makes of this processor that others do not, in a sentence; empty where it is nothing."""
    if unfit_reason(variant, host):
        return ""
    return next((words for extension, words in variant.gains.items() if extension in host.isa), "")


def best_variant(recipe: InstallRecipe, host: InstallHost, name: str = "") -> EngineVariant | None:
    """Return the variant of that name, or the first that this machine can run."""
    if name:
        return recipe.find_variant(name)
    return next((variant for variant in order_variants(recipe, host) if not unfit_reason(variant, host)), None)


def order_variants(recipe: InstallRecipe, host: InstallHost) -> Sequence[EngineVariant]:
    """Return the variants, the first to offer first: the recipe's order, but GPUs stay in use on an older system.

    Where the builds for a GPU want a newer C library, another way to that GPU comes before the processor alone.
    """
    if not _list_outdated_builds(recipe, host):
        return recipe.variants
    return sorted(recipe.variants, key=lambda variant: variant.backend == "cpu")


def order_reason(recipe: InstallRecipe, host: InstallHost) -> str:
    """Return why the first variant on offer is not the makers' own build for this GPU; empty where it is."""
    outdated_builds, first = _list_outdated_builds(recipe, host), best_variant(recipe, host)
    if not outdated_builds or first is None:
        return ""
    build, missing_toolkit = outdated_builds[0], _toolkit_candidate(recipe, host)
    backend = _BACKENDS.get(build.backend, build.backend)
    instead = f"the build for {_BACKENDS.get(first.backend, first.backend)}"
    if first.toolkit:
        instead = f"a build for {_BACKENDS.get(first.backend, first.backend)} that is compiled here"
    sentence = (
        f"The ready-made build for {backend} needs glibc {build.glibc} and this system has {host.glibc}, so {instead} "
        "is offered first."
    )
    if first.backend == build.backend or missing_toolkit is None:
        return sentence
    toolkit = TOOLKITS[missing_toolkit.toolkit].title
    return f"{sentence} With {toolkit} on this computer, one for {backend} is compiled instead."


def _list_outdated_builds(recipe: InstallRecipe, host: InstallHost) -> list[EngineVariant]:
    """Return the builds for a GPU of this computer that only its C library is too old for, if no other of them runs."""
    mine = [variant for variant in recipe.variants if is_built_for(variant, host) and variant.driver]
    running_backends = {variant.backend for variant in mine if not variant.toolkit and not unfit_reason(variant, host)}
    return [
        variant
        for variant in mine
        if variant.backend not in running_backends
        and _library_problem(variant, host)
        and host.glibc
        and not _driver_problem(variant, host)
    ]


def _toolkit_candidate(recipe: InstallRecipe, host: InstallHost) -> EngineVariant | None:
    """Return a variant that would be compiled here for a GPU of this computer if its toolkit were."""
    return next(
        (
            variant
            for variant in recipe.variants
            if variant.toolkit
            and variant.toolkit not in host.toolkits
            and variant.driver
            and is_built_for(variant, host)
            and not _driver_problem(variant, host)
        ),
        None,
    )


def version_numbers(version: str) -> tuple[int, ...]:
    """Return a version's numbers, to compare by: "2026.10.11549" is newer than "2026.9.9999"."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _join_words(names: Iterable[str]) -> str:
    return " and ".join(names)
