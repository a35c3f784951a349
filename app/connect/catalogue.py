"""Every tool there is an answer for, in the order they are listed. Adding one is a file in `tools` and a line here."""

from app.connect.tool import ClientTool
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

TOOLS: tuple[ClientTool, ...] = (
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


def find_tool(name: str) -> ClientTool:
    """Return the tool of an id or a name, whatever its case; what only one begins with is enough. Raises NotFound."""
    folded_name = name.casefold()
    for tool in TOOLS:
        if folded_name in (tool.id, tool.name.casefold()):
            return tool
    matches = [
        tool
        for tool in TOOLS
        if folded_name and (tool.id.startswith(folded_name) or tool.name.casefold().startswith(folded_name))
    ]
    if len(matches) == 1:
        return matches[0]
    raise NotFound(
        f"No tool is called {name!r}.",
        hint="There are " + ", ".join(tool.id for tool in TOOLS) + ".",
        code="tool_unknown",
    )
