"""Run the probe children side by side, each with a time-out, and merge what they found into one Machine.

A child that hangs or crashes costs its own facts and leaves a `ProbeReport`; the others count. Nothing is remembered
here: free memory is only true now.
"""

import asyncio
import time
from collections.abc import Sequence

import msgspec

from app.config.programs import child_environment, command
from app.core.machine import Machine, ProbeReport
from app.hardware.assemble import Outcome, assembled
from app.hardware.evidence import THIS_SYSTEM
from app.hardware.families import families_of
from app.hardware.part import Part

_DETAIL_CHARS = 400


async def read_machine(*, timeout_s: float = 8.0, families: Sequence[str] | None = None) -> Machine:
    """Probe this machine. Raises EnvironmentFault only when not even the operating system and CPU could be read."""
    names = families or list(families_of(THIS_SYSTEM))
    outcomes = await asyncio.gather(*(_run(name, timeout_s) for name in names))
    return assembled(outcomes)


async def _run(family: str, timeout_s: float) -> Outcome:
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
