"""Whether the hub has newer files of the models here: asked when somebody wants to know, and kept for this window."""

from PySide6.QtCore import QObject, Signal

from app.core import words
from app.core.errors import ErrorBody
from app.core.events import Event, ModelsChanged
from app.core.library import Freshness, ModelUpdate
from app.core.translation import tr, tr_plural
from app.gui.net.api import GatewayApi
from app.gui.shell.contract import Shell


class ModelUpdates(QObject):
    """What the hub said, by model. `toast_requested` is a sentence, with no way back."""

    changed = Signal()
    download_requested = Signal(str, str)
    """Newer files are to be fetched: the model as one asks for it, and its quantisation."""
    toast_requested = Signal(str, object)
    failed = Signal(object)

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(shell)
        self._api = api
        self._updates: dict[str, ModelUpdate] = {}
        self._pending_models: set[str] = set()
        """Models whose newer files are on their way."""
        self.is_checking = False
        shell.event_received.connect(self.handle_event)

    def check_hub(self) -> None:
        """Ask the hub about every model that came from it."""
        if self.is_checking:
            return
        self.is_checking = True
        self.changed.emit()
        self._api.get("/library/updates", list[ModelUpdate], self._set_updates, self._report_error)

    def newer_version(self, model: str) -> ModelUpdate | None:
        """Return what is newer of a model on the hub; None where nothing is known to be, or it is on its way."""
        update = self._updates.get(model)
        is_newer = update is not None and update.state is Freshness.NEWER and model not in self._pending_models
        return update if is_newer else None

    def request_update(self, update: ModelUpdate) -> None:
        """Fetch the newer files; what is here stays beside them."""
        name = update.repository if update.revision == "main" else f"{update.repository}@{update.revision}"
        self._pending_models.add(update.model)
        self.changed.emit()
        self.download_requested.emit(name, update.quantization)

    def restore_offers(self) -> None:
        """Offer again what could not be fetched."""
        if self._pending_models:
            self._pending_models.clear()
            self.changed.emit()

    def handle_event(self, event: Event) -> None:
        """Forget what was said of a model that is fetched: once other files are here it is no longer so."""
        if isinstance(event, ModelsChanged) and self._pending_models:
            self._updates = {
                model: update for model, update in self._updates.items() if model not in self._pending_models
            }
            self._pending_models.clear()

    def _set_updates(self, updates: list[ModelUpdate]) -> None:
        self.is_checking = False
        self._updates, self._pending_models = {update.model: update for update in updates}, set()
        self.changed.emit()
        self.toast_requested.emit(check_sentence(updates), None)

    def _report_error(self, error: ErrorBody) -> None:
        self.is_checking = False
        self.changed.emit()
        self.failed.emit(error)


def check_sentence(updates: list[ModelUpdate]) -> str:
    """Return what the hub said, in a sentence."""
    if not updates:
        return tr("None of your models came from a hub.")
    newer = [update for update in updates if update.state is Freshness.NEWER]
    unknown = sum(update.state is Freshness.UNKNOWN for update in updates)
    sentence = tr("No model has newer files on the hub.")
    if newer:
        sentence = tr_plural(
            "{count} model has newer files on the hub.", "{count} models have newer files on the hub.", len(newer)
        )
    if not unknown:
        return sentence
    rest = tr_plural("{count} model could not be checked.", "{count} models could not be checked.", unknown)
    return f"{sentence} {rest}"


def update_offer(update: ModelUpdate) -> str:
    """Return what an update would fetch."""
    files = tr_plural("{count} file", "{count} files", len(update.files))
    size = words.format_bytes(update.download_bytes)
    newer = tr("Newer on the hub: {files}, {size}.", files=files, size=size)
    if update.modified:
        day = update.modified[:10]
        newer = tr("Newer on the hub since {day}: {files}, {size}.", day=day, files=files, size=size)
    return f"{newer} {tr('Your files stay until you remove them.')}"
