"""What a tool is to us: how it is found, the file that is edited and with what, and how it asks the endpoint.

The tools themselves are data in `app.connect.tools`, one file each.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

from app.config.paths import Home
from app.connect.document_paths import DocumentChange, Plain
from app.connect.documents import DocumentFormat, edit_document
from app.core.capabilities import InfillStyle
from app.core.errors import NotFound
from app.core.tools import ToolLaunch, ToolValue

KEY = "roundhouse"
"""What is written where a tool wants a key: the endpoint takes any, and this one says where it came from."""

RUN_KEY = "{key}"
"""In a file, an argument or a variable of a run: the key that was made for it, which nobody else has."""

USUAL_CONTEXT = 8192
"""Tokens, where a tool must be told a context and the model's is not known."""


class ToolRoute(StrEnum):
    """The routes tools generate with."""

    CHAT = "/v1/chat/completions"
    MESSAGES = "/v1/messages"
    RESPONSES = "/v1/responses"
    GOOGLE = "/v1beta/models/{model}:generateContent"
    OLLAMA = "/api/chat"
    COMPLETIONS = "/v1/completions"
    INFILL = "/infill"
    GENERATE = "/api/generate"


_BEFORE, _AFTER = "def add(a, b):\n    return ", "\n"
_COMPLETION_BODIES: Mapping[ToolRoute, Mapping[str, Plain]] = {
    ToolRoute.COMPLETIONS: {"prompt": _BEFORE, "suffix": _AFTER, "max_tokens": 1, "stream": False},
    ToolRoute.INFILL: {"input_prefix": _BEFORE, "input_suffix": _AFTER, "n_predict": 1},
    ToolRoute.GENERATE: {"prompt": _BEFORE, "suffix": _AFTER, "options": {"num_predict": 1}, "stream": False},
}
COMPLETION_ROUTES = frozenset(_COMPLETION_BODIES)
"""Those by which editors have code completed."""
_ANSWER_PART = 4
"""Of the context, this part is left for the answer: tools ask for up to 32,000 tokens where they are not told."""


@dataclass(frozen=True, slots=True)
class WiredModel:
    """A model as a tool is told of it; `context` in tokens."""

    name: str
    context: int
    sees: bool = False
    calls_tools: bool = True

    @property
    def answer(self) -> int:
        """Tokens of the context that are left for an answer."""
        return self.context // _ANSWER_PART

    @property
    def inputs(self) -> list[Plain]:
        """What it can be given, as several tools list it."""
        return ["text", "image"] if self.sees else ["text"]


@dataclass(frozen=True, slots=True)
class CompletionModel:
    """The model that completes code, as a tool is told of it; `style` where its own marks for a gap are known."""

    name: str
    context: int
    style: InfillStyle | None = None


@dataclass(frozen=True, slots=True)
class WiringTarget:
    """What a tool is wired to: the endpoint's address without a path, and its models, the chosen one first."""

    base: str
    models: tuple[WiredModel, ...]
    completion: CompletionModel | None = None
    """None where nobody chose one."""
    key: str = KEY
    """What is shown as a key: for one run, one that ends with it."""

    @property
    def openai(self) -> str:
        """The base URL of an OpenAI client."""
        return f"{self.base}/v1"

    @property
    def model(self) -> str:
        """The chosen model."""
        return self.models[0].name

    @property
    def context(self) -> int:
        """The chosen model's context, in tokens."""
        return self.models[0].context


Changes = Callable[[WiringTarget], list[DocumentChange]]

