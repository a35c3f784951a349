"""aider: three lines in ~/.aider.conf.yml. The prefix `openai/` makes it ask an OpenAI endpoint for any model.

https://aider.chat/docs/llms/openai-compat.html and https://aider.chat/docs/config/aider_conf.html.
"""

from app.connect.documents import YAML
from app.connect.places import Change
from app.connect.tool import KEY, Route, Tool, Wiring


def _changes(wiring: Wiring) -> list[Change]:
    return [
        Change(("openai-api-base",), wiring.openai),
        Change(("openai-api-key",), KEY),
        Change(("model",), f"openai/{wiring.model}"),
    ]


AIDER = Tool(
    id="aider",
    name="aider",
    route=Route.CHAT,
    programs=("aider",),
    traces=lambda home: (home.folder / ".aider.conf.yml", home.folder / ".aider"),
    file=lambda home: home.folder / ".aider.conf.yml",
    form=YAML,
    changes=_changes,
    afterwards="Start aider again. A .aider.conf.yml in a project's own folder takes precedence over this one.",
)
