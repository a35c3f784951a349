"""Codex CLI: a model provider in config.toml, and the model to start with. It speaks OpenAI's Responses API only.

https://developers.openai.com/codex/config-advanced. A provider without `env_key` is asked without a key. For a model
it does not know Codex assumes a large context, so it is told the real one, to shorten conversations in time.
"""

from pathlib import Path

from app.config.paths import Home
from app.connect.document_paths import DocumentChange
from app.connect.documents import TOML
from app.connect.tool import FOLDER, RUN_KEY, ClientTool, ToolRoute, ToolRun, WiringTarget

_ID = "roundhouse"
_KEY_VARIABLE = "ROUNDHOUSE_API_KEY"


def _folder(home: Home) -> Path:
    return home.variable_folders.get("CODEX_HOME", home.folder / ".codex")


def _arguments(target: WiringTarget) -> list[str]:
    settings = {
        "model": target.model,
        "model_provider": _ID,
        "model_context_window": target.context,
        f"model_providers.{_ID}.name": "Roundhouse",
        f"model_providers.{_ID}.base_url": target.openai,
        f"model_providers.{_ID}.wire_api": "responses",
        **({f"model_providers.{_ID}.env_key": _KEY_VARIABLE} if target.key == RUN_KEY else {}),
    }
    return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]


def _changes(target: WiringTarget) -> list[DocumentChange]:
    return [
        DocumentChange(("model",), target.model),
        DocumentChange(("model_provider",), _ID),
        DocumentChange(("model_context_window",), target.context),
        DocumentChange(
            ("model_providers", _ID), {"name": "Roundhouse", "base_url": target.openai, "wire_api": "responses"}
        ),
    ]


def _agent_changes(target: WiringTarget) -> list[DocumentChange]:
    """Have it ask before each command that is not known to only read, and use what can be nested in our confinement."""
    return [
        *_changes(target),
        DocumentChange(("model_providers", _ID, "env_key"), _KEY_VARIABLE),
        DocumentChange(("approval_policy",), "untrusted"),
        DocumentChange(("sandbox_mode",), "workspace-write"),
        DocumentChange(("features", "use_legacy_landlock"), value=True),
    ]


CODEX = ClientTool(
    id="codex",
    name="Codex CLI",
    route=ToolRoute.RESPONSES,
    programs=("codex",),
    traces=lambda home: (_folder(home),),
    file=lambda home: _folder(home) / "config.toml",
    form=TOML,
    changes=_changes,
    afterwards="Start Codex again. It warns once that it has no metadata for the model, but works without it. "
    "Its own prompt takes some 10,000 tokens: let the setting models.context be 32768 or more, and connect again.",
    run=ToolRun(
        install="npm install -g @openai/codex",
        arguments=_arguments,
        environment=lambda wiring: {_KEY_VARIABLE: wiring.key} if wiring.key == RUN_KEY else {},
    ),
    tried="0.169.0",
    agent=ToolRun(  # https://github.com/zed-industries/codex-acp; its successor needs bubblewrap, which cannot nest
        install="npm install -g @zed-industries/codex-acp@0.16.0",
        program="codex-acp",
        environment=lambda wiring: {
            "CODEX_HOME": FOLDER,
            _KEY_VARIABLE: wiring.key,
        },
        file="config.toml",
        form=TOML,
        changes=_agent_changes,
    ),
    agent_tried="0.16.0",
)
