"""What several views of the window show, each once in a window: views are handed the stores and make none of these.

What a single page shows is made by that page, from the same `RemoteStore`.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import msgspec
from PySide6.QtCore import Signal

from app.core.api import SettingInfo, SettingValue, Status
from app.core.documents import Collection
from app.core.downloads import Download, DownloadState
from app.core.engines import EngineState, EngineStatus
from app.core.events import (
    CollectionsChanged,
    DownloadChanged,
    DownloadRemoved,
    EngineChanged,
    Event,
    McpServersChanged,
    ModelsChanged,
    SettingChanged,
)
from app.core.mcp import McpServer
from app.core.models import LoadModel, LoadOptions, ModelInfo, UnloadModel
from app.core.translation import tr_source
from app.gui.net.api import ErrorHandler, GatewayApi
from app.gui.net.app_updates import UpdateStore
from app.gui.net.machines import MachineListStore
from app.gui.net.pause import PauseStore
from app.gui.net.profiles import ProfileListStore
from app.gui.net.remote import RemoteList, RemoteStore
from app.gui.shell.contract import Shell

COMING_STATES = frozenset({DownloadState.QUEUED, DownloadState.RUNNING})
IDLE_STATES = frozenset({EngineState.STOPPED})
_UNCHOSEN = LoadOptions()
BUSY_STATES = frozenset({EngineState.STARTING, EngineState.LOADING, EngineState.DRAINING, EngineState.STOPPING})


class RunningStore(RemoteList[EngineStatus]):
    """Engine processes. Loading and unloading go through here."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/running", list[EngineStatus])

    def apply(self, event: Event) -> None:
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

    def load(self, model: str, on_error: ErrorHandler | None = None, options: LoadOptions = _UNCHOSEN) -> None:
        """Ask for a model; how it goes comes as events."""
        body = LoadModel(model=model, options=options, wait=False)
        self.api.post("/load", body, kind=EngineStatus, then=self._merge, on_error=on_error)

    def unload(self, model: str, then: Callable[[], object], on_error: ErrorHandler | None = None) -> None:
        """Ask for a model to be unloaded once its answers are done."""

        def finish_unload(status: EngineStatus) -> None:
            self._merge(status)
            then()

        self.api.post("/unload", UnloadModel(model=model), kind=EngineStatus, then=finish_unload, on_error=on_error)

    def _merge(self, status: EngineStatus) -> None:
        self.take(EngineChanged(status=status))


class LibraryStore(RemoteList[ModelInfo]):
    """Models on this machine."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/models", list[ModelInfo])

    def is_outdated_by(self, event: Event) -> bool:
        """Tell whether the list is not what it was."""
        return isinstance(event, ModelsChanged)


class DownloadStore(RemoteList[Download]):
    """Downloads, in the order of the queue. `ended` carries one that was under way and is over."""

    ended = Signal(object)

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/downloads", list[Download])

    def apply(self, event: Event) -> None:
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
        kept_downloads = [download if item.id == download.id else item for item in self.items]
        self.replace(kept_downloads if before is not None else [*kept_downloads, download])
        was_coming = before is not None and before.state in COMING_STATES
        if was_coming and download.state in {DownloadState.DONE, DownloadState.FAILED}:
            self.ended.emit(download)


class PreferenceStore(RemoteList[SettingInfo]):
    """Every setting with its value."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/settings", list[SettingInfo])

    def is_outdated_by(self, event: Event) -> bool:
        """Tell whether a setting has a new value."""
        return isinstance(event, SettingChanged)

    def get(self, name: str, default: SettingValue) -> SettingValue:
        """Return a setting's value, or `default` while nothing is known."""
        return next((item.value for item in self.items if item.name == name), default)

    def find_choice(self, name: str) -> SettingValue | None:
        """Return the value that somebody set; None for a setting as it came, or while nothing is known."""
        return next((item.value for item in self.items if item.name == name and item.source != "default"), None)

    def change(self, name: str, value: SettingValue | None, on_error: ErrorHandler | None = None) -> None:
        """Set, or with None reset, one setting."""
        self.change_all({name: value}, on_error=on_error)

    def change_all(
        self,
        values: Mapping[str, SettingValue | None],
        *,
        then: Callable[[], object] | None = None,
        on_error: ErrorHandler | None = None,
    ) -> None:
        """Set several at once: all of them or none."""

        def finish_change(items: list[SettingInfo]) -> None:
            self._merge([_translate_setting(item) for item in items])
            if then is not None:
                then()

        self.api.patch("/settings", dict(values), kind=list[SettingInfo], then=finish_change, on_error=on_error)

    def _take_answer(self, value: list[SettingInfo]) -> None:
        super()._take_answer([_translate_setting(item) for item in value])

    def _merge(self, items: list[SettingInfo]) -> None:
        # The reply may hold only what changed: what it lacks stays as it was.
        new = {item.name: item for item in items}
        known_names = {item.name for item in self.items}
        merged_items = [new.get(item.name, item) for item in self.items]
        self.replace([*merged_items, *(item for item in items if item.name not in known_names)])


def _translate_setting(info: SettingInfo) -> SettingInfo:
    """Say in the window's language what the gateway says in English: both have it from one table."""
    return msgspec.structs.replace(info, title=tr_source(info.title), help=tr_source(info.help))


class ToolServerStore(RemoteList[McpServer]):
    """The MCP servers, by name."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/mcp/servers", list[McpServer])

    def is_outdated_by(self, event: Event) -> bool:
        """Tell whether a server is not what it was."""
        return isinstance(event, McpServersChanged)


class CollectionStore(RemoteList[Collection]):
    """The collections of documents, by name."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/collections", list[Collection])

    def is_outdated_by(self, event: Event) -> bool:
        """Tell whether a collection is not what it was."""
        return isinstance(event, CollectionsChanged)


class Stores:
    """The stores of one window, and the gateway that they are about."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        self.api, self._shell = api, shell
        self.running = RunningStore(api, shell)
        self.library = LibraryStore(api, shell)
        self.preferences = PreferenceStore(api, shell)
        self.downloads = DownloadStore(api, shell)
        self.paused = PauseStore(api, shell)
        self.updates = UpdateStore(api, shell)

    @cached_property
    def tool_servers(self) -> ToolServerStore:
        """The servers of tools; read once a view shows them."""
        return ToolServerStore(self.api, self._shell)

    @cached_property
    def profiles(self) -> ProfileListStore:
        """The profiles; read once a view or the tray shows them."""
        return ProfileListStore(self.api, self._shell)

    @cached_property
    def machines(self) -> MachineListStore:
        """The paired computers; read once a view shows them."""
        return MachineListStore(self.api, self._shell)

    @cached_property
    def collections(self) -> CollectionStore:
        """The collections of documents; read once a view shows them."""
        return CollectionStore(self.api, self._shell)

    @cached_property
    def status(self) -> RemoteStore[Status]:
        """The gateway about itself; read once a view shows it."""
        return RemoteStore(self.api, self._shell, "/status", Status)

    def retry(self) -> None:
        """Read again what could not be read last."""
        stores: list[RemoteStore[Any]] = [self.running, self.library, self.preferences, self.downloads]
        for store in stores:
            if store.error is not None and self._shell.is_connected:
                store.read()
