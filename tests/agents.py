"""Coding agents that are run for real: of which version, with what arguments. `make clients` installs them.

Those from npm share a folder; each of those from PyPI has an environment of its own, since their packages disagree.
The table in the docs is written from here: `python -m tests.agents --write`.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.connect.connections import find_tool
from app.connect.tool import ToolRoute
from app.core.tool_prompts import ToolPrompt
from tests.engine_docs import DOCS, heading, line
from tests.scripted_endpoint import CONTENT, FILE

FOLDER = "AGENTS"
"""The variable that names the folder in which they are installed."""
PAGE = DOCS / "internals" / "clients.md"
TASK = f"Write {FILE} that says {CONTENT}."
_SPAN = re.compile(r"(?P<begin><!-- agents -->\n).*?(?P<end><!-- end -->)", re.DOTALL)


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """One of them; `arguments` have it do a task without asking anybody."""

    tool: str
    package: str
    version: str
    arguments: tuple[str, ...]
    is_npm: bool = True
    python: str = ""
    """The version that it needs, of what comes from PyPI."""
    tried_on: str = "26 November 2026"
    compaction: str = "yes"
    """Whether it sums its conversation up by itself when it is told the model's context; empty: no."""
    calls: int = 2
    characters: int = 0
    """How many calls it has to have made before, and how long the texts that they write."""

    @property
    def requirement(self) -> str:
        """What its package index is asked for."""
        return f"{self.package}{'@' if self.is_npm else '=='}{self.version}"


ADAPTERS = {
    "claude-code": "@agentclientprotocol/claude-agent-acp@0.101.0",
    "codex": "@zed-industries/codex-acp@0.16.0",
}
"""What speaks the Agent Client Protocol for agents that do not, by the tool."""
NODE = "node@24.21.0"
"""What runs those from npm: OpenClaw takes no older one."""
AGENTS = (
    Agent(
        tool="claude-code",
        package="@anthropic-ai/claude-code",
        version="2.1.197",
        arguments=("-p", TASK, "--dangerously-skip-permissions"),
    ),
    Agent(
        tool="codex",
        package="@openai/codex",
        version="0.169.0",
        arguments=("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", TASK),
    ),
    Agent(tool="opencode", package="opencode-ai", version="1.18.33", arguments=("run", TASK)),
    Agent(
        tool="gemini-cli",
        package="@google/gemini-cli",
        version="0.61.0",
        arguments=("--skip-trust", "--yolo", "-p", TASK),
        compaction="",  # it has contexts of Google's models only
    ),
    Agent(tool="qwen-code", package="@qwen-code/qwen-code", version="0.24.4", arguments=("-y", "-p", TASK)),
    Agent(
        tool="copilot-cli", package="@github/copilot", version="1.0.102", arguments=("-p", TASK, "--allow-all-tools")
    ),
    Agent(
        tool="aider",
        package="aider-chat",
        version="0.86.2",
        arguments=("--message", TASK, "--yes-always", "--no-check-update", "--no-show-release-notes", "--no-analytics"),
        is_npm=False,
        compaction="",  # between turns of a person only
    ),
    Agent(
        tool="gptme",
        package="gptme",
        version="0.35.1",
        arguments=("-n", TASK),
        is_npm=False,
        compaction="",  # it asked for none, and ended with the endpoint's refusal
    ),
    Agent(
        tool="pi",
        package="@earendil-works/pi-coding-agent",
        version="0.87.1",
        arguments=("-p", TASK),
        characters=120_000,  # it keeps the last 20,000 tokens
    ),
    Agent(tool="kimi-code", package="@moonshot-ai/kimi-code", version="2.1.0", arguments=("-p", TASK)),
    Agent(
        tool="mistral-vibe",
        package="mistral-vibe",
        version="3.0.2",
        arguments=("-p", TASK),
        is_npm=False,
        python="3.12",
    ),
    Agent(tool="cline", package="cline", version="3.0.65", arguments=(TASK,), compaction="yes, without the model"),
    Agent(
        tool="continue",
        package="@continuedev/cli",
        version="1.5.47",
        arguments=("--auto", "-p", TASK),
        compaction="",  # it asked for none, and ended with the endpoint's refusal
    ),
    Agent(tool="droid", package="droid", version="0.215.0", arguments=("exec", "--auto", "high", TASK)),
    Agent(
        tool="hermes",
        package="hermes-agent",
        version="0.19.0",
        arguments=("chat", "-Q", "--yolo", "-q", TASK),
        is_npm=False,
        calls=16,  # it keeps the first three messages and the last twenty
        characters=4000,
    ),
    Agent(
        tool="openclaw",
        package="openclaw",
        version="2026.9.6",
        arguments=("agent", "--local", "--session-id", "task", "--message", TASK),
        calls=8,  # it keeps the last 20,000 tokens, of whole messages
        characters=16_000,
    ),
)


