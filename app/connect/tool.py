"""What a tool is to us: how it is found, the file that is edited and with what, and how it asks the endpoint.

The tools themselves are data in `app.connect.tools`, one file each.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from app.config.paths import Home
from app.connect.document_paths import DocumentChange, Plain
from app.connect.documents import DocumentFormat
from app.core.tools import ToolValue

KEY = "roundhouse"
"""What is written where a tool wants a key: the endpoint takes any, and this one says where it came from."""

USUAL_CONTEXT = 8192
"""Tokens, where a tool must be told a context and the model's is not known."""


class ToolRoute(StrEnum):
    """The routes tools generate with."""

    CHAT = "/v1/chat/completions"
    MESSAGES = "/v1/messages"
    RESPONSES = "/v1/responses"


@dataclass(frozen=True, slots=True)
class WiredModel:
    """A model as a tool is told of it; `context` in tokens."""

    name: str
    context: int


@dataclass(frozen=True, slots=True)
class WiringTarget:
    """What a tool is wired to: the endpoint's address without a path, and its models, the chosen one first."""

    base: str
    models: tuple[WiredModel, ...]

    @property
    def openai(self) -> str:
        """The base URL of an OpenAI client."""
        return f"{self.base}/v1"

    @property
    def model(self) -> str:
        """The chosen model."""
        return self.models[0].name


Changes = Callable[[WiringTarget], list[DocumentChange]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTool:
    """One tool. Without `file` it is wired by hand: `steps` and `values` say how."""

    id: str
    name: str
    route: ToolRoute
    afterwards: str
    programs: tuple[str, ...] = ()
    """Names of its program on PATH."""
    traces: Callable[[Home], tuple[Path, ...]] = lambda _home: ()
    """Files and folders that are there once it is installed; the last part may be a pattern."""
    file: Callable[[Home], Path] | None = None
    form: DocumentFormat | None = None
    changes: Changes = lambda _wiring: []
    refusal: Callable[[Home], str] = lambda _home: ""
    """Why its file must not be written here; empty when it may."""
    steps: Callable[[WiringTarget], list[str]] = lambda _wiring: []
    values: Callable[[WiringTarget], list[ToolValue]] = lambda _wiring: []
    headers: Mapping[str, str] = field(default_factory=dict)

    def is_here(self, home: Home) -> bool:
        """Return whether the tool, or something it left, is on this computer."""
        return any(_is_there(path) for path in self.traces(home)) or any(_on_path(home, name) for name in self.programs)

    def request_body(self, model: str) -> dict[str, Plain]:
        """Return the smallest request the tool's route takes: one token."""
        if self.route is ToolRoute.RESPONSES:
            return {"model": model, "input": "Hi", "max_output_tokens": 1, "store": False, "stream": False}
        return {"model": model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "stream": False}


def _is_there(path: Path) -> bool:
    try:
        return any(path.parent.glob(path.name)) if "*" in path.name else path.exists()
    except OSError:
        return False


def _on_path(home: Home, program: str) -> bool:
    endings = (".exe", ".cmd", ".bat", "") if home.system == "windows" else ("",)
    return any(_is_there(folder / (program + ending)) for folder in home.search for ending in endings)
