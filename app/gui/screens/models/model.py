"""State of the models page: the library joined with what runs, and the ways to add to it."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import msgspec
from PySide6.QtCore import QObject, Signal

from app.client.http import quote_segment
from app.core import words
from app.core.engines import EngineState, EngineStatus
from app.core.errors import ErrorBody
from app.core.library import Drive, ModelUpdate
from app.core.models import AttachEndpoint, CorrectAttached, MakeModel, ModelInfo, RegisterModel
from app.core.translation import tr, tr_plural
from app.gui import phrases
from app.gui.net.remote_lists import BUSY_STATES, Stores
from app.gui.screens.models import disk
from app.gui.screens.models.disk import DiskStore
from app.gui.screens.models.library_jobs import LibraryJobsModel
from app.gui.screens.models.memory_model import MemoryModel
from app.gui.screens.models.model_files import ModelFiles
from app.gui.screens.models.model_settings import ModelSettingsModel
from app.gui.screens.models.model_updates import ModelUpdates
from app.gui.shell.contract import Command, Shell

_FEW = 8
"""From this many models on, a search field is worth its place."""


class ModelsSide(StrEnum):
    """What of the page is shown: the models here, what they take of the disks, or what the hub has."""

    HERE = "here"
    DISK = "disk"
    HUB = "hub"


class ModelRow(msgspec.Struct, frozen=True):
    """One model and the engine that runs it, if one does; `newer` is what the hub has newer of it."""

    model: ModelInfo
    status: EngineStatus | None
    is_pinned: bool = False
    newer: ModelUpdate | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether it can answer now."""
        return self.status is not None and self.status.state is EngineState.READY

    @property
    def is_busy(self) -> bool:
        """Whether it is on its way to another state."""
        return self.status is not None and self.status.state in BUSY_STATES

    @property
    def has_failed(self) -> bool:
        """Whether its engine ended by itself."""
        return self.status is not None and self.status.state is EngineState.FAILED


