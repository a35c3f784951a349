"""Whether the hub has newer files of the models here: asked when somebody wants to know, and kept for this window."""

from PySide6.QtCore import QObject, Signal

from app.core import words
from app.core.errors import ErrorBody
from app.core.events import Event, ModelsChanged
from app.core.library import Freshness, ModelUpdate
from app.gui.net.api import GatewayApi
from app.gui.shell.contract import Shell


class Updates(QObject):
    """What the hub said, by model. `said` is a sentence, with no way back."""

    changed = Signal()
    wanted = Signal(str, str)
    """Newer files are to be fetched: the model as one asks for it, and its quantisation."""
    said = Signal(str, object)
    failed = Signal(object)

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(shell)
        self._api = api
        self._known: dict[str, ModelUpdate] = {}
        self._begun: set[str] = set()
        """Models whose newer files are on their way."""
        self.is_asking = False
        shell.happened.connect(self.take)

    def check(self) -> None:
        """Ask the hub about every model that came from it."""
        if self.is_asking:
            return
        self.is_asking = True
        self.changed.emit()
        self._api.get("/library/updates", list[ModelUpdate], self._take, self._failed)

    def newer(self, model: str) -> ModelUpdate | None:
        """Return what is newer of a model on the hub; None where nothing is known to be, or it is on its way."""
        known = self._known.get(model)
        is_newer = known is not None and known.state is Freshness.NEWER and model not in self._begun
        return known if is_newer else None

    def update(self, update: ModelUpdate) -> None:
        """Fetch the newer files; what is here stays beside them."""
        name = update.repository if update.revision == "main" else f"{update.repository}@{update.revision}"
        self._begun.add(update.model)
        self.changed.emit()
        self.wanted.emit(name, update.quantization)

    def refused(self) -> None:
        """Offer again what could not be fetched."""
        if self._begun:
            self._begun.clear()
            self.changed.emit()

    def take(self, event: Event) -> None:
        """Forget what was said of a model that is fetched: once other files are here it is no longer so."""
        if isinstance(event, ModelsChanged) and self._begun:
            self._known = {model: one for model, one in self._known.items() if model not in self._begun}
            self._begun.clear()

    def _take(self, found: list[ModelUpdate]) -> None:
        self.is_asking = False
        self._known, self._begun = {one.model: one for one in found}, set()
        self.changed.emit()
        self.said.emit(told(found), None)

    def _failed(self, error: ErrorBody) -> None:
        self.is_asking = False
        self.changed.emit()
        self.failed.emit(error)


def told(found: list[ModelUpdate]) -> str:
    """Return what the hub said, in a sentence."""
    if not found:
        return "None of your models came from a hub."
    newer = [one for one in found if one.state is Freshness.NEWER]
    unknown = sum(one.state is Freshness.UNKNOWN for one in found)
    rest = f" For {unknown}, it is not known." if unknown else ""
    if not newer:
        return f"No model has newer files on the hub.{rest}"
    count = "1 model has" if len(newer) == 1 else f"{len(newer)} models have"
    return f"{count} newer files on the hub.{rest}"


def offer(update: ModelUpdate) -> str:
    """Return what an update would fetch."""
    day = f", of {update.modified[:10]}" if update.modified else ""
    files = "1 file" if len(update.files) == 1 else f"{len(update.files)} files"
    return (
        f"Newer on the hub: {files}, {words.size(update.download_bytes)}{day}. Your files stay until you remove them."
    )
