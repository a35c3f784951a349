"""OpenCode: a provider of the npm package @ai-sdk/openai-compatible in ~/.config/opencode/opencode.json.

https://opencode.ai/docs/config. Of opencode.json and opencode.jsonc the one that is there is edited.
"""

from pathlib import Path

from app.config.paths import Home
from app.connect.document_paths import DocumentChange, Plain
from app.connect.documents import JSON
from app.connect.tool import TEXT, ClientTool, ToolRoute, ToolRun, WiredModel, WiringTarget

_ID = "roundhouse"


def _file(home: Home) -> Path:
    folder = home.config / "opencode"
    with_comments = folder / "opencode.jsonc"
    return with_comments if with_comments.exists() else folder / "opencode.json"


def _model(served_model: WiredModel) -> Plain:
    return {
        "name": served_model.name,
        "limit": {"context": served_model.context, "output": served_model.answer},
        "tool_call": served_model.calls_tools,
        "attachment": served_model.sees,
        "modalities": {"input": served_model.inputs, "output": ["text"]},
    }


def _changes(target: WiringTarget) -> list[DocumentChange]:
    provider: Plain = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Roundhouse",
        "options": {"baseURL": target.openai, "apiKey": target.key},
        "models": {served_model.name: _model(served_model) for served_model in target.models},
    }
    return [
        DocumentChange(("$schema",), "https://opencode.ai/config.json", is_default=True),
        DocumentChange(("provider", _ID), provider),
        DocumentChange(("model",), f"{_ID}/{target.model}"),
    ]


def _agent_changes(target: WiringTarget) -> list[DocumentChange]:
    """Return the same, and that it asks before it changes or runs something: by itself it asks about little."""
    asks: Plain = dict.fromkeys(("edit", "bash", "webfetch", "external_directory"), "ask")
    own = {"permission": asks, "autoupdate": False}
    return [*_changes(target), *(DocumentChange((name,), value) for name, value in own.items())]


OPENCODE = ClientTool(
    id="opencode",
    name="OpenCode",
    route=ToolRoute.CHAT,
    programs=("opencode",),
    traces=lambda home: (home.config / "opencode",),
    file=_file,
    form=JSON,
    changes=_changes,
    afterwards="Start OpenCode again.",
    run=ToolRun(
        install="npm install -g opencode-ai",
        environment=lambda _wiring: {"OPENCODE_CONFIG_CONTENT": TEXT},
        file="opencode.json",
    ),
    tried="1.18.33",
    agent=ToolRun(
        install="npm install -g opencode-ai",
        arguments=lambda _wiring: ["acp"],
        environment=lambda _wiring: {"OPENCODE_CONFIG_CONTENT": TEXT},
        file="opencode.json",
        form=JSON,
        changes=_agent_changes,
    ),
    agent_tried="1.18.33",
)
