"""VS Code's own chat (GitHub Copilot): a Custom Endpoint in the user's chatLanguageModels.json, from VS Code 1.122 on.

https://code.visualstudio.com/docs/agent-customization/language-models. Its inline suggestions take no model of one's
own yet; `completionsUrl` is what the change that is to allow it reads (microsoft/vscode 330816). Extensions complete
today: llama.vscode (`llama_editors.py`), Continue, Twinny.
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
    completes = wiring.completion is not None and wiring.completion.name == served.name
    return {
        **({"completionsUrl": f"{wiring.openai}/completions"} if completes else {}),
        "id": served.name,
        "name": served.name,
        "url": f"{wiring.openai}/chat/completions",
        "toolCalling": served.calls_tools,
        "vision": served.sees,
        "maxInputTokens": served.context - served.answer,
        "maxOutputTokens": served.answer,
    }


def _changes(wiring: WiringTarget) -> list[DocumentChange]:
    completion = wiring.completion
    only = [] if completion is None or completion.name in {served.name for served in wiring.models} else [completion]
    completing = [WiredModel(served.name, served.context, calls_tools=False) for served in only]
    models = [_model(wiring, served) for served in (*wiring.models, *completing)]
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
    completes=ToolRoute.COMPLETIONS,
    afterwards="Reload the window (Ctrl Shift P, Developer: Reload Window), then choose the model in the chat's menu.",
)
