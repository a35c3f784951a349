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

_SYSTEMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
_ARCHITECTURES = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "arm64", "aarch64": "arm64"}
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


def unfit_reason(variant: EngineVariant, host: InstallHost) -> str:
    """Return why this machine cannot run a variant, in a sentence; empty when it can."""
    if host.platform not in variant.platforms:
        systems = _join_words(_SYSTEMS.get(platform_name, platform_name) for platform_name in variant.platforms)
        return f"It is made for {systems}."
    if host.architecture not in variant.architectures:
        return f"It is made for {_join_words(variant.architectures)} processors; this one is {host.architecture}."
    if host.platform == "linux" and variant.glibc and host.glibc is not None:
        if not host.glibc:
            return f"It needs glibc {variant.glibc} or newer, which this system does not have."
        if version_numbers(host.glibc) < version_numbers(variant.glibc):
            return f"It needs glibc {variant.glibc} or newer; this system has {host.glibc}."
    if variant.kind is VariantKind.VENV and not host.has_uv:
        return "Installing it needs uv, which is missing: install Roundhouse again, or put uv on PATH."
    return _driver_problem(variant, host)


def _driver_problem(variant: EngineVariant, host: InstallHost) -> str:
    for vendor, least in variant.driver.items():
        installed, name = host.drivers.get(vendor), _VENDORS.get(vendor, vendor)
        if installed is None:
            condition = f" with driver {least} or newer" if least else ""
            return f"It needs a GPU by {name}{condition}; none was found."
        if installed and version_numbers(installed) < version_numbers(least):
            return f"It needs {name}'s driver {least} or newer; this machine has {installed}."
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
    return next((variant for variant in recipe.variants if not unfit_reason(variant, host)), None)


def version_numbers(version: str) -> tuple[int, ...]:
    """Return a version's numbers, to compare by: "2026.10.11549" is newer than "2026.9.9999"."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _join_words(names: Iterable[str]) -> str:
    return " and ".join(names)
