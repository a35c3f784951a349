"""Taking back what was done about a failed load without asking."""

from functools import partial

from app.core.engines import EngineStatus
from app.gui.net.api import ErrorHandler
from app.gui.net.remote_lists import PreferenceStore, RunningStore

SETTING_PREFIX = "engine.mend_"
"""What begins the name of the setting for each kind of remedy."""


def undo_remedy(status: EngineStatus, settings: PreferenceStore, running: RunningStore, failed: ErrorHandler) -> None:
    """Have it done no longer, and load the model as it was asked for."""

    def reload_model() -> None:
        running.unload(status.model, partial(running.load, status.model, failed), failed)

    settings.change_all(
        {SETTING_PREFIX + applied.kind: False for applied in status.mended}, then=reload_model, failed=failed
    )
