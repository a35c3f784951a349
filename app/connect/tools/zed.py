"""Zed: an OpenAI-compatible provider in settings.json, and the agent's default model.

https://zed.dev/docs/ai/llm-providers. The key is not in the file: Zed asks for it, or takes ROUNDHOUSE_API_KEY.
"""

from pathlib import Path

from app.config.paths import Home
from app.connect.document_paths import DocumentChange, Plain
from app.connect.documents import JSON
from app.connect.tool import ClientTool, ToolRoute, WiredModel, WiringTarget

_PROVIDER = "Roundhouse"


def _folder(home: Home) -> Path:
    return home.support / "Zed" if home.system == "windows" else home.config / "zed"


def _model(served: WiredModel) -> Plain:
    return {
        "name": served.name,
        "display_name": served.name,
        "max_tokens": served.context,
        "max_output_tokens": served.answer,
        "capabilities": {
            "tools": served.calls_tools,
            "images": served.sees,
            "parallel_tool_calls": False,
            "prompt_cache_key": False,
        },
    }


def _changes(wiring: WiringTarget) -> list[DocumentChange]:
    provider: Plain = {"api_url": wiring.openai, "available_models": [_model(served) for served in wiring.models]}
    return [
        DocumentChange(("language_models", "openai_compatible", _PROVIDER), provider),
        DocumentChange(("agent", "default_model", "provider"), _PROVIDER),
        DocumentChange(("agent", "default_model", "model"), wiring.model),
    ]


ZED = ClientTool(
    id="zed",
    name="Zed",
    route=ToolRoute.CHAT,
    programs=("zed", "zeditor"),
    traces=lambda home: (_folder(home),),
    file=lambda home: _folder(home) / "settings.json",
    form=JSON,
    changes=_changes,
    afterwards="Zed reads the file at once. Where its agent panel asks for Roundhouse's API key, any word will do.",
)
