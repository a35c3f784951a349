"""What may mend a failed load: once, from now on without asking, and back again.

What is done without asking is a setting for each kind of remedy; which kinds there are is read from the settings.
"""

from functools import partial

import msgspec
from PySide6.QtCore import QObject, Signal

from app.core.engines import EngineState, EngineStatus, FailureReport, RemedyOffer
from app.core.models import ModelSettings
from app.core.translation import tr
from app.gui.net.auto_remedy import SETTING_PREFIX, undo_remedy
from app.gui.net.model_settings import SettingsChange, ask_to_allow, change_model_settings
from app.gui.net.remote_lists import Stores
from app.gui.shell.contract import PageId, Shell

ALLOW_CODE, FREE_MEMORY, RESET_OPTIONS = "allow_code", "free_memory", "reset_options"
DONE_HERE = frozenset({ALLOW_CODE, FREE_MEMORY, RESET_OPTIONS})
"""What a press does at once, or once a question was answered."""
WAYS = {
    "download_again": PageId.MODELS,
    "free_disk": PageId.MODELS,
    "install_again": PageId.ENGINES,
    "other_model": PageId.MODELS,
    "other_runtime": PageId.ENGINES,
    "sign_in": PageId.SETTINGS,
    "smaller_model": PageId.MODELS,
    "update_driver": PageId.MACHINE,
    "update_engine": PageId.ENGINES,
}
"""Where a person does what cannot be done for them."""
WAYS_SHOWN = 2


class AutoRemedyModel(QObject):
    """Remedies of the models that run or failed.

    `toast_requested` carries a sentence and the way back from what it tells of.
    """

    changed = Signal()
    toast_requested = Signal(str, object)
    failed = Signal(object)

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(shell)
        self._api, self._shell = stores.api, shell
        self._running_models, self._settings = stores.running, stores.preferences
        self._settings.changed.connect(self.changed)

    def remedy_ways(self, failure: FailureReport) -> list[RemedyOffer]:
        """Return the remedies that lead somewhere else, the most promising of each place."""
        firsts: dict[object, RemedyOffer] = {}
        for offer in failure.remedies:
            if offer.kind in WAYS or offer.kind in DONE_HERE:
                firsts.setdefault(WAYS.get(offer.kind, offer.kind), offer)
        return list(firsts.values())[:WAYS_SHOWN]

    def follow_remedy(self, name: str, offer: RemedyOffer) -> None:
        """Do what a remedy says, or show the page where a person does it."""
        actions = {FREE_MEMORY: self._make_room, RESET_OPTIONS: self._reset_settings, ALLOW_CODE: self._ask_to_allow}
        if offer.kind in actions:
            actions[offer.kind](name)
        else:
            self._shell.show_page(WAYS[offer.kind])

    def can_be_automatic(self, failure: FailureReport) -> bool:
        """Tell whether something that may help can be done without asking."""
        return bool(self._settings_for(failure))

    def is_automatic(self, failure: FailureReport) -> bool:
        """Tell whether all of that is done without asking already."""
        names = self._settings_for(failure)
        return bool(names) and all(self._settings.get(name, default=False) for name in names)

    def set_automatic(self, name: str, failure: FailureReport, *, is_automatic: bool) -> None:
        """Have what may help done without asking from now on, this time too; or no longer."""
        values = dict.fromkeys(self._settings_for(failure), is_automatic)
        again = partial(self._load_model, name) if is_automatic else None
        self._settings.change_all(values, then=again, on_error=self.failed.emit)

    def undo_remedies(self, status: EngineStatus) -> None:
        """Take back what was done to a model without asking."""
        undo_remedy(status, self._settings, self._running_models, self.failed.emit)

    def _settings_for(self, failure: FailureReport) -> list[str]:
        known_names = {item.name for item in self._settings.items}
        return [name for offer in failure.remedies if (name := SETTING_PREFIX + offer.kind) in known_names]

    def _load_model(self, name: str) -> None:
        self._running_models.load(name, self.failed.emit)

    def _reset_settings(self, name: str) -> None:
        """Forget what is set for a model, but for the pin, and load it; the way back sets it again."""
        self._change_settings(
            name, lambda own: ModelSettings(pinned=own.pinned), tr("{name} was reset to its defaults.", name=name)
        )

    def _ask_to_allow(self, name: str) -> None:
        ask_to_allow(self._shell, name, partial(self._allow_code, name))

    def _allow_code(self, name: str) -> None:
        self._change_settings(
            name,
            lambda own: msgspec.structs.replace(own, allows_code=True),
            tr("The code of {name} may run.", name=name),
        )

    def _change_settings(self, name: str, change: SettingsChange, sentence: str) -> None:
        def report_change(before: ModelSettings) -> None:
            self.toast_requested.emit(sentence, partial(self._set_back, name, before))
            self._load_model(name)

        change_model_settings(self._api, name, change, then=report_change, on_error=self.failed.emit)

    def _set_back(self, name: str, before: ModelSettings) -> None:
        change_model_settings(self._api, name, lambda _: before, then=lambda _: None, on_error=self.failed.emit)

    def _make_room(self, name: str) -> None:
        """Unload the other models that nobody has pinned, then load this one; the way back loads them again."""
        others = [
            engine.model
            for engine in self._running_models.active()
            if engine.state is EngineState.READY and not engine.is_pinned and engine.model != name
        ]
        for other in others:
            self._running_models.unload(other, lambda: None, self.failed.emit)
        self._load_model(name)  # the gateway has it wait for the room that they give back
        if others:
            self.toast_requested.emit(
                tr("Unloaded to make room: {names}.", names=", ".join(others)), partial(self._load_all, others)
            )

    def _load_all(self, names: list[str]) -> None:
        for name in names:
            self._load_model(name)
