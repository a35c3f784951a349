"""VS Code's own chat (GitHub Copilot): a Custom Endpoint in the user's chatLanguageModels.json, from VS Code 1.122 on.

https://code.visualstudio.com/docs/agent-customization/language-models.
"""

from pathlib import Path

from app.config.paths import Home
from app.connect.document_paths import DocumentChange, ListEntry, Plain
from app.connect.documents import JSON
from app.connect.tool import ClientTool, ToolRoute, WiredModel, WiringTarget

_NAME = "Roundhouse"


def _folder(home: Home) -> Path:
    return home.support / "Code" / "User"


def _model(wiring: WiringTarget, served: WiredModel) -> Plain:
    return {
        "id": served.name,
        "name": served.name,
        "url": f"{wiring.openai}/chat/completions",
        "toolCalling": served.calls_tools,
        "vision": served.sees,
        "maxInputTokens": served.context - served.answer,
        "maxOutputTokens": served.answer,
    }


def _changes(wiring: WiringTarget) -> list[DocumentChange]:
    models = [_model(wiring, served) for served in wiring.models]
    provider: Plain = {"name": _NAME, "vendor": "customendpoint", "apiType": "chat-completions", "models": models}
    return [DocumentChange((ListEntry("name", _NAME),), provider)]


VSCODE = ClientTool(
    id="vscode",
    name="VS Code Chat",
    route=ToolRoute.CHAT,
    programs=("code",),
    traces=lambda home: (_folder(home),),
    file=lambda home: _folder(home) / "chatLanguageModels.json",
    form=JSON,
    changes=_changes,
    afterwards="Reload the window (Ctrl Shift P, Developer: Reload Window), then choose the model in the chat's menu.",
)
