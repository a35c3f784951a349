"""The `llm` command (Simon Willison): models in extra-openai-models.yaml of its own folder.

https://llm.datasette.io/en/stable/other-models.html. An entry without `api_key_name` is asked without a real key.
"""

from pathlib import Path

from app.config.paths import Home
from app.connect.document_paths import DocumentChange, ListEntry, Plain
from app.connect.documents import YAML
from app.connect.tool import ClientTool, ToolRoute, WiredModel, WiringTarget


def _folder(home: Home) -> Path:
    return home.variable_folders.get("LLM_USER_PATH", home.support / "io.datasette.llm")


def _entry(target: WiringTarget, served_model: WiredModel) -> Plain:
    return {"model_id": f"roundhouse/{served_model.name}", "model_name": served_model.name, "api_base": target.openai}


def _changes(target: WiringTarget) -> list[DocumentChange]:
    return [
        DocumentChange((ListEntry("model_id", f"roundhouse/{served_model.name}"),), _entry(target, served_model))
        for served_model in target.models
    ]


LLM = ClientTool(
    id="llm",
    name="llm",
    route=ToolRoute.CHAT,
    programs=("llm",),
    traces=lambda home: (_folder(home),),
    file=lambda home: _folder(home) / "extra-openai-models.yaml",
    form=YAML,
    changes=_changes,
    afterwards="Ask with: llm -m roundhouse/NAME; `llm models` lists the names.",
    tried="0.36",
)
