"""Taking back what was done about a failed load without asking."""

from functools import partial

from app.core.engines import EngineStatus
from app.gui.net.api import Failed
from app.gui.net.stores import PreferenceStore, RunningStore

SETTING = "engine.mend_"
"""What begins the name of the setting for each kind of remedy."""


def take_back(status: EngineStatus, settings: PreferenceStore, running: RunningStore, failed: Failed) -> None:
    """Have it done no longer, and load the model as it was asked for."""

    def unload() -> None:
        running.unload(status.model, partial(running.load, status.model, failed), failed)

    settings.change_all({SETTING + applied.kind: False for applied in status.mended}, then=unload, failed=failed)
