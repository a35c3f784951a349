"""aider: three lines in ~/.aider.conf.yml. The prefix `openai/` makes it ask an OpenAI endpoint for any model.

https://aider.chat/docs/llms/openai-compat.html and https://aider.chat/docs/config/aider_conf.html.
"""

from app.connect.document_paths import DocumentChange
from app.connect.documents import YAML
from app.connect.tool import KEY, ClientTool, ToolRoute, WiringTarget


def _changes(wiring: WiringTarget) -> list[DocumentChange]:
    return [
        DocumentChange(("openai-api-base",), wiring.openai),
        DocumentChange(("openai-api-key",), KEY),
        DocumentChange(("model",), f"openai/{wiring.model}"),
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
)
