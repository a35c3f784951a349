"""aider: four lines in ~/.aider.conf.yml. The prefix `openai/` makes it ask an OpenAI endpoint for any model.

It knows no context of a model it has no table for, so it is told when to sum a conversation up.

https://aider.chat/docs/llms/openai-compat.html and https://aider.chat/docs/config/aider_conf.html.
"""

from app.connect.document_paths import DocumentChange
from app.connect.documents import YAML
from app.connect.tool import ClientTool, ToolRoute, ToolRun, WiringTarget


def _arguments(target: WiringTarget) -> list[str]:
    limit = str(target.models[0].answer)
    return ["--openai-api-base", target.openai, "--model", f"openai/{target.model}", "--max-chat-history-tokens", limit]


def _changes(target: WiringTarget) -> list[DocumentChange]:
    return [
        DocumentChange(("openai-api-base",), target.openai),
        DocumentChange(("openai-api-key",), target.key),
        DocumentChange(("model",), f"openai/{target.model}"),
        DocumentChange(("max-chat-history-tokens",), target.models[0].answer),
    ]


AIDER = ClientTool(
    id="aider",
    name="aider",
    route=ToolRoute.CHAT,
    programs=("aider",),
    traces=lambda home: (home.folder / ".aider.conf.yml", home.folder / ".aider"),
    file=lambda home: home.folder / ".aider.conf.yml",
    form=YAML,
    changes=_changes,
    afterwards="Start aider again. A .aider.conf.yml in a project's own folder takes precedence over this one.",
    run=ToolRun(
        install="python -m pip install aider-chat",
        arguments=_arguments,
        environment=lambda wiring: {"AIDER_OPENAI_API_KEY": wiring.key},
    ),
    tried="0.86.2",
)
