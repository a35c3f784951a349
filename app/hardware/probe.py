"""Run the probe children side by side, each with a time-out, and merge what they found into one Machine.

A child that hangs or crashes costs its own facts and leaves a `ProbeReport`; the others count. Only the bandwidth of
memory is remembered between runs: it takes a moment of every core to measure, and free memory is only true now.
"""

import asyncio
import logging
import time
from collections.abc import Sequence

import msgspec

from app.config.paths import default_paths
from app.config.programs import child_environment, command
from app.core.machine import Machine, ProbeReport
from app.hardware.assemble import Outcome, assembled
from app.hardware.evidence import THIS_SYSTEM, Raw, joined
from app.hardware.families import BANDWIDTH, families_of
from app.hardware.part import Part
from app.hardware.remembered import remember, with_bandwidth, with_remembered

_LOG = logging.getLogger(__name__)
_DETAIL_CHARS = 400
_ENVIRONMENT = {"vulkan": {"VK_LOADER_LAYERS_DISABLE": "~implicit~"}}
"""Overlays and recorders that hook into every Vulkan program have no business in a probe."""


class Examination(msgspec.Struct, frozen=True, kw_only=True):
    """The machine, and the record of all that was looked at to know it: with serial numbers and names, if any."""

    machine: Machine
    raw: Raw


async def read_machine(*, timeout_s: float = 8.0, families: Sequence[str] | None = None) -> Machine:
    """Probe this machine. Raises EnvironmentFault only when not even the operating system and CPU could be read.

    The bandwidth of system memory is what `measure_bandwidth` found before, if it did.
    """
    return (await examine_machine(timeout_s=timeout_s, families=families)).machine


async def examine_machine(*, timeout_s: float = 8.0, families: Sequence[str] | None = None) -> Examination:
    """Probe this machine, and keep what was looked at. As `read_machine` otherwise."""
    names = families or list(families_of(THIS_SYSTEM))
    outcomes = await asyncio.gather(*(_run(name, timeout_s) for name in names))
    return Examination(
        machine=with_remembered(assembled(outcomes), default_paths().data),
        raw=joined([outcome.part.raw for outcome in outcomes if outcome.part]),
    )


async def measure_bandwidth(machine: Machine, *, timeout_s: float = 10.0) -> Machine:
    """Return the machine with its memory's bandwidth measured now, and remember it. Takes a second of all its cores."""
    outcome = await _run(BANDWIDTH, timeout_s)
    found = outcome.part.bandwidth_gb_s if outcome.part else None
    probed = msgspec.structs.replace(machine, probes=[*machine.probes, outcome.report])
    if found is None:
        return probed
    measured = with_bandwidth(probed, found)
    if found.value is not None:
        await asyncio.to_thread(_remember, measured)
    return measured


def _remember(machine: Machine) -> None:
    try:
        remember(machine, default_paths().data)
    except OSError as error:
        _LOG.warning("The measured bandwidth of memory could not be kept: %s", error)


async def _run(family: str, timeout_s: float) -> Outcome:
    began = time.monotonic()
    child = await asyncio.create_subprocess_exec(
        *command("app.hardware", family),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=child_environment(_ENVIRONMENT.get(family)),
    )
    try:
        out, err = await asyncio.wait_for(child.communicate(), timeout_s)
    except TimeoutError:
        detail = f"No answer within {timeout_s:g} s."
        return Outcome(_report(family, "timeout", began, detail), None)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return _read(family, began, child.returncode or 0, out, err)


def _read(family: str, began: float, code: int, out: bytes, err: bytes) -> Outcome:
    evidence = err.decode("utf-8", "replace").strip()[-_DETAIL_CHARS:]
    if code:
        return Outcome(_report(family, "crashed", began, f"Exit code {code}. {evidence}"), None)
    try:
        part = msgspec.json.decode(out, type=Part)
    except msgspec.MsgspecError as error:
        return Outcome(_report(family, "crashed", began, f"Unreadable output: {error}"), None)
    return Outcome(_report(family, "absent" if part.absent else "ok", began, part.absent), part)


def _report(family: str, outcome: str, began: float, detail: str) -> ProbeReport:
    seconds = round(time.monotonic() - began, 3)
    return ProbeReport(name=family, outcome=outcome, seconds=seconds, detail=detail)
