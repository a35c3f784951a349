"""Every tool there is an answer for, in the order they are listed. Adding one is a file in `tools` and a line here."""

from app.connect.tool import Tool
from app.connect.tools.aider import AIDER
from app.connect.tools.by_hand import CLINE, JETBRAINS, OPEN_WEBUI, ROO_CODE
from app.connect.tools.claude_code import CLAUDE_CODE
from app.connect.tools.codex import CODEX
from app.connect.tools.continue_dev import CONTINUE
from app.connect.tools.llm import LLM
from app.connect.tools.opencode import OPENCODE
from app.connect.tools.vscode import VSCODE
from app.connect.tools.zed import ZED
from app.core.errors import NotFound

TOOLS: tuple[Tool, ...] = (
    CONTINUE,
    CLINE,
    ROO_CODE,
    VSCODE,
    ZED,
    JETBRAINS,
    CLAUDE_CODE,
    CODEX,
    OPENCODE,
    AIDER,
    LLM,
    OPEN_WEBUI,
)


def tool_named(name: str) -> Tool:
    """Return the tool of an id or a name, whatever its case; what only one begins with is enough. Raises NotFound."""
    wanted = name.casefold()
    for tool in TOOLS:
        if wanted in (tool.id, tool.name.casefold()):
            return tool
    begun = [
        tool for tool in TOOLS if wanted and (tool.id.startswith(wanted) or tool.name.casefold().startswith(wanted))
    ]
    if len(begun) == 1:
        return begun[0]
    raise NotFound(
        f"No tool is called {name!r}.",
        hint="There are " + ", ".join(tool.id for tool in TOOLS) + ".",
        code="tool_unknown",
    )