FILE, FOLDER, TEXT = "{file}", "{folder}", "{text}"
"""In an argument or a variable of a run: its settings file, its temporary folder, and what the file says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """How a tool is started wired for one run, which changes none of its own files.

    With `file`, the changes that would wire its own settings are written to a new file of that name in a temporary
    folder, or `changes` in `form`, where that is another file than it is wired by.
    """

    install: str
    """The command that installs it."""
    program: str = ""
    """Its name on PATH, where it is not the first of the tool's programs."""
    arguments: Callable[[WiringTarget], list[str]] = lambda _wiring: []
    environment: Callable[[WiringTarget], dict[str, str]] = lambda _wiring: {}
    file: str = ""
    form: DocumentFormat | None = None
    changes: Changes = lambda _wiring: []


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
    run: ToolRun | None = None
    """None for what is no command-line program, or takes its settings from its own file only."""
    completes: ToolRoute | None = None
    """The route by which it has code completed, beside `route`; None for what completes none, or nothing else."""
    tried: str = ""
    """The version that was run against the endpoint with these settings; empty where they follow its documentation."""
    agent: ToolRun | None = None
    """How it is started so that it speaks the Agent Client Protocol on its input and output, if it does."""
    agent_tried: str = ""
    """As `tried`, of what `agent` starts."""

    def is_here(self, home: Home) -> bool:
        """Return whether the tool, or something it left, is on this computer."""
        return any(_is_there(path) for path in self.traces(home)) or any(_on_path(home, name) for name in self.programs)

    @property
    def is_for_completion(self) -> bool:
        """Whether it has code completed, and nothing else."""
        return self.route in COMPLETION_ROUTES

    def request_path(self, model: str) -> str:
        """Return the address that it asks."""
        return self.route.format(model=quote(model, safe=""))

    def request_body(self, model: str, route: ToolRoute | None = None) -> dict[str, Plain]:
        """Return the smallest request that `route`, or the tool's own, takes: one token."""
        message: Plain = {"role": "user", "content": "Hi"}
        route = route or self.route
        if route in COMPLETION_ROUTES:
            return {"model": model, **_COMPLETION_BODIES[route]}
        match route:
            case ToolRoute.RESPONSES:
                return {"model": model, "input": "Hi", "max_output_tokens": 1, "store": False, "stream": False}
            case ToolRoute.GOOGLE:
                contents: Plain = [{"role": "user", "parts": [{"text": "Hi"}]}]
                return {"contents": contents, "generationConfig": {"maxOutputTokens": 1}}
            case ToolRoute.OLLAMA:
                return {"model": model, "messages": [message], "options": {"num_predict": 1}, "stream": False}
        return {"model": model, "messages": [message], "max_tokens": 1, "stream": False}

    def launch(self, target: WiringTarget) -> ToolLaunch:
        """Return how it is started wired for one run. Raises NotFound for a tool that is not started so."""
        if self.run is None:
            raise NotFound(
                f"{self.name} cannot be started for one run.",
                hint=f"`roundhouse connect {self.id}` says how it is connected.",
                code="tool_not_launched",
            )
        return self._launch_run(self.run, target)

    def launch_agent(self, target: WiringTarget) -> ToolLaunch:
        """Return how it is started to be hosted. Raises NotFound for what does not speak the protocol."""
        if self.agent is None:
            raise NotFound(
                f"{self.name} is no agent that Roundhouse can host.",
                hint="`roundhouse agents list` shows those that are.",
                code="agent_not_found",
            )
        return self._launch_run(self.agent, target)

    def _launch_run(self, run: ToolRun, target: WiringTarget) -> ToolLaunch:
        form, changes = (run.form, run.changes) if run.form else (self.form, self.changes)
        return ToolLaunch(
            id=self.id,
            name=self.name,
            model=target.model,
            program=run.program or self.programs[0],
            install=run.install,
            arguments=run.arguments(target),
            environment=run.environment(target),
            needs_key=target.key == RUN_KEY,
            file=run.file,
            text="" if form is None or not run.file else edit_document(form, "", changes(target)),
        )


def _is_there(path: Path) -> bool:
    try:
        return any(path.parent.glob(path.name)) if "*" in path.name else path.exists()
    except OSError:
        return False


def _on_path(home: Home, program: str) -> bool:
    endings = (".exe", ".cmd", ".bat", "") if home.system == "windows" else ("",)
    return any(_is_there(folder / (program + suffix)) for folder in home.search for suffix in endings)
