"""What may mend a failed load: once, from now on without asking, and back again.

What is done without asking is a setting for each kind of remedy; which kinds there are is read from the settings.
"""

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, Signal

from app.core.engines import EngineState, EngineStatus, FailureReport, RemedyOffer
from app.gui.net.api import GatewayApi
from app.gui.net.mirror import Preferences, Running
from app.gui.shell.contract import Page, Shell

_SETTING = "engine.mend_"
FREE_MEMORY = "free_memory"
WAYS = {
    "download_again": Page.MODELS,
    "free_disk": Page.MODELS,
    "install_again": Page.ENGINES,
    "other_model": Page.MODELS,
    "other_runtime": Page.ENGINES,
    "sign_in": Page.SETTINGS,
    "smaller_model": Page.MODELS,
    "update_driver": Page.MACHINE,
    "update_engine": Page.ENGINES,
}
"""Where a person does what cannot be done for them."""
WAYS_SHOWN = 2


class Mending(QObject):
    """Remedies of the models in `running`. `said` carries a sentence and the way back from what it tells of."""

    changed = Signal()
    said = Signal(str, object)
    failed = Signal(object)

    def __init__(self, api: GatewayApi, shell: Shell, running: Running) -> None:
        super().__init__(shell)
        self._shell, self._running = shell, running
        self._settings = Preferences(api, shell)
        self._told: set[tuple[str, float | None]] | None = None
        self._settings.changed.connect(self.changed)
        running.changed.connect(self._tell)

    def ways(self, failure: FailureReport) -> list[RemedyOffer]:
        """Return the remedies that lead somewhere else, the most promising of each place."""
        firsts: dict[object, RemedyOffer] = {}
        for offer in failure.remedies:
            if offer.kind in WAYS or offer.kind == FREE_MEMORY:
                firsts.setdefault(WAYS.get(offer.kind), offer)
        return list(firsts.values())[:WAYS_SHOWN]

    def go(self, name: str, offer: RemedyOffer) -> None:
        """Do what a remedy says, or show the page where a person does it."""
        if offer.kind == FREE_MEMORY:
            self._make_room(name)
        else:
            self._shell.show_page(WAYS[offer.kind])

    def can_be_left(self, failure: FailureReport) -> bool:
        """Tell whether something that may help can be done without asking."""
        return bool(self._settings_for(failure))

    def is_left(self, failure: FailureReport) -> bool:
        """Tell whether all of that is done without asking already."""
        names = self._settings_for(failure)
        return bool(names) and all(self._settings.value(name, default=False) for name in names)

    def leave(self, name: str, failure: FailureReport, *, is_left: bool) -> None:
        """Have what may help done without asking from now on, this time too; or no longer."""
        self._set(self._settings_for(failure), is_on=is_left, then=partial(self._load, name) if is_left else None)

    def undo(self, status: EngineStatus) -> None:
        """Do no longer without asking what was done to this model, and load it as it was asked for."""
        names = [_SETTING + applied.kind for applied in status.mended]
        again = partial(self._load, status.model)
        self._set(names, is_on=False, then=lambda: self._running.unload(status.model, again, self.failed.emit))

    def _settings_for(self, failure: FailureReport) -> list[str]:
        known = {item.name for item in self._settings.items}
        return [name for offer in failure.remedies if (name := _SETTING + offer.kind) in known]

    def _set(self, names: list[str], *, is_on: bool, then: Callable[[], object] | None = None) -> None:
        self._settings.change_all(dict.fromkeys(names, is_on), then=then, failed=self.failed.emit)

    def _load(self, name: str) -> None:
        self._running.load(name, self.failed.emit)

    def _make_room(self, name: str) -> None:
        """Unload the other models that nobody has pinned, then load this one; the way back loads them again."""
        others = [
            one.model
            for one in self._running.active()
            if one.state is EngineState.READY and not one.is_pinned and one.model != name
        ]
        for other in others:
            self._running.unload(other, lambda: None, self.failed.emit)
        self._load(name)  # the gateway has it wait for the room that they give back
        if others:
            self.said.emit(f"{', '.join(others)} made room.", partial(self._load_all, others))

    def _load_all(self, names: list[str]) -> None:
        for name in names:
            self._load(name)

    def _tell(self) -> None:
        """Say once of each load what was changed about it; what was so before the window came is not news."""
        mended = [one for one in self._running.items if one.mended and one.state is EngineState.READY]
        if self._told is not None:
            for status in mended:
                if (status.model, status.loaded_at) not in self._told:
                    sentence = " ".join(applied.sentence for applied in status.mended[-1:])
                    self.said.emit(f"{status.model}: {sentence}", partial(self.undo, status))
        self._told = (self._told or set()) | {(one.model, one.loaded_at) for one in mended}
