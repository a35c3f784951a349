"""Tools at the demo machine, and what wiring them would change. Invented, and only shown in screenshots."""

from app.core.errors import ErrorBody
from app.core.models import Autocomplete
from app.core.tool_prompts import ToolPreflight
from app.core.tools import ToolChange, ToolInfo, ToolProbe, ToolValue

_BASE = "http://127.0.0.1:11434/v1"
_MODEL = "qwen3-8b-q4_k_m"
TOOLS = [
    ToolInfo(
        id="continue",
        name="Continue",
        tried="1.5.47",
        launch="roundhouse launch continue",
        found=True,
        file="/home/ada/.continue/config.yaml",
    ),
    ToolInfo(id="cline", name="Cline", tried="3.0.65", found=True),
    ToolInfo(id="zed", name="Zed", found=True, file="/home/ada/.config/zed/settings.json"),
    ToolInfo(
        id="claude-code",
        name="Claude Code",
        tried="2.1.197",
        launch="roundhouse launch claude-code",
        found=True,
        file="/home/ada/.claude/settings.json",
        problem="The file was left unchanged: line 7 is not JSON.",
    ),
    ToolInfo(
        id="codex",
        name="Codex CLI",
        tried="0.169.0",
        launch="roundhouse launch codex",
        found=True,
        wired=True,
        can_undo=True,
        model=_MODEL,
        file="/home/ada/.codex/config.toml",
    ),
    ToolInfo(
        id="opencode",
        name="OpenCode",
        tried="1.18.33",
        launch="roundhouse launch opencode",
        found=False,
        file="/home/ada/.config/opencode/opencode.json",
    ),
    ToolInfo(
        id="aider",
        name="aider",
        tried="0.86.2",
        launch="roundhouse launch aider",
        found=False,
        file="/home/ada/.aider.conf.yml",
    ),
    ToolInfo(id="open-webui", name="Open WebUI", tried="0.12.4", found=False),
]
PREFLIGHTS = [
    ToolPreflight(
        tool="claude-code",
        name="Claude Code",
        version="2.1.197",
        model=_MODEL,
        prompt_tokens=21_400,
        tools=23,
        context_needed=65_536,
        context=16_384,
        largest_context=131_072,
        cold_s=41.2,
        warm_s=1.2,
        sentence="Claude Code begins with about 21k tokens and 23 tools.",
    ),
    ToolPreflight(
        tool="codex",
        name="Codex CLI",
        version="0.169.0",
        model=_MODEL,
        prompt_tokens=6_900,
        tools=9,
        context_needed=16_384,
        context=16_384,
        largest_context=131_072,
        cold_s=12.6,
        warm_s=0.8,
        is_measured=True,
        tool_tasks=100,
        valid_calls=97,
        sentence="Codex CLI begins with about 6,900 tokens and 9 tools.",
    ),
]
ZED = ToolChange(
    id="zed",
    name="Zed",
    file="/home/ada/.config/zed/settings.json",
    model=_MODEL,
    afterwards="Zed reads the file at once.",
    diff=f"""--- /home/ada/.config/zed/settings.json
+++ /home/ada/.config/zed/settings.json
@@ -4,9 +4,23 @@
   "vim_mode": true, // I like it
   "agent": {{
     "default_model": {{
-      "provider": "zed.dev",
-      "model": "claude-sonnet-4",
+      "provider": "Roundhouse",
+      "model": "{_MODEL}",
     }},
   }},
+  "language_models": {{
+    "openai_compatible": {{
+      "Roundhouse": {{
+        "api_url": "{_BASE}"
+      }}
+    }}
+  }},
 }}""",
)
CLINE = ToolChange(
    id="cline",
    name="Cline",
    model=_MODEL,
    steps=[
        "Open Cline in VS Code and click the gear.",
        "Choose the API provider OpenAI Compatible.",
        "Fill in the values below.",
    ],
    values=[
        ToolValue(name="Base URL", value=_BASE),
        ToolValue(name="API key", value="roundhouse"),
        ToolValue(name="Model", value=_MODEL),
    ],
)
TRIED = ToolProbe(
    id="codex",
    ok=True,
    route="/v1/responses",
    model=_MODEL,
    status=200,
    sentence=f"{_MODEL} answered on /v1/responses, as Codex CLI asks.",
    seconds=0.4,
)
REFUSED = ErrorBody(
    code="tool_file_changed",
    sentence="Codex CLI's settings were changed since, so they were left unchanged.",
    hint="Remove what you no longer want by hand; the changes since then are shown below.",
    detail='@@ -9,1 +9,2 @@\n base_url = "http://127.0.0.1:11434/v1"\n+approval_policy = "never"',
)


COMPLETION = Autocomplete(
    model="qwen2.5-coder-1.5b-q8_0",
    is_loaded=True,
    beside=_MODEL,
    fits=True,
    pool="system",
    needed=9_400_000_000,
    room=24_800_000_000,
    choices=["qwen2.5-coder-1.5b-q8_0", _MODEL],
)


def tool_replies() -> dict[str, object]:
    """Return what the demo gateway answers about tools."""
    return {
        "GET /tools": TOOLS,
        "GET /preflights": PREFLIGHTS,
        "GET /autocomplete": COMPLETION,
        "POST /tools/zed/preview": ZED,
        "POST /tools/cline/preview": CLINE,
        "POST /tools/codex/probe": TRIED,
        "POST /tools/codex/undo": REFUSED,
    }
