"""What this computer's kernel offers to confine engines with, and what that comes to, in sentences."""

import contextlib
import functools
import subprocess
import sys

import msgspec

from app.config.programs import child_environment, module_command
from app.confinement.policy import works_alone
from app.core.confinement import ConfinementPart, ConfinementReport, EngineConfinementState
from engines.api import Descriptor, EngineFamily, LaunchOptions

_PROBE_TIMEOUT_S = 20.0
"""It takes a twentieth of a second where nothing else runs."""
_TRUNCATE_ABI, _TCP_ABI, _SCOPE_ABI = 3, 4, 6
"""Versions of Landlock, of Linux 6.2, 6.7 and 6.12."""


class KernelOffer(msgspec.Struct, frozen=True, kw_only=True):
    """What the launcher found. `landlock` is the version of its interface, 0 without it."""

    landlock: int = 0
    has_filter: bool = False
    has_namespaces: bool = False
    is_superuser: bool = False
    network_problem: str = ""
    """Why an engine can have no network of its own; empty where it can."""


@functools.cache
def read_kernel_offer() -> KernelOffer | None:
    """Ask the launcher, once per process; None where engines cannot be confined at all. Takes a moment."""
    if sys.platform != "linux":
        return None
    with contextlib.suppress(OSError, subprocess.SubprocessError, msgspec.MsgspecError):
        answer = subprocess.run(
            module_command("app.confinement.launcher", "--probe"),
            capture_output=True,
            check=True,
            env=child_environment(),
            timeout=_PROBE_TIMEOUT_S,
        )
        return msgspec.json.decode(answer.stdout, type=KernelOffer)
    return KernelOffer()


def report_confinement(offer: KernelOffer | None, *, is_wanted: bool, free_engines: list[str]) -> ConfinementReport:
    """Return what `doctor` shows. `free_engines` are those a person excepted."""
    if offer is None:
        return ConfinementReport(
            is_confined=False,
            sentence="Engines are not confined and may do all that you may: Roundhouse can confine them on Linux only.",
        )
    if not is_wanted:
        return ConfinementReport(
            is_confined=False,
            sentence="Engines are not confined and may do all that you may: the setting engines.confine is off.",
        )
    if not offer.landlock:
        return ConfinementReport(
            is_confined=False,
            sentence="Engines can read and change your files: this kernel has no Landlock (Linux 5.13 or later), "
            "or it was started without it.",
            parts=_parts(offer),
        )
    exception_note = f" Not confined, as set: {', '.join(free_engines)}." if free_engines else ""
    return ConfinementReport(is_confined=True, sentence=f"Engines are confined.{exception_note}", parts=_parts(offer))


def engine_confinement(
    about: Descriptor, offer: KernelOffer | None, *, is_wanted: bool, free_engines: list[str]
) -> EngineConfinementState:
    """Return what holds for one engine when it is next loaded."""
    if about.family is EngineFamily.CONTAINER:
        return EngineConfinementState(
            is_confined=False, sentence="Its container confines it; Roundhouse does not confine the container's client."
        )
    if about.id in free_engines:
        return EngineConfinementState(
            is_confined=False, sentence="Not confined, as set in engines.unconfined: it may do all that you may."
        )
    report = report_confinement(offer, is_wanted=is_wanted, free_engines=[])
    if not report.is_confined:
        return EngineConfinementState(is_confined=False, sentence=report.sentence)
    return EngineConfinementState(is_confined=True, sentence=_ALONE if works_alone(about, _PLAIN) else _HELPED)


_PLAIN = LaunchOptions()
_ALONE = "Confined: it reads its model and its own programs, writes to folders of its own, and connects to nothing."
_HELPED = (
    "Confined to its model, its own programs and folders of its own. It works with helper processes, so it can reach "
    "sockets of other programs on this computer, high TCP ports, and anything by UDP."
)


def _parts(offer: KernelOffer) -> list[ConfinementPart]:
    return [_files(offer), _network(offer), _programs(offer), _processes(offer)]


def _files(offer: KernelOffer) -> ConfinementPart:
    if not offer.landlock:
        return ConfinementPart(name="files", is_held=False, sentence="Engines can read and change your files.")
    sentence = "Engines read their model and their own programs, and write to folders of their own."
    if offer.landlock < _TRUNCATE_ABI:
        sentence += " They can empty other files of yours: to prevent that takes Linux 6.2."
    return ConfinementPart(name="files", is_held=offer.landlock >= _TRUNCATE_ABI, sentence=sentence)


def _network(offer: KernelOffer) -> ConfinementPart:
    if not offer.has_filter:
        sentence = "Engines can connect to other computers: there is no filter of system calls for this processor."
        if offer.landlock >= _TCP_ABI:
            sentence = "Engines cannot connect by TCP, but by UDP and MPTCP: there is no filter for this processor."
        return ConfinementPart(name="network", is_held=False, sentence=sentence)
    sentence = "Engines connect to nothing; those with helper processes, to high ports and by UDP."
    if offer.landlock < _TCP_ABI:
        sentence = (
            "Engines connect to nothing; those with helper processes, to anything, until Linux 6.7. "
            "Any of them can listen on other ports."
        )
    return ConfinementPart(name="network", is_held=True, sentence=sentence)


def _programs(offer: KernelOffer) -> ConfinementPart:
    if offer.landlock >= _SCOPE_ABI:
        return ConfinementPart(
            name="programs", is_held=True, sentence="Engines cannot signal or read the memory of other programs."
        )
    reads = "cannot read the memory of other programs, but" if offer.landlock else "can read other programs' memory and"
    return ConfinementPart(
        name="programs",
        is_held=False,
        sentence=f"Engines {reads} can end your programs: to prevent that takes Linux 6.12.",
    )


def _processes(offer: KernelOffer) -> ConfinementPart:
    if offer.is_superuser:
        return ConfinementPart(
            name="processes",
            is_held=False,
            sentence="An engine can start any number of processes: the kernel does not count the superuser's.",
        )
    if offer.has_namespaces:
        return ConfinementPart(
            name="processes", is_held=True, sentence="An engine has a limit on processes and threads of its own."
        )
    return ConfinementPart(
        name="processes",
        is_held=True,
        sentence="An engine has a limit on processes and threads that counts your other programs too, since user "
        "namespaces are not allowed here.",
    )
