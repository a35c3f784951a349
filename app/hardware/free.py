"""What is free of each graphics memory this moment, asked again and again: a child that stays, and its asker."""

import sys
from collections.abc import Sequence

from app.core.machine import Machine
from app.hardware.child_answers import FREE, serve_answers
from app.hardware.evidence import THIS_SYSTEM, live_evidence
from app.hardware.families import families_of, find_family
from app.hardware.standing_child import StandingChild, probe_command

_OTHERS = {"linux": "sysfs", "windows": "display"}
_Free = dict[str, int]


def families_to_watch(machine: Machine) -> list[str]:
    """Return the probe families that tell what is free of the GPUs with memory of their own."""
    vendors = {gpu.vendor for gpu in machine.gpus if not gpu.integrated.value}
    names = {"nvidia" if vendor == "nvidia" else _OTHERS.get(THIS_SYSTEM, "") for vendor in vendors}
    return sorted(names & set(families_of(THIS_SYSTEM)))


def free_by_gpu(names: Sequence[str]) -> _Free:
    """Return the bytes free of each GPU's memory, of the families named."""
    evidence = live_evidence()
    gpus = [gpu for name in names for gpu in find_family(evidence.system, name)(evidence).gpus]
    return {gpu.id: gpu.memory_free.value for gpu in gpus if gpu.memory_free.value is not None}


class FreeMemoryReader:
    """Asks the child. Belongs to one event loop."""

    def __init__(self, argv: Sequence[str] | None = None) -> None:
        self._argv = argv
        self._child = StandingChild(_Free, subject="Free graphics memory")

    async def read_free(self, names: Sequence[str]) -> _Free:
        """Return the bytes free of each GPU's memory; what could not be read is left out."""
        if not names:
            return {}
        return await self._child.ask(self._argv or probe_command(FREE, *names)) or {}

    async def close(self) -> None:
        """End the child."""
        await self._child.close()


def serve_child() -> int:
    """Be the child."""
    return serve_answers(lambda: free_by_gpu(sys.argv[2:]))
