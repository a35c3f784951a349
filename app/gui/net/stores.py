"""What the gateway knows, kept up to date here: read anew on every connection and when an event says so.

A mirror is `known` once it has been read; before that a view shows skeleton rows, and after a failure `error`.
"""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from PySide6.QtCore import QObject, Signal

from app.core.downloads import Download, DownloadState
from app.core.engines import EngineState, EngineStatus
from app.core.errors import ErrorBody
from app.core.events import DownloadChanged, DownloadRemoved, EngineChanged, Event, ModelsChanged, SettingChanged
from app.core.models import LoadModel, LoadOptions, ModelInfo, UnloadModel
from app.core.settings import SettingInfo, SettingValue
from app.gui.net.api import Failed, GatewayApi
from app.gui.shell.contract import Shell

T = TypeVar("T")
COMING_STATES = frozenset({DownloadState.QUEUED, DownloadState.RUNNING})
IDLE_STATES = frozenset({EngineState.STOPPED})
_UNCHOSEN = LoadOptions()
BUSY_STATES = frozenset({EngineState.STARTING, EngineState.LOADING, EngineState.DRAINING, EngineState.STOPPING})


class Mirror(QObject, Generic[T]):
    """A list the gateway keeps. `read` fetches it; a failure keeps what was there."""

    changed = Signal()

    def __init__(self, api: GatewayApi, shell: Shell, path: str, kind: type[list[T]]) -> None:
        super().__init__(shell)
        self.api = api
        self.items: list[T] = []
        self.is_known = False
        self.error: ErrorBody | None = None
        self._path, self._kind = path, kind
        shell.connected.connect(self.read)
        shell.happened.connect(self.take)
        if shell.is_connected:
            self.read()

    def read(self) -> None:
        """Fetch the list anew."""
        self.api.get(self._path, self._kind, self.replace, self._failed)

    def take(self, event: Event) -> None:
        """Act on an event of the gateway."""

    def replace(self, items: list[T]) -> None:
        """Take a list as the present one."""
        self.items, self.is_known, self.error = items, True, None
        self.changed.emit()

    def _failed(self, error: ErrorBody) -> None:
        self.error = error
        self.changed.emit()


class Running(Mirror[EngineStatus]):
    """Engine processes. Loading and unloading go through here."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/running", list[EngineStatus])

    def take(self, event: Event) -> None:
        """Replace the one process the event is about."""
        if isinstance(event, EngineChanged):
            others = [item for item in self.items if item.model != event.status.model]
            place = next((at for at, item in enumerate(self.items) if item.model == event.status.model), len(others))
            others.insert(place, event.status)
            self.replace(others)

    def of(self, model: str) -> EngineStatus | None:
        """Return the process that runs `model`, unless it is stopped."""
        return next((item for item in self.active() if item.model == model), None)

    def active(self) -> list[EngineStatus]:
        """Return every process that is there or should be."""
        return [item for item in self.items if item.state not in IDLE_STATES]

    def load(self, model: str, failed: Failed | None = None, options: LoadOptions = _UNCHOSEN) -> None:
        """Ask for a model; how it goes comes as events."""
        asked = LoadModel(model=model, options=options, wait=False)
        self.api.post("/load", asked, kind=EngineStatus, then=self._merge, failed=failed)

    def unload(self, model: str, then: Callable[[], object], failed: Failed | None = None) -> None:
        """Ask for a model to be unloaded once its answers are done."""

        def unloaded(status: EngineStatus) -> None:
            self._merge(status)
            then()

        self.api.post("/unload", UnloadModel(model=model), kind=EngineStatus, then=unloaded, failed=failed)

    def _merge(self, status: EngineStatus) -> None:
        self.take(EngineChanged(status=status))


class Library(Mirror[ModelInfo]):
    """Models on this machine."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/models", list[ModelInfo])

    def take(self, event: Event) -> None:
        """Read again when the list is not what it was."""
        if isinstance(event, ModelsChanged):
            self.read()


class Downloads(Mirror[Download]):
    """Downloads, in the order of the queue. `ended` carries one that was under way and is over."""

    ended = Signal(object)

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/downloads", list[Download])

    def take(self, event: Event) -> None:
        """Replace the one download the event is about."""
        if isinstance(event, DownloadRemoved):
            self.replace([item for item in self.items if item.id != event.id])
        elif isinstance(event, DownloadChanged):
            self._put(event.download)

    def under_way(self) -> list[Download]:
        """Return those that come or wait."""
        return [item for item in self.items if item.state in COMING_STATES]

    def _put(self, download: Download) -> None:
        before = next((item for item in self.items if item.id == download.id), None)
        kept = [download if item.id == download.id else item for item in self.items]
        self.replace(kept if before is not None else [*kept, download])
        was_coming = before is not None and before.state in COMING_STATES
        if was_coming and download.state in {DownloadState.DONE, DownloadState.FAILED}:
            self.ended.emit(download)


class Preferences(Mirror[SettingInfo]):
    """Every setting with its value."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/settings", list[SettingInfo])

    def take(self, event: Event) -> None:
        """Read again when one has a new value."""
        if isinstance(event, SettingChanged):
            self.read()

    def value(self, name: str, default: SettingValue) -> SettingValue:
        """Return a setting's value, or `default` while nothing is known."""
        return next((item.value for item in self.items if item.name == name), default)

    def change(self, name: str, value: SettingValue | None, failed: Failed | None = None) -> None:
        """Set, or with None reset, one setting."""
        self.change_all({name: value}, failed=failed)

    def change_all(
        self,
        values: Mapping[str, SettingValue | None],
        *,
        then: Callable[[], object] | None = None,
        failed: Failed | None = None,
    ) -> None:
        """Set several at once: all of them or none."""

        def answered(items: list[SettingInfo]) -> None:
            self._answered(items)
            if then is not None:
                then()

        self.api.patch("/settings", dict(values), kind=list[SettingInfo], then=answered, failed=failed)

    def _answered(self, items: list[SettingInfo]) -> None:
        # The reply may hold only what changed: what it lacks stays as it was.
        new = {item.name: item for item in items}
        known = {item.name for item in self.items}
        merged = [new.get(item.name, item) for item in self.items]
        self.replace([*merged, *(item for item in items if item.name not in known)])