def record_prompt(agent: Agent, requests: Sequence[Mapping[str, Any]]) -> ToolPrompt:
    """Return the sizes of what an agent sent: its first request that offers tools, else the largest, and the next."""
    sizes = [text_bytes(request) for request in requests]
    tool_places = [place for place, request in enumerate(requests) if request.get("tools")]
    first = tool_places[0] if tool_places else max(range(len(sizes)), key=lambda place: sizes[place])
    tools = requests[first].get("tools") or []
    later = [sizes[place] - sizes[first] for place in range(first + 1, len(sizes)) if sizes[place] > sizes[first]]
    return ToolPrompt(
        tool=agent.tool,
        version=agent.version,
        prompt_bytes=sizes[first],
        tools=len(tools),
        tool_bytes=len(json.dumps(tools, ensure_ascii=False).encode()) if tools else 0,
        turn_bytes=later[0] if later else 0,
    )


def text_bytes(request: Mapping[str, Any]) -> int:
    """Return the bytes of all messages' texts and calls."""
    return sum(_message_bytes(message) for message in request.get("messages", []))


def _message_bytes(message: Mapping[str, Any]) -> int:
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    calls = message.get("tool_calls") or []
    return len(text.encode()) + (len(json.dumps(calls, ensure_ascii=False).encode()) if calls else 0)


def search_path() -> str:
    """Return a PATH on which the agents are; skip the test if nobody installed them."""
    folder = os.environ.get(FOLDER, "")
    if not folder:
        pytest.skip(f"{FOLDER} names no folder with coding agents")
    own = [f"{folder}/node_modules/.bin", *(f"{folder}/{each.tool}/bin" for each in AGENTS if not each.is_npm)]
    return os.pathsep.join([*own, os.environ["PATH"]])


def install_agents(folder: Path, uv: str) -> None:
    """Install all of them below `folder`, at their versions."""
    npm = [*(each.requirement for each in AGENTS if each.is_npm), *ADAPTERS.values()]
    quiet = ("--silent", "--no-audit", "--no-fund", "--cache", str(folder / "cache"))
    install = [shutil.which("npm") or "npm", "install", *quiet, "--prefix", str(folder)]
    subprocess.run([*install, NODE], check=True)
    with_node = {**os.environ, "PATH": os.pathsep.join([f"{folder}/node_modules/.bin", os.environ["PATH"]])}
    subprocess.run([*install, *npm], env=with_node, check=True)
    shutil.rmtree(folder / "cache")
    for each in AGENTS:
        if not each.is_npm:
            _install_python_agent(each, folder, uv)


def _install_python_agent(agent: Agent, folder: Path, uv: str) -> None:
    own = folder / agent.tool
    version = ("--python", agent.python) if agent.python else ()
    pyenv = sorted(str(path) for path in Path.home().glob(".pyenv/versions/*/bin"))  # uv takes its shims only
    others = {**os.environ, "PATH": os.pathsep.join([os.environ["PATH"], *pyenv])}
    subprocess.run([uv, "venv", "--quiet", "--clear", *version, str(own)], env=others, check=True)
    python = str(own / "bin" / "python")
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, agent.requirement], check=True)


def as_generated(page: str) -> str:
    """Return the page with the table as it would be written now."""
    return _SPAN.sub(lambda span: "\n".join((span["begin"], *_table_lines(), "", span["end"])), page)


def _table_lines() -> Iterator[str]:
    yield from heading("tool", "version", "dialect", "what it did", "summed up, and went on", "test", "last tried")
    for each in AGENTS:
        tool = find_tool(each.tool)
        is_listing = tool.id == "aider"
        outcome = "wrote a file from a listing in the answer" if is_listing else "wrote a file by a tool call, streamed"
        route = tool.route if tool.route is not ToolRoute.GOOGLE else "Google's"
        test = f"`test_agents.py[{tool.id}]`"
        yield line(
            tool.name,
            each.version,
            f"`{route}`" if "/" in route else route,
            outcome,
            each.compaction or "no",
            test,
            each.tried_on,
        )


def main() -> int:
    """Install the agents (`--install FOLDER UV`), write the table (`--write`), or tell by 1 that it is another."""
    if "--install" in sys.argv:
        folder, uv = sys.argv[sys.argv.index("--install") + 1 :]
        install_agents(Path(folder), uv)
        return 0
    text = PAGE.read_text(encoding="utf-8")
    if "--write" in sys.argv:
        PAGE.write_text(as_generated(text), encoding="utf-8")
        return 0
    return int(as_generated(text) != text)


if __name__ == "__main__":
    sys.exit(main())
