"""Zed: an OpenAI-compatible provider in settings.json, the agent's default model, and the one for edit predictions.

https://zed.dev/docs/ai/llm-providers and https://zed.dev/docs/ai/edit-prediction. Keys are not in the file: Zed asks
for them, or takes ROUNDHOUSE_API_KEY and ZED_OPEN_AI_COMPATIBLE_EDIT_PREDICTION_API_KEY. Zed writes the prompt for a
gap itself, so it is told by which family's marks.
"""

from pathlib import Path

from app.config.paths import Home
from app.connect.document_paths import DocumentChange, Plain
from app.connect.documents import JSON
from app.connect.tool import ClientTool, CompletionModel, ToolRoute, WiredModel, WiringTarget
from app.core.capabilities import InfillStyle

_PROVIDER = "Roundhouse"


def _folder(home: Home) -> Path:
    return home.support / "Zed" if home.system == "windows" else home.config / "zed"


def _model(served_model: WiredModel) -> Plain:
    return {
        "name": served_model.name,
        "display_name": served_model.name,
        "max_tokens": served_model.context,
        "max_output_tokens": served_model.answer,
        "capabilities": {
            "tools": served_model.calls_tools,
            "images": served_model.sees,
            "parallel_tool_calls": False,
            "prompt_cache_key": False,
        },
    }


def _changes(target: WiringTarget) -> list[DocumentChange]:
    provider: Plain = {
        "api_url": target.openai,
        "available_models": [_model(served_model) for served_model in target.models],
    }
    return [
        DocumentChange(("language_models", "openai_compatible", _PROVIDER), provider),
        DocumentChange(("agent", "default_model", "provider"), _PROVIDER),
        DocumentChange(("agent", "default_model", "model"), target.model),
        *(_predictions(target, target.completion) if target.completion else []),
    ]


_FORMATS = {
    InfillStyle.QWEN: "qwen",
    InfillStyle.STARCODER: "star_coder",
    InfillStyle.CODE_LLAMA: "code_llama",
    InfillStyle.DEEPSEEK: "deepseek_coder",
    InfillStyle.GLM: "glm",
}
_PREDICTED_TOKENS = 64
"""Zed's own."""


def _predictions(target: WiringTarget, served_model: CompletionModel) -> list[DocumentChange]:
    api: Plain = {
        "api_url": f"{target.openai}/completions",
        "model": served_model.name,
        "prompt_format": "infer" if served_model.style is None else _FORMATS.get(served_model.style, "infer"),
        "max_output_tokens": _PREDICTED_TOKENS,
    }
    return [
        DocumentChange(("edit_predictions", "provider"), "open_ai_compatible_api"),
        DocumentChange(("edit_predictions", "open_ai_compatible_api"), api),
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
    completes=ToolRoute.COMPLETIONS,
    afterwards="Zed reads the file at once. Where its agent panel asks for Roundhouse's API key, any word will do.",
)
