"""Run the probe children side by side, each with a time-out, and merge what they found into one Machine.

A child that hangs or crashes costs its own facts and leaves a `ProbeReport`; the others count. Nothing is remembered
here: free memory is only true now.
"""

import asyncio
import time
from collections.abc import Sequence

import msgspec

from app.config.programs import child_environment, command
from app.core.errors import EnvironmentFault
from app.core.machine import Gpu, Machine, Memory, ProbeReport
from app.hardware.facts import derived
from app.hardware.families import Part, families_here

_DETAIL_CHARS = 400


class _Outcome(msgspec.Struct, frozen=True):
    report: ProbeReport
    part: Part | None


async def read_machine(*, timeout_s: float = 8.0, families: Sequence[str] | None = None) -> Machine:
    """Probe this machine. Raises EnvironmentFault only when not even the operating system and CPU could be read."""
    names = families or families_here()
    outcomes = await asyncio.gather(*(_run(name, timeout_s) for name in names))
    return merged(outcomes)


def merged(outcomes: Sequence[_Outcome]) -> Machine:
    """Return one Machine from what the families found."""
    parts = [outcome.part for outcome in outcomes if outcome.part]
    base = next((part for part in parts if part.os and part.cpu and part.memory), None)
    if base is None or base.os is None or base.cpu is None or base.memory is None:
        raise EnvironmentFault("This machine could not be examined.", detail=outcomes[0].report.detail)
    gpus = _distinct([gpu for part in parts for gpu in part.gpus])
    return Machine(
        os=base.os,
        cpu=base.cpu,
        memory=_with_unified(base.memory, gpus),
        gpus=gpus,
        probes=[outcome.report for outcome in outcomes],
        probed_at=time.time(),
    )


def _distinct(gpus: Sequence[Gpu]) -> list[Gpu]:
    """Keep the first of each id: two drivers can list the same card."""
    return list({gpu.id: gpu for gpu in reversed(gpus)}.values())[::-1]


def _with_unified(memory: Memory, gpus: Sequence[Gpu]) -> Memory:
    shares = [gpu.name.value or gpu.id for gpu in gpus if gpu.integrated.value]
    if not shares and not gpus:
        return memory
    note = f"{shares[0]} uses system memory." if shares else "Every GPU has memory of its own."
    return msgspec.structs.replace(memory, unified=derived(bool(shares), "GPU probes", note=note))


async def _run(family: str, timeout_s: float) -> _Outcome:
    began = time.monotonic()
    child = await asyncio.create_subprocess_exec(
        *command("app.hardware", family),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=child_environment(),
    )
    try:
        out, err = await asyncio.wait_for(child.communicate(), timeout_s)
    except TimeoutError:
        detail = f"No answer within {timeout_s:g} s."
        return _Outcome(_report(family, "timeout", began, detail), None)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return _read(family, began, child.returncode or 0, out, err)


def _read(family: str, began: float, code: int, out: bytes, err: bytes) -> _Outcome:
    evidence = err.decode("utf-8", "replace").strip()[-_DETAIL_CHARS:]
    if code:
        return _Outcome(_report(family, "crashed", began, f"Exit code {code}. {evidence}"), None)
    try:
        part = msgspec.json.decode(out, type=Part)
    except msgspec.MsgspecError as error:
        return _Outcome(_report(family, "crashed", began, f"Unreadable output: {error}"), None)
    return _Outcome(_report(family, "absent" if part.absent else "ok", began, part.absent), part)


def _report(family: str, outcome: str, began: float, detail: str) -> ProbeReport:
    seconds = round(time.monotonic() - began, 3)
    return ProbeReport(name=family, outcome=outcome, seconds=seconds, detail=detail)
