"""What an empty field of the sampling panel means: what is set for the model, what it recommends, the engine's own."""

from collections.abc import Mapping

from PySide6.QtCore import QObject, Signal

from app.client.http import quote_segment
from app.core.events import Event, SettingChanged
from app.core.models import ModelChoices, ModelSampling
from app.gui import phrases
from app.gui.net.api import GatewayApi


class DefaultSampling(QObject):
    """Asked for when the panel is opened, and anew once something is set for a model."""

    changed = Signal()

    def __init__(self, api: GatewayApi, parent: QObject) -> None:
        super().__init__(parent)
        self._api = api
        self._model = ""
        self._choices: ModelChoices | None = None

    def fetch_for(self, model: str) -> None:
        """Have it told for a model, unless it is known."""
        if model and model != self._model:
            self._model, self._choices = model, None
            self.changed.emit()
            self._api.get(
                f"/model-settings/{quote_segment(model)}", ModelChoices, self._set_choices, self._forget_model
            )

    def handle_event(self, event: Event) -> None:
        """Forget what was set before."""
        if isinstance(event, SettingChanged) and event.name.startswith("model."):
            self._model = ""

    def field_words(self) -> Mapping[str, str]:
        """Return what stands in the empty fields, by the choice's name."""
        choices = self._choices
        return {} if choices is None else {name: _words_for(choices, name) for name in ModelSampling.__struct_fields__}

    def _set_choices(self, choices: ModelChoices) -> None:
        self._choices = choices
        self.changed.emit()

    def _forget_model(self, _error: object) -> None:
        """Leave the fields as they are: they say nothing that is wrong."""
        self._model = ""


def _words_for(choices: ModelChoices, name: str) -> str:
    own = getattr(choices.settings.sampling, name)
    return phrases.sampling_placeholder(choices, name) if own is None else f"{own:g} as set"
