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


def _model(target: WiringTarget, served_model: WiredModel) -> Plain:
    completes = target.completion is not None and target.completion.name == served_model.name
    return {
        **({"completionsUrl": f"{target.openai}/completions"} if completes else {}),
        "id": served_model.name,
        "name": served_model.name,
        "url": f"{target.openai}/chat/completions",
        "toolCalling": served_model.calls_tools,
        "vision": served_model.sees,
        "maxInputTokens": served_model.context - served_model.answer,
        "maxOutputTokens": served_model.answer,
    }


def _changes(target: WiringTarget) -> list[DocumentChange]:
    completion = target.completion
    only = (
        []
        if completion is None or completion.name in {served_model.name for served_model in target.models}
        else [completion]
    )
    completion_models = [
        WiredModel(served_model.name, served_model.context, calls_tools=False) for served_model in only
    ]
    models = [_model(target, served_model) for served_model in (*target.models, *completion_models)]
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
