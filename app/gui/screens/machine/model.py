"""State of the machine page: the machine, and around it what follows: the what-if, the loads, the calibration."""

from app.core.engines import SETTLED
from app.core.machine import Machine
from app.gui.net.remote import RemoteStore
from app.gui.net.remote_lists import Stores
from app.gui.screens.machine.calibration import CalibrationModel
from app.gui.screens.machine.loads import LoadStore
from app.gui.screens.machine.pools import PoolDrawing, pool_drawings
from app.gui.screens.machine.report import ReportModel
from app.gui.screens.machine.what_if import WhatIf
from app.gui.screens.models.across_section import AcrossModel
from app.gui.shell.contract import Shell

_READ, _PROBE = "/machine", "/machine?fresh=1"
"""What was found before, with what is free now; and all of it probed anew."""


class MachineModel(RemoteStore[Machine]):
    """Everything the page shows; `value` is the machine."""

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(stores.api, shell, _READ, Machine)
        self.running = stores.running
        self.what_if = WhatIf(stores, shell)
        self.across = AcrossModel(stores, shell)
        self.loads = LoadStore(stores.api, shell)
        self.calibration = CalibrationModel(stores.api, shell)
        self.report = ReportModel(stores.api, shell)
        self._settled_states: set[tuple[str, str]] | None = None
        self.running.changed.connect(self._watch_engines)
        self.calibration.run_finished.connect(self.what_if.ask_again)
        for source in (self.what_if, stores.machines):
            source.changed.connect(self._follow_form)
        self._watch_engines()
        self._follow_form()

    @property
    def is_reading(self) -> bool:
        """Whether the machine is being looked at."""
        return self._call is not None

    def probe_again(self) -> None:
        """Have the machine probed anew; what is shown stays until that is done."""
        self._path = _PROBE
        self.read()

    def draw_pools(self) -> list[PoolDrawing]:
        """Return the pools of memory as they are drawn."""
        return pool_drawings(self.value, self.running.active()) if self.value else []

    def replace(self, value: Machine) -> None:
        """Take what was found; what is advised for another machine is advised anew."""
        was_known = self.is_known
        super().replace(value)
        if was_known:  # the first question is asked by itself
            self.what_if.ask_again()

    def _send(self) -> None:
        super()._send()
        self._path = _READ
        self.changed.emit()

    def _follow_form(self) -> None:
        """Have the model that is wished for planned over several computers, too, if it is one of this computer's."""
        form = self.what_if.form
        model = next((model for model in self.what_if.own_models if model.name == form.model), None)
        self.across.follow_form(model, form.context)

    def _watch_engines(self) -> None:
        """Look at memory again when a model has come or gone; that it loads on changes nothing yet."""
        settled_states = {
            (status.model, status.state.value) for status in self.running.items if status.state in SETTLED
        }
        if self._settled_states is not None and settled_states != self._settled_states:
            self.refresh()
            self.loads.refresh()
        self._settled_states = settled_states if self.running.is_known else None
        self.changed.emit()
