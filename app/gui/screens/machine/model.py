"""State of the machine page: the machine, and around it what follows: the what-if, the loads, the calibration."""

from PySide6.QtCore import QObject, Signal

from app.core.engines import SETTLED
from app.core.errors import ErrorBody
from app.core.machine import Machine
from app.gui.net.api import GatewayApi
from app.gui.net.stores import Running
from app.gui.screens.machine.calibrating import Calibrating
from app.gui.screens.machine.loads import Loads
from app.gui.screens.machine.pools import PoolDrawing, pool_drawings
from app.gui.screens.machine.report import Report
from app.gui.screens.machine.what_if import WhatIf
from app.gui.shell.contract import Shell


class MachineModel(QObject):
    """Everything the page shows; `machine` is None until it has been read."""

    changed = Signal()

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(shell)
        self._api = api
        self.running = Running(api, shell)
        self.what_if = WhatIf(api, shell, self.running)
        self.loads = Loads(api, shell)
        self.calibrating = Calibrating(api, shell)
        self.report = Report(api, shell)
        self.machine: Machine | None = None
        self.error: ErrorBody | None = None
        self.is_reading = False
        self._settled: set[tuple[str, str]] | None = None
        self.running.changed.connect(self._watch)
        self.calibrating.learned.connect(self.what_if.ask)
        shell.connected.connect(self._start)
        if shell.is_connected:
            self._start()

    def read(self) -> None:
        """Read what was found before, with what is free now."""
        self._read("/machine")

    def look_again(self) -> None:
        """Have the machine probed anew; what is shown stays until that is done."""
        self._read("/machine?fresh=1")

    def pools(self) -> list[PoolDrawing]:
        """Return the pools of memory as they are drawn."""
        return pool_drawings(self.machine, self.running.active()) if self.machine else []

    def _start(self) -> None:
        self.read()
        self.loads.read()
        self.calibrating.read()

    def _read(self, path: str) -> None:
        self.is_reading = True
        self.changed.emit()
        self._api.get(path, Machine, self._found, self._failed)

    def _found(self, machine: Machine) -> None:
        was_known = self.machine is not None
        self.machine, self.error, self.is_reading = machine, None, False
        self.changed.emit()
        if was_known:  # the first question is asked by itself
            self.what_if.ask()

    def _failed(self, error: ErrorBody) -> None:
        self.error, self.is_reading = error, False
        self.changed.emit()

    def _watch(self) -> None:
        """Look at memory again when a model has come or gone; that it loads on changes nothing yet."""
        settled = {(status.model, status.state.value) for status in self.running.items if status.state in SETTLED}
        if self._settled is not None and settled != self._settled:
            self.read()
            self.loads.read()
        self._settled = settled if self.running.is_known else None
        self.changed.emit()
