"""Claude Code: environment variables in its own settings.json. It speaks Anthropic's Messages API only.

https://docs.claude.com/en/docs/claude-code/settings. The billing line in its system prompt changes with each request
and would make the engine read the whole prompt anew, so it is switched off. A key of Anthropic's that the shell exports
would be sent here, so it is emptied; the context says when a conversation is summed up.
"""

from pathlib import Path

from app.config.paths import Home
from app.connect.document_paths import DocumentChange
from app.connect.documents import JSON
from app.connect.tool import FILE, FOLDER, ClientTool, ToolRoute, ToolRun, WiredModel, WiringTarget

_MODELS = (
    "ANTHROPIC_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
)


def _folder(home: Home) -> Path:
    return home.variable_folders.get("CLAUDE_CONFIG_DIR", home.folder / ".claude")


def _values(target: WiringTarget) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": target.base,
        "ANTHROPIC_AUTH_TOKEN": target.key,
        "ANTHROPIC_API_KEY": "",
        **dict.fromkeys(_MODELS, target.model),
        **_compaction(target.models[0]),
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(target.models[0].answer),
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        "CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY": "1",
    }


def _changes(target: WiringTarget) -> list[DocumentChange]:
    return [DocumentChange(("env", name), value) for name, value in _values(target).items()]


_LEAST_WINDOW = 100_000
"""Tokens: a smaller `CLAUDE_CODE_AUTO_COMPACT_WINDOW` is not taken, and then it counts on a vendor's context."""

_FULL_PERCENT = 90
"""Of what is left beside an answer: what a tool returns comes on top before it looks again."""


def _compaction(served_model: WiredModel) -> dict[str, str]:
    """Return what has a conversation summed up while an answer still fits: a window, and at what part of it.

    The part is of the window without the longest answer.
    """
    window = max(served_model.context, _LEAST_WINDOW)
    percent = _FULL_PERCENT * (served_model.context - served_model.answer) // (window - served_model.answer)
    return {
        "CLAUDE_CODE_AUTO_COMPACT_WINDOW": str(window),
        "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": str(max(1, percent)),
    }


CLAUDE_CODE = ClientTool(
    id="claude-code",
    name="Claude Code",
    route=ToolRoute.MESSAGES,
    programs=("claude",),
    traces=lambda home: (_folder(home),),
    file=lambda home: _folder(home) / "settings.json",
    form=JSON,
    changes=_changes,
    afterwards="Start Claude Code again. Running sessions keep their settings.",
    run=ToolRun(
        install="npm install -g @anthropic-ai/claude-code",
        arguments=lambda _wiring: ["--settings", FILE],
        file="settings.json",
    ),
    tried="2.1.197",
    agent=ToolRun(  # https://github.com/agentclientprotocol/claude-agent-acp
        install="npm install -g @agentclientprotocol/claude-agent-acp",
        program="claude-agent-acp",
        environment=lambda wiring: {**_values(wiring), "CLAUDE_CONFIG_DIR": FOLDER},
        file="settings.json",
        form=JSON,
        changes=lambda _wiring: [DocumentChange(("permissions", "defaultMode"), "default")],  # else a model decides
    ),
    agent_tried="0.101.0",
    headers={"anthropic-version": "2023-06-01", "anthropic-beta": "claude-code-20250219"},
)
