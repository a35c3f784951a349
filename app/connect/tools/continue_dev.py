"""Continue (VS Code and JetBrains extension): models in ~/.continue/config.yaml, each as provider `openai`.

https://docs.continue.dev/reference. An older config.json is void as soon as there is a config.yaml, so it is not made
beside one.
"""

from app.config.paths import Home
from app.connect.document_paths import DocumentChange, ListEntry, Plain
from app.connect.documents import YAML
from app.connect.tool import FILE, ClientTool, CompletionModel, ToolRoute, ToolRun, WiredModel, WiringTarget


def _changes(wiring: WiringTarget) -> list[DocumentChange]:
    return [
        DocumentChange(("name",), "Local", is_default=True),
        DocumentChange(("version",), "1.0.0", is_default=True),
        DocumentChange(("schema",), "v1", is_default=True),
        *(_model(wiring, served) for served in wiring.models),
        *([_completion(wiring, wiring.completion)] if wiring.completion else []),
    ]


def _completion(wiring: WiringTarget, served: CompletionModel) -> DocumentChange:
    """Return the model that completes: asked as Ollama, since Continue has only there a gap filled by the server."""
    name = f"{served.name} completes (Roundhouse)"
    return DocumentChange(
        ("models", ListEntry("name", name)),
        {
            "name": name,
            "provider": "ollama",
            "model": served.name,
            "apiBase": wiring.base,
            "apiKey": wiring.key,
            "roles": ["autocomplete"],
            "defaultCompletionOptions": {"contextLength": served.context},
        },
    )


def _model(wiring: WiringTarget, served: WiredModel) -> DocumentChange:
    name = f"{served.name} (Roundhouse)"
    can: list[Plain] = [*(["tool_use"] if served.calls_tools else []), *(["image_input"] if served.sees else [])]
    return DocumentChange(
        ("models", ListEntry("name", name)),
        {
            "name": name,
            "provider": "openai",
            "model": served.name,
            "apiBase": wiring.openai,
            "apiKey": wiring.key,
            "roles": ["chat", "edit", "apply"],
            "capabilities": can,
            "defaultCompletionOptions": {"contextLength": served.context, "maxTokens": served.answer},
        },
    )


def _refusal(home: Home) -> str:
    folder = home.folder / ".continue"
    if (folder / "config.json").exists() and not (folder / "config.yaml").exists():
        return "Continue still uses its older config.json, which a new config.yaml would override."
    return ""


CONTINUE = ClientTool(
    id="continue",
    name="Continue",
    route=ToolRoute.CHAT,
    programs=("cn",),
    traces=lambda home: (
        home.folder / ".continue",
        home.folder / ".vscode" / "extensions" / "continue.continue-*",
    ),
    file=lambda home: home.folder / ".continue" / "config.yaml",
    form=YAML,
    changes=_changes,
    refusal=_refusal,
    completes=ToolRoute.GENERATE,
    afterwards="Choose the model in Continue's model menu; it reads the file again by itself.",
    run=ToolRun(
        install="npm install -g @continuedev/cli", arguments=lambda _wiring: ["--config", FILE], file="config.yaml"
    ),
    tried="1.5.47 (its command line)",
)
