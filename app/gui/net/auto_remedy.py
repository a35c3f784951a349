"""Taking back what was done about a failed load without asking."""

from functools import partial

from app.core.engines import EngineStatus
from app.gui.net.api import ErrorHandler
from app.gui.net.remote_lists import PreferenceStore, RunningStore

SETTING_PREFIX = "engine.mend_"
"""What begins the name of the setting for each kind of remedy."""


def undo_remedy(
    status: EngineStatus, settings: PreferenceStore, running_store: RunningStore, on_error: ErrorHandler
) -> None:
    """Have it done no longer, and load the model as it was asked for."""

    def reload_model() -> None:
        running_store.unload(status.model, partial(running_store.load, status.model, on_error), on_error)

    settings.change_all(
        {SETTING_PREFIX + remedy.kind: False for remedy in status.mended}, then=reload_model, on_error=on_error
    )
