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
from app.config.programs import child_environment, module_command
from app.core.machine import Fact, Machine, ProbeReport
from app.hardware.assemble import ProbeOutcome, assemble_machine
from app.hardware.bandwidth import store_bandwidth, with_bandwidth, with_stored_bandwidth
from app.hardware.evidence import THIS_SYSTEM, Raw, merge_records
from app.hardware.facts import ProbePart
from app.hardware.families import BANDWIDTH, families_of

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
    outcomes = await asyncio.gather(*(_run_child(name, timeout_s) for name in names))
    return Examination(
        machine=with_stored_bandwidth(assemble_machine(outcomes), default_paths().data),
        raw=merge_records([outcome.part.raw for outcome in outcomes if outcome.part]),
    )


async def measure_bandwidth(machine: Machine, *, timeout_s: float = 10.0) -> Machine:
    """Return the machine with its memory's bandwidth measured now, and remember it. Takes a second of all its cores.

    What was measured while other programs took the processor is not remembered, and replaces no higher figure.
    """
    outcome = await _run_child(BANDWIDTH, timeout_s)
    part = outcome.part or ProbePart()
    probed_machine = msgspec.structs.replace(machine, probes=[*machine.probes, outcome.report])
    rate = part.bandwidth_gb_s
    if rate is None or (part.is_bandwidth_disturbed and _rate(machine.memory.bandwidth_gb_s) >= _rate(rate)):
        return probed_machine
    updated_machine = with_bandwidth(probed_machine, rate)
    if rate.value is not None and not part.is_bandwidth_disturbed:
        await asyncio.to_thread(_remember_bandwidth, updated_machine)
    return updated_machine


def _rate(bandwidth_gb_s: Fact[float]) -> float:
    return bandwidth_gb_s.value or 0.0


def _remember_bandwidth(machine: Machine) -> None:
    try:
        store_bandwidth(machine, default_paths().data)
    except OSError as error:
        _LOG.warning("The measured bandwidth of memory could not be kept: %s", error)


async def _run_child(family: str, timeout_s: float) -> ProbeOutcome:
    began = time.monotonic()
    child = await asyncio.create_subprocess_exec(
        *module_command("app.hardware", family),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=child_environment(_ENVIRONMENT.get(family)),
    )
    try:
        out, err = await asyncio.wait_for(child.communicate(), timeout_s)
    except TimeoutError:
        detail = f"No answer within {timeout_s:g} s."
        return ProbeOutcome(_build_report(family, "timeout", began, detail), None)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return _read_outcome(family, began, child.returncode or 0, out, err)


def _read_outcome(family: str, began: float, code: int, out: bytes, err: bytes) -> ProbeOutcome:
    evidence = err.decode("utf-8", "replace").strip()[-_DETAIL_CHARS:]
    if code:
        return ProbeOutcome(_build_report(family, "crashed", began, f"Exit code {code}. {evidence}"), None)
    try:
        part = msgspec.json.decode(out, type=ProbePart)
    except msgspec.MsgspecError as error:
        return ProbeOutcome(_build_report(family, "crashed", began, f"Unreadable output: {error}"), None)
    return ProbeOutcome(_build_report(family, "absent" if part.absent else "ok", began, part.absent), part)


def _build_report(family: str, outcome: str, began: float, detail: str) -> ProbeReport:
    seconds = round(time.monotonic() - began, 3)
    return ProbeReport(name=family, outcome=outcome, seconds=seconds, detail=detail)
