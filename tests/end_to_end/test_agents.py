"""Coding agents, started for real by `roundhouse launch`: each writes a file by a tool call that a script makes.

Without a folder of agents (`make clients` makes it) the tests are skipped.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.client.http import GatewayClient
from app.config.paths import Paths
from app.config.programs import module_command
from app.core.models import AttachEndpoint, ModelInfo
from app.core.tool_prompts import ToolPrompt, find_tool_prompt
from tests.agents import AGENTS, Agent, record_prompt, search_path
from tests.scripted_endpoint import ANSWER, CONTENT, FILE, ScriptedEndpoint

pytestmark = [
    pytest.mark.real_engine,
    pytest.mark.skipif(sys.platform == "win32", reason="they are installed for POSIX"),
    pytest.mark.timeout(600),
]
_SIZES_DIFFER = 0.25
"""Prompts name the date, the folder and what the system is; more means that an agent changed."""
_WITHIN_S = 300.0
"""An agent's first start on a busy machine, which unpacks itself."""


def environment_for(path: str, person: Path, project: Path) -> dict[str, str]:
    """Return the environment of somebody who has no settings yet and works in `project`."""
    theirs = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_HOME"))}
    kept = {name: os.environ[name] for name in ("ROUNDHOUSE_HOME",)}
    return {**theirs, **kept, "PATH": path, "HOME": str(person), "PWD": str(project), "IS_SANDBOX": "1"}


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.tool)
def test_an_agent_writes_a_file_by_a_tool_call_and_changes_none_of_its_settings(
    agent: Agent, client: GatewayClient, home: Paths, tmp_path: Path
) -> None:
    path, person, project = search_path(), tmp_path / "person", tmp_path / "project"
    person.mkdir()
    project.mkdir()
    with ScriptedEndpoint(str(project)) as endpoint:
        name = f"coder-{agent.tool}"
        client.post("/attached", AttachEndpoint(url=endpoint.url, name=name), list[ModelInfo])
        command = module_command("app.cli", "launch", agent.tool, name, "--", *agent.arguments)
        done = subprocess.run(
            command,
            env={**environment_for(path, person, project), "PYTHONPATH": str(Path(__file__).parents[2])},
            cwd=project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_WITHIN_S,
            check=False,
        )
    output = done.stdout + done.stderr
    assert (project / FILE).is_file(), output
    assert (project / FILE).read_text(encoding="utf-8").rstrip("\n") == CONTENT
    assert ANSWER in output
    assert done.returncode == 0
    assert any(body.get("stream") for body in endpoint.requests)
    _compare_prompt(record_prompt(agent, endpoint.requests))
    suffixes, addresses = {".json", ".toml", ".yml", ".env"}, (endpoint.url, client.gateway.url)
    settings = [file.read_text(encoding="utf-8") for file in person.rglob("*") if file.suffix in suffixes]
    assert not [text for text in settings for address in addresses if address in text]


def _compare_prompt(sent: ToolPrompt) -> None:
    """Fail where what is told of an agent's prompts is no longer so; print what is."""
    print(sent)  # noqa: T201 -- to be copied to app.core.tool_prompts
    known = find_tool_prompt(sent.tool)
    assert known is not None
    for name in ("prompt_bytes", "tools", "tool_bytes"):
        assert getattr(known, name) == pytest.approx(getattr(sent, name), rel=_SIZES_DIFFER, abs=400), name
