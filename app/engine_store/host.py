"""What a variant asks of the machine, and in which words it is refused. Pure but for `this_host`."""

import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from app.engine_store.recipe import Kind, Recipe, Variant

_SYSTEMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
_ARCHITECTURES = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "arm64", "aarch64": "arm64"}
_VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """What of this machine decides which variants start, and which are fast.

    `drivers` are those that are known, by vendor; `isa` names the processor's vector extensions, as Linux does.
    """

    platform: str
    architecture: str
    glibc: str = ""
    drivers: Mapping[str, str] = {}
    has_uv: bool = True
    isa: Sequence[str] = ()


def this_host(drivers: Mapping[str, str], *, isa: Sequence[str] = (), has_uv: bool = True) -> Host:
    """Return the machine this process runs on."""
    machine = platform.machine().lower()
    return Host(
        platform=sys.platform,
        architecture=_ARCHITECTURES.get(machine, machine),
        glibc=_glibc(),
        drivers=drivers,
        has_uv=has_uv,
        isa=isa,
    )


def _glibc() -> str:
    if sys.platform != "linux":
        return ""
    try:
        said = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):  # musl has no such name
        return ""
    return said.removeprefix("glibc ")


def is_for(variant: Variant, host: Host) -> bool:
    """Tell whether a variant was built for this kind of system and processor at all."""
    return host.platform in variant.platforms and host.architecture in variant.architectures


def unfit(variant: Variant, host: Host) -> str:
    """Return why this machine cannot run a variant, in a sentence; empty when it can."""
    if host.platform not in variant.platforms:
        return f"It is made for {_words(_SYSTEMS.get(one, one) for one in variant.platforms)}."
    if host.architecture not in variant.architectures:
        return f"It is made for {_words(variant.architectures)} processors; this one is {host.architecture}."
    if host.platform == "linux" and variant.glibc:
        if not host.glibc:
            return f"It needs glibc {variant.glibc} or newer, which this system does not have."
        if as_numbers(host.glibc) < as_numbers(variant.glibc):
            return f"It needs glibc {variant.glibc} or newer; this system has {host.glibc}."
    if variant.kind is Kind.VENV and not host.has_uv:
        return "Installing it needs uv, which is missing: install Roundhouse again, or put uv on PATH."
    return _old_driver(variant, host)


def _old_driver(variant: Variant, host: Host) -> str:
    for vendor, least in variant.driver.items():
        there, name = host.drivers.get(vendor), _VENDORS.get(vendor, vendor)
        if there is None:
            wanted = f" with driver {least} or newer" if least else ""
            return f"It needs a GPU by {name}{wanted}; none was found."
        if there and as_numbers(there) < as_numbers(least):
            return f"It needs {name}'s driver {least} or newer; this machine has {there}."
    return ""


def gain(variant: Variant, host: Host) -> str:
    """Return what a variant makes of this processor that others do not, in a sentence; empty where it is nothing."""
    if unfit(variant, host):
        return ""
    return next((words for extension, words in variant.gains.items() if extension in host.isa), "")


def best_variant(recipe: Recipe, host: Host, name: str = "") -> Variant | None:
    """Return the variant of that name, or the first that this machine can run."""
    if name:
        return recipe.variant(name)
    return next((variant for variant in recipe.variants if not unfit(variant, host)), None)


def as_numbers(version: str) -> tuple[int, ...]:
    """Return a version's numbers, to compare by: "2026.10.11549" is newer than "2026.9.9999"."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _words(names: Iterable[str]) -> str:
    return " and ".join(names)
