"""State of the server page: the endpoint, how to use it, and what runs behind it."""

from enum import StrEnum

import msgspec
from PySide6.QtCore import QObject, Signal

from app.core.api import GUIDE, Status
from app.core.engines import EngineState, EngineStatus, RemedyOffer
from app.core.models import LoadOptions
from app.core.translation import LazyText, tr
from app.gui.net.remote_lists import Stores
from app.gui.screens.server.auto_remedy_model import AutoRemedyModel
from app.gui.shell.contract import Shell


class SnippetKind(StrEnum):
    """Ways to use the endpoint that come with a snippet."""

    CURL = "curl"
    PYTHON = "Python"
    EDITOR = "editor"


_REACH = {
    (False, False): LazyText("Only this computer can reach it, and no key is needed."),
    (False, True): LazyText("Only this computer can reach it, and every program needs a key."),
    (True, False): LazyText("Other computers can reach it, and no key is needed."),
    (True, True): LazyText("Other computers can reach it, and every program needs a key."),
}
"""Of the endpoint: whether it is open to other computers, and whether it asks for keys."""
_YOURS = "YOUR-KEY"
"""Stands for a key: the window does not know any."""
_KEY_HEADER = f"\n  -H 'Authorization: Bearer {_YOURS}' \\"
_SNIPPETS = {
    SnippetKind.CURL: """curl {base}/chat/completions \\{header}
  -H 'Content-Type: application/json' \\
  -d '{{"model": "{model}", "messages": [{{"role": "user", "content": "Hello"}}]}}'""",
    SnippetKind.PYTHON: """from openai import OpenAI

client = OpenAI(base_url="{base}", api_key="{key}")
answer = client.chat.completions.create(
    model="{model}", messages=[{{"role": "user", "content": "Hello"}}]
)
print(answer.choices[0].message.content)""",
    SnippetKind.EDITOR: """# Continue, config.yaml; other editors ask for the same three values
models:
  - name: {model}
    provider: openai
    model: {model}
    apiBase: {base}
    apiKey: {key}""",
}


class ServerModel(QObject):
    """Everything above the log."""

    changed = Signal()
    toast_requested = Signal(str, object)
    failed = Signal(object)
    log_requested = Signal(str)
    """Show what the engine of this model wrote."""

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(shell)
        self._api, self._shell, self._status = stores.api, shell, stores.status
        self._library = stores.library
        self.running, self.paused = stores.running, stores.paused
        self.auto_remedy = AutoRemedyModel(stores, shell)
        for source in (self.running, self.auto_remedy, self.paused, self._library):
            source.changed.connect(self.changed)
        self._status.changed.connect(self._show_status)
        self.auto_remedy.toast_requested.connect(self.toast_requested)
        self.auto_remedy.failed.connect(self.failed)
        shell.disconnected.connect(lambda _error: self.changed.emit())

    @property
    def status(self) -> Status | None:
        """What the gateway says of itself."""
        return self._status.value

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes as its base URL; empty while there is none."""
        url = self.status.url if self.status else self._api.endpoint
        return f"{url}/v1" if url else ""

    @property
    def notice(self) -> str:
        """What the gateway has to say about its address."""
        return self.status.notice if self.status else ""

    @property
    def about(self) -> str:
        """What it speaks, who can reach it, and whether they need a key."""
        is_open = self.status is not None and bool(self.status.reachable_at)
        asks = self.status is not None and self.status.asks_for_keys
        return f"{tr('Speaks the OpenAI, Anthropic and Ollama APIs.')} {_REACH[is_open, asks].tr()}"

    @property
    def service_words(self) -> str:
        """Whether it serves, and whom."""
        if not self.is_serving:
            return tr("Not serving")
        is_open = self.status is not None and bool(self.status.reachable_at)
        return tr("Serving your network") if is_open else tr("Serving on this computer")

    @property
    def is_serving(self) -> bool:
        """Whether the gateway answers."""
        return self._shell.is_connected

    def format_snippet(self, dialect: SnippetKind) -> str:
        """Return a ready-made use of the endpoint, with a model that is loaded if there is one.

        A replica of a fleet is none: it answers nobody but its router.
        """
        loaded_names = [status.model for status in self.running.items if status.state is EngineState.READY]
        names = {model.name for model in self._library.items if model.chats}
        ready = [name for name in loaded_names if name in names]
        asks = self.status is not None and self.status.asks_for_keys
        return _SNIPPETS[dialect].format(
            base=self.base_url,
            model=next(iter(ready), GUIDE),
            key=_YOURS if asks else "none",
            header=_KEY_HEADER if asks else "",
        )

    def list_engines(self) -> list[EngineStatus]:
        """Return the processes to list."""
        return self.running.active()

    def unload_model(self, name: str) -> None:
        """Unload a model; Undo loads it again."""
        self.running.unload(
            name,
            lambda: self.toast_requested.emit(tr("{name} was unloaded.", name=name), lambda: self.load_model(name)),
            self.failed.emit,
        )

    def load_model(self, name: str) -> None:
        """Load a model, or try again after a failure."""
        self.running.load(name, self.failed.emit)

    def apply_remedy(self, name: str, remedy: RemedyOffer) -> None:
        """Load a model otherwise, as a remedy says."""
        self.running.load(name, self.failed.emit, msgspec.convert(remedy.options, LoadOptions))

    def _show_status(self) -> None:
        if self._status.error is not None:
            self.failed.emit(self._status.error)
        self.changed.emit()