class ModelsModel(QObject):
    """Everything the page shows. `toast_requested` is a sentence in passing with a way back, or None."""

    changed = Signal()
    toast_requested = Signal(str, object)
    failed = Signal(object)
    settled = Signal()
    """Something worked: what failed before needs no more saying."""
    endpoint_attached = Signal()
    """The endpoint that was to be attached is."""
    correction_requested = Signal(object)
    """A person wants to say what an attached model can do."""
    attach_requested = Signal(str, str)
    """An endpoint is to be attached (again): its address and the model's name."""

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(shell)
        api = self._api = stores.api
        self._shell = shell
        self.library, self.running, self.preferences = stores.library, stores.running, stores.preferences
        self.memory = MemoryModel(api, shell)
        self.files = ModelFiles(api, shell)
        self.model_settings = ModelSettingsModel(stores, shell)
        self.jobs = LibraryJobsModel(api, shell)
        self.disk = DiskStore(api, shell)
        self.updates = ModelUpdates(api, shell)
        self.search = ""
        self.is_attaching = False
        self.jobs.files_changed.connect(self.disk.refresh)
        for part in (self.files, self.jobs, self.updates):
            part.toast_requested.connect(self.toast_requested)
            part.failed.connect(self.failed)
        self.model_settings.toast_requested.connect(self.toast_requested)
        self.updates.changed.connect(self.changed)
        self.library.changed.connect(self.changed)
        self.memory.changed.connect(self.changed)
        self.running.changed.connect(self.changed)

    @property
    def error(self) -> ErrorBody | None:
        """Why the library could not be read."""
        return self.library.error

    @property
    def wants_search(self) -> bool:
        """Whether there are enough models to look among."""
        return len(self.library.items) >= _FEW

    @property
    def summary(self) -> str:
        """How many models there are, and what they take on disk."""
        items = self.library.items
        if not items:
            return ""
        count = tr_plural("{count} model", "{count} models", len(items))
        return f"{count}, {words.format_bytes(sum(model.size_bytes for model in items))}"

    def list_rows(self) -> list[ModelRow]:
        """Return the models that fit the search: usable ones first, then by title."""
        search_words = self.search.casefold().split()
        rows = [
            ModelRow(
                model,
                self.running.of(model.runs_as),
                self.memory.is_pinned(model.runs_as),
                self.updates.newer_version(model.name),
            )
            for model in self.library.items
            if all(word in f"{model.title} {model.name} {model.quantization}".casefold() for word in search_words)
        ]
        return sorted(rows, key=lambda row: (bool(row.model.problem), phrases.model_title(row.model).casefold()))

    def set_search(self, text: str) -> None:
        """Show only models whose title, name or quantisation has every word of `text`."""
        self.search = text
        self.changed.emit()

    def load_model(self, name: str) -> None:
        """Ask for a model; how it goes shows in its row."""
        self.running.load(name, self.failed.emit)

    def unload_model(self, name: str) -> None:
        """Unload a model; it can be loaded again by Undo."""
        self.running.unload(
            name,
            lambda: self.toast_requested.emit(tr("{name} was unloaded.", name=name), lambda: self.load_model(name)),
            self.failed.emit,
        )

    def set_pinned(self, model: ModelInfo, *, is_pinned: bool) -> None:
        """Keep a model loaded, or let it make room again; Undo takes it back."""
        self.memory.set_pinned(model.runs_as, self.failed.emit, is_pinned=is_pinned)
        message = (
            tr("{model} stays loaded from now on.", model=model.title)
            if is_pinned
            else tr("{model} can be unloaded again.", model=model.title)
        )
        self.toast_requested.emit(message, lambda: self.set_pinned(model, is_pinned=not is_pinned))

    def register_file(self, path: Path) -> None:
        """List a model file where it lies."""

        def finish_register(model: ModelInfo) -> None:
            self.settled.emit()
            self.toast_requested.emit(tr("{title} was added.", title=model.title), lambda: self._forget_now(model.name))

        def report_error(error: ErrorBody) -> None:
            sentence = f"{tr('{name} was not added.', name=path.name)} {error.sentence}"
            self.failed.emit(msgspec.structs.replace(error, sentence=sentence))

        body = RegisterModel(path=str(path))
        self._api.post("/models", body, kind=ModelInfo, then=finish_register, on_error=report_error)

    def forget_model(self, model: ModelInfo) -> None:
        """Take a model off the list and leave its file alone; Undo lists it again."""

        def finish_forget() -> None:
            self.toast_requested.emit(
                tr("{title} was removed from the list.", title=model.title), self._way_back(model)
            )

        self._api.delete(f"/models/{quote_segment(model.name)}", finish_forget, self.failed.emit)

    def attach_endpoint(self, endpoint: AttachEndpoint) -> None:
        """Put an endpoint's models behind this one."""

        def finish_attach(models: list[ModelInfo]) -> None:
            self.is_attaching = False
            self.settled.emit()
            self.endpoint_attached.emit()
            names = models[0].title if len(models) == 1 else tr_plural("{count} model", "{count} models", len(models))
            self.toast_requested.emit(tr("Attached: {names}.", names=names), lambda: self._forget_all(models))

        def report_error(error: ErrorBody) -> None:
            self.is_attaching = False
            self.changed.emit()
            self.failed.emit(error)

        self.is_attaching = True
        self.changed.emit()
        self._api.post("/attached", endpoint, kind=list[ModelInfo], then=finish_attach, on_error=report_error)

    def correct_attached(self, name: str, correction: CorrectAttached) -> None:
        """Keep what a person says of an attached model; its endpoint is asked anew for the rest."""

        def finish_correction(model: ModelInfo) -> None:
            self.endpoint_attached.emit()
            self.toast_requested.emit(f"{model.title}: {words.format_capabilities(model.capabilities)}.", None)

        self._api.patch(
            f"/attached/{quote_segment(name)}",
            correction,
            kind=ModelInfo,
            then=finish_correction,
            on_error=self.failed.emit,
        )

    def _way_back(self, model: ModelInfo) -> Callable[[], object] | None:
        """Return what lists a model again that was taken off the list; None if nothing can."""
        if model.attached and model.preset is None:
            return lambda: self.attach_requested.emit(model.attached, model.name)  # its key is gone, so it is asked for
        if model.preset is None:
            return lambda: self.register_file(Path(model.path))
        if not model.preset.base:
            return None
        again = MakeModel(name=model.name, base=model.preset.base, preset=model.preset)
        return lambda: self._api.post("/made", again, kind=ModelInfo, then=lambda _: None, on_error=self.failed.emit)

    def add_folder(self, folder: Path) -> None:
        """Look through one more folder for models from now on."""
        folders = self._folders_without(folder)

        def report_folder(problem: str) -> None:
            if problem:
                sentence = f"{tr('{name} was added, but cannot be searched now.', name=folder.name)} {problem}"
                self.failed.emit(ErrorBody(code="folder_unreadable", sentence=sentence))
            else:
                message = tr("{name} is now searched for models.", name=folder.name)
                self.toast_requested.emit(message, lambda: self._set_folders(folders))

        self._set_folders([*folders, str(folder)], then=lambda: self.disk.look(folder, report_folder))

    def remove_folder(self, folder: Path) -> None:
        """Look through a folder no longer; what is in it stays where it is. Undo takes it in again."""
        before = self.preferences.get("models.folders", [])
        self._set_folders(self._folders_without(folder))
        again = before if isinstance(before, list) else []
        message = tr("{name} is no longer searched. Its files stay where they are.", name=folder.name)
        self.toast_requested.emit(message, lambda: self._set_folders(again))

    def empty_trash(self, drive: Drive) -> None:
        """Delete removed models from a drive's trash for good, if a person says so when asked."""
        trash_contents = drive.trashed
        if trash_contents is not None:
            command = Command(disk.trash_action(trash_contents), lambda: self.jobs.empty_trash(trash_contents.digest))
            self._shell.confirm(
                tr("Delete removed models permanently?"), disk.trash_warning(drive, trash_contents), command
            )

    def _folders_without(self, folder: Path) -> list[str]:
        """Return the folders that are set, but this one, however it is written there."""
        before = self.preferences.get("models.folders", [])
        return [item for item in before if Path(item).expanduser() != folder] if isinstance(before, list) else []

    def _set_folders(self, folders: list[str], then: Callable[[], object] = lambda: None) -> None:
        self.preferences.change_all({"models.folders": folders}, then=then, on_error=self.failed.emit)

    def _forget_all(self, models: list[ModelInfo]) -> None:
        for model in models:
            self._forget_now(model.name)

    def _forget_now(self, name: str) -> None:
        self._api.delete(f"/models/{quote_segment(name)}", lambda: None, self.failed.emit)


def problem_of(row: ModelRow) -> str:
    """Return why a model cannot answer: what is the matter with its file, or how its engine failed."""
    failure = row.status.failure if row.status is not None and row.has_failed else None
    return row.model.problem or (failure.sentence if failure is not None else "")


def buttons_of(row: ModelRow) -> tuple[str, ...]:
    """Return what can be done with a model now: some of "update", "chat", "load", "unload", "again"."""
    if row.model.problem:
        return ()
    if row.has_failed:
        return ("again",)
    chat = ("chat",) if row.model.chats else ()
    update = ("update",) if row.newer is not None else ()
    return (*update, *chat, "unload" if row.is_loaded or row.is_busy else "load")
