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
from app.core.engines import EngineState, EngineStatus, Pause
from app.core.errors import ErrorBody
from app.core.events import (
    CollectionsChanged,
    DownloadChanged,
    DownloadRemoved,
    EngineChanged,
    Event,
    MachinesChanged,
    McpServersChanged,
    ModelsChanged,
    PauseChanged,
    ProfilesChanged,
    SettingChanged,
)
from app.core.machines import MachineList
from app.core.mcp import McpServer
from app.core.models import LoadModel, LoadOptions, ModelInfo, UnloadModel
from app.core.profiles import ProfileList, ProfilePlan, UseProfile
from app.core.translation import tr, tr_source
from app.gui.net.api import ErrorHandler, GatewayApi
from app.gui.net.app_updates import UpdateStore
from app.gui.net.remote import RemoteList, RemoteStore
from app.gui.shell.contract import Shell

COMING_STATES = frozenset({DownloadState.QUEUED, DownloadState.RUNNING})
IDLE_STATES = frozenset({EngineState.STOPPED})
_UNCHOSEN = LoadOptions()
BUSY_STATES = frozenset({EngineState.STARTING, EngineState.LOADING, EngineState.DRAINING, EngineState.STOPPING})
_NO_PAUSE, _NO_PROFILES = Pause(), ProfileList()


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


class MachineListStore(RemoteStore[MachineList]):
    """The paired computers, what they have, and how they stand."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/machines", MachineList)

    def is_outdated_by(self, event: Event) -> bool:
        """Tell whether a computer, or what is known of it, is not what it was."""
        return isinstance(event, MachinesChanged)


class PauseStore(RemoteStore[Pause]):
    """Follows the gateway's pause; a gateway that is gone is not paused."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/pause", Pause)
        self._shell = shell
        shell.disconnected.connect(lambda _error: self.replace(_NO_PAUSE))

    @property
    def state(self) -> Pause:
        """How it stands."""
        return self.value or _NO_PAUSE

    def pause(self) -> None:
        """Have all memory given back."""
        self.api.post("/pause", None, kind=Pause, then=self.replace, on_error=self._show_error)

    def resume(self) -> None:
        """Go on; what was loaded comes back."""
        self.api.delete("/pause", lambda: self.replace(_NO_PAUSE), self._show_error)

    def toggle(self) -> None:
        """Do the one of both that makes sense."""
        if self.state.is_paused:
            self.resume()
        else:
            self.pause()

    def replace(self, value: Pause) -> None:
        """Take a state as the present one; one that is no other is not news."""
        if value != self.state:
            super().replace(value)

    def apply(self, event: Event) -> None:
        """Follow a pause that was begun or ended anywhere."""
        if isinstance(event, PauseChanged):
            self.replace(event.pause)

    def _show_error(self, error: ErrorBody) -> None:
        self._shell.show_toast(error.sentence)


class ProfileListStore(RemoteStore[ProfileList]):
    """Every profile, which is active, and the next switch."""

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(api, shell, "/profiles", ProfileList)
        self._shell = shell

    @property
    def state(self) -> ProfileList:
        """How it stands."""
        return self.value or _NO_PROFILES

    def is_outdated_by(self, event: Event) -> bool:
        """Tell whether a profile, or which is active, is not what it was."""
        return isinstance(event, ProfilesChanged)

    def use_profile(self, name: str) -> None:
        """Make a profile the active one, or with an empty name none."""
        self.api.post(
            "/profile/use", UseProfile(name=name), kind=ProfilePlan, then=self._finish_switch, on_error=self._show_error
        )

    def undo_switch(self) -> None:
        """Take the last switch back."""
        self.api.post(
            "/profile/undo", None, kind=ProfilePlan, then=lambda _plan: self.read(), on_error=self._show_error
        )

    def _finish_switch(self, plan: ProfilePlan) -> None:
        self.read()
        sentence = tr("{name} is active now", name=plan.profile) if plan.profile else tr("No profile is active now")
        self._shell.show_toast(sentence, self.undo_switch)

    def _show_error(self, error: ErrorBody) -> None:
        self._shell.show_toast(error.sentence)


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
