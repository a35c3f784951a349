"""State of the machine page: the pools of memory, the facts with their sources, the engine decision."""

from typing import Any

import msgspec
from PySide6.QtCore import QObject, Signal

from app.core import words
from app.core.engines import EngineChoice, EngineInfo, Reason
from app.core.errors import ErrorBody
from app.core.machine import Confidence, Fact, Gpu, Machine
from app.gui.net.api import GatewayApi
from app.gui.net.mirror import Running
from app.gui.shell.contract import Shell

AnyFact = Fact[Any]
_CONFIDENCE = {
    Confidence.MEASURED: "measured just now",
    Confidence.DERIVED: "worked out from measured facts",
    Confidence.TABLE: "looked up by product name",
    Confidence.UNKNOWN: "unknown",
}

_ENVIRONMENTS = {"bare": "the computer itself", "vm": "a virtual machine", "container": "a container", "wsl": "WSL"}


class Pool(msgspec.Struct, frozen=True):
    """One pool of memory in bytes: what others use, what our engines use, what is free."""

    name: str
    detail: str
    total: int
    others: int
    ours: int
    source: str

    @property
    def free(self) -> int:
        """What nobody uses."""
        return max(0, self.total - self.others - self.ours)


class FactRow(msgspec.Struct, frozen=True):
    """One fact, said: `tip` tells where it comes from and how far to trust it."""

    label: str
    text: str
    tip: str
    is_known: bool


class MachineModel(QObject):
    """Everything the page shows; `machine` is None until it has been read."""

    changed = Signal()

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(shell)
        self._api = api
        self.running = Running(api, shell)
        self.machine: Machine | None = None
        self.choice: EngineChoice | None = None
        self.engines: list[EngineInfo] = []
        self.error: ErrorBody | None = None
        self.is_reading = False
        self.running.changed.connect(self.changed)
        shell.connected.connect(self.read)
        if shell.is_connected:
            self.read()

    def read(self) -> None:
        """Read what was found before."""
        self._read("/machine")

    def look_again(self) -> None:
        """Have the machine probed anew; what is shown stays until that is done."""
        self._read("/machine?fresh=1")

    def pools(self) -> list[Pool]:
        """Return system memory first, then each graphics device with memory of its own."""
        if self.machine is None:
            return []
        return pools(self.machine, self._ours(on_gpu=False), self._ours(on_gpu=True))

    def _ours(self, *, on_gpu: bool) -> int:
        used = [status for status in self.running.active() if (status.backend not in {"", "cpu"}) == on_gpu]
        return sum(status.memory_bytes or 0 for status in used)

    def _read(self, path: str) -> None:
        self.is_reading = True
        self.changed.emit()
        self._api.get(path, Machine, self._found, self._failed)
        self._api.get("/engines", list[EngineInfo], self._listed, self._failed)

    def _found(self, machine: Machine) -> None:
        self.machine, self.error, self.is_reading = machine, None, False
        self.changed.emit()
        self._api.get("/choice", EngineChoice, self._chosen, self._failed)

    def _chosen(self, choice: EngineChoice) -> None:
        self.choice = choice
        self.changed.emit()

    def _listed(self, engines: list[EngineInfo]) -> None:
        self.engines = engines
        self.changed.emit()

    def _failed(self, error: ErrorBody) -> None:
        self.error, self.is_reading = error, False
        self.changed.emit()


def pools(machine: Machine, ours_system: int, ours_gpu: int) -> list[Pool]:
    """Divide each pool among others, us and free. A shared pool carries what runs on the GPU too."""
    memory = machine.memory
    found: list[Pool] = []
    is_shared = memory.unified.value is True
    if memory.total.value is not None:
        ours = ours_system + (ours_gpu if is_shared else 0)
        detail = "shared by processor and graphics" if is_shared else ""
        found.append(_pool("Memory", detail, (memory.total, memory.available), ours))
    separate = [gpu for gpu in machine.gpus if gpu.memory_total.value and not gpu.integrated.value]
    for gpu in separate:
        # Which card an engine is on is not told; with one card it is that one.
        ours = ours_gpu if len(separate) == 1 else 0
        found.append(_pool("Graphics memory", gpu.name.value or gpu.id, (gpu.memory_total, gpu.memory_free), ours))
    return found


def _pool(name: str, detail: str, facts: tuple[Fact[int], Fact[int]], ours: int) -> Pool:
    total, free = facts
    size = total.value or 0
    used = size - free.value if free.value is not None else ours
    ours = min(ours, used)
    return Pool(name, detail, size, used - ours, ours, source=f"{total.source}; {free.source}")


def fact_rows(machine: Machine) -> list[FactRow]:
    """Return what is known of the system and the processor, in the order people ask."""
    system, cpu, memory = machine.os, machine.cpu, machine.memory
    return [
        _row("System", system.version),
        _row("Kernel", system.kernel),
        _row("Architecture", system.architecture),
        _row("Runs on", system.environment),
        _row("Processor", cpu.model),
        _row("Cores", cpu.physical_cores),
        _row("Usable cores", cpu.usable_cores),
        _row("Vector extensions", cpu.isa),
        _row("Memory", memory.total),
        _row("Memory limit", memory.limit),
        _row("Swap", memory.swap_total),
        *(row for gpu in machine.gpus for row in _gpu_rows(gpu)),
    ]


def figure(reason: Reason) -> str:
    """Return the value of a reason, unless its sentence says it already."""
    is_said = reason.value.casefold() in reason.text.casefold()
    return "" if is_said or reason.value == "0" else reason.value


def _gpu_rows(gpu: Gpu) -> list[FactRow]:
    return [_row("Graphics", gpu.name), _row("Graphics driver", gpu.driver), _row("Compute level", gpu.compute)]


def _row(label: str, fact: AnyFact) -> FactRow:
    return FactRow(label, said(fact), source(fact), fact.value is not None)


def said(fact: AnyFact) -> str:
    """Return a fact's value in words; an unknown one says why."""
    value: Any = _ENVIRONMENTS.get(fact.value, fact.value) if isinstance(fact.value, str) else fact.value
    if value is None:
        return fact.note or "Unknown"
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    if fact.unit == "B":
        return words.size(value)
    if isinstance(value, float):
        value = f"{value:g}"
    return f"{value} {fact.unit}".strip()


def source(fact: AnyFact) -> str:
    """Return where a fact comes from and how far to trust it."""
    known = _CONFIDENCE[fact.confidence]
    origin = f"{fact.source}: {known}" if fact.source else known.capitalize()
    return f"{origin}. {fact.note}" if fact.note and fact.value is not None else f"{origin}."
