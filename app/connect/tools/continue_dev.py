"""Continue (VS Code and JetBrains extension): models in ~/.continue/config.yaml, each as provider `openai`.

https://docs.continue.dev/reference. An older config.json is void as soon as there is a config.yaml, so it is not made
beside one.
"""

from app.config.paths import Home
from app.connect.document_paths import DocumentChange, ListEntry, Plain
from app.connect.documents import YAML
from app.connect.tool import FILE, ClientTool, CompletionModel, ToolRoute, ToolRun, WiredModel, WiringTarget


def _changes(target: WiringTarget) -> list[DocumentChange]:
    return [
        DocumentChange(("name",), "Local", is_default=True),
        DocumentChange(("version",), "1.0.0", is_default=True),
        DocumentChange(("schema",), "v1", is_default=True),
        *(_model(target, served_model) for served_model in target.models),
        *([_completion(target, target.completion)] if target.completion else []),
    ]


def _completion(target: WiringTarget, served_model: CompletionModel) -> DocumentChange:
    """Return the model that completes: asked as Ollama, since Continue has only there a gap filled by the server."""
    name = f"{served_model.name} completes (Roundhouse)"
    return DocumentChange(
        ("models", ListEntry("name", name)),
        {
            "name": name,
            "provider": "ollama",
            "model": served_model.name,
            "apiBase": target.base,
            "apiKey": target.key,
            "roles": ["autocomplete"],
            "defaultCompletionOptions": {"contextLength": served_model.context},
        },
    )


def _model(target: WiringTarget, served_model: WiredModel) -> DocumentChange:
    name = f"{served_model.name} (Roundhouse)"
    can: list[Plain] = [
        *(["tool_use"] if served_model.calls_tools else []),
        *(["image_input"] if served_model.sees else []),
    ]
    return DocumentChange(
        ("models", ListEntry("name", name)),
        {
            "name": name,
            "provider": "openai",
            "model": served_model.name,
            "apiBase": target.openai,
            "apiKey": target.key,
            "roles": ["chat", "edit", "apply"],
            "capabilities": can,
            "defaultCompletionOptions": {"contextLength": served_model.context, "maxTokens": served_model.answer},
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
