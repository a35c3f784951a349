"""Coding agents that are hosted, for real: each edits a file once it is allowed, and the change is shown before.

Without a folder of agents (`make clients` makes it) the tests are skipped.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.client.discovery import read_port_file
from app.client.http import GatewayClient
from app.config.paths import Paths
from app.config.programs import child_environment, module_command
from app.core.agents import (
    AgentAnswer,
    AgentCallStatus,
    AgentOptionKind,
    AgentPermission,
    AgentPromptText,
    AgentSession,
    AgentState,
    AgentToolCall,
    AgentTranscript,
    DecideAgentPermission,
    NewAgentSession,
)
from app.core.models import AttachEndpoint, ModelInfo
from tests.agents import search_path
from tests.patience import wait_until
from tests.scripted_endpoint import ANSWER, CONTENT, FILE, ScriptedEndpoint

pytestmark = [
    pytest.mark.real_engine,
    pytest.mark.skipif(sys.platform == "win32", reason="it is installed for POSIX"),
    pytest.mark.timeout(600),
]
_WITHIN_S = 300.0
"""An agent's first start on a busy machine, which unpacks itself."""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[GatewayClient]:
    """A gateway of its own, which finds the agents on its PATH."""
    base = tmp_path / "home"
    paths = Paths(config=base / "config", data=base / "data", state=base / "state", logs=base / "logs")
    extra = {"PATH": search_path(), "ROUNDHOUSE_HOME": str(base), "ROUNDHOUSE_GATEWAY_PORT": "0"}
    with subprocess.Popen(module_command("app.gateway"), env=child_environment(extra), cwd=os.sep) as process:
        try:
            wait_until(lambda: read_port_file(paths.port_file) is not None)
            port_file = read_port_file(paths.port_file)
            assert port_file is not None
            yield GatewayClient(port_file)
        finally:
            process.terminate()


def read_session(client: GatewayClient, session: AgentSession) -> AgentTranscript:
    return client.get(f"/agents/sessions/{session.id}", AgentTranscript)


def wait_for(client: GatewayClient, session: AgentSession, state: AgentState) -> AgentTranscript:
    def is_there() -> bool:
        about = read_session(client, session).session
        assert about.state is not AgentState.FAILED, (about.problem, about.hint)
        return about.state is state

    wait_until(is_there, within_s=_WITHIN_S)
    return read_session(client, session)


HOSTED = {
    "opencode": ("OpenCode", FILE, "edit"),
    "gemini-cli": ("Gemini CLI", f"Writing to {FILE}", "edit"),
    "claude-code": ("Claude Agent", f"Write {FILE}", "edit"),
    "codex": ("Codex", "printf", "execute"),
    "qwen-code": ("Qwen Code", "", "edit"),
    "copilot-cli": ("Copilot", "", "edit"),
}
"""What each calls itself, and its question: how that begins, and of what kind it is."""
CREATING = {"qwen-code", "copilot-cli"}
"""Those that write over no file that they have not read."""


@pytest.mark.parametrize("agent", HOSTED)
def test_an_agent_edits_a_file_once_it_is_allowed_and_shows_the_change_before(
    agent: str, service: GatewayClient, tmp_path: Path
) -> None:
    name, title, kind = HOSTED[agent]
    project = (tmp_path / "project").resolve()
    project.mkdir()
    file, before = project / FILE, None if agent in CREATING else "Hello\n"
    if before is not None:
        file.write_text(before, encoding="utf-8")
    service.patch("/settings", {"agents.enabled": True}, list[object])
    with ScriptedEndpoint(str(project)) as endpoint:
        service.post("/attached", AttachEndpoint(url=endpoint.url, name="coder"), list[ModelInfo])
        new = NewAgentSession(agent=agent, folder=str(project), model="coder")
        session = service.post("/agents/sessions", new, AgentSession)
        path = f"/agents/sessions/{session.id}"
        assert name in wait_for(service, session, AgentState.READY).session.version
        service.post(f"{path}/prompts", AgentPromptText(text=f"Write {FILE} that says {CONTENT}."), AgentSession)
        asking_entries = wait_for(service, session, AgentState.ASKING).entries
        question = next(entry for entry in asking_entries if isinstance(entry, AgentPermission))
        assert (question.title[: len(title)], question.kind) == (title, kind)
        if kind == "edit":
            shown_diffs = [
                entry.diffs for entry in asking_entries if isinstance(entry, (AgentPermission, AgentToolCall))
            ]
            assert [diff.diff.splitlines()[-1] for diffs in shown_diffs for diff in diffs][-1] == f"+{CONTENT}"
        assert (file.read_text(encoding="utf-8") if file.exists() else None) == before
        once = next(option.id for option in question.options if option.kind is AgentOptionKind.ALLOW_ONCE)
        service.post(f"{path}/permissions/{question.id}", DecideAgentPermission(option=once), AgentSession)
        entries = wait_for(service, session, AgentState.READY).entries
    assert file.read_text(encoding="utf-8").rstrip("\n") == CONTENT
    assert [entry.text for entry in entries if isinstance(entry, AgentAnswer)][-1].endswith(ANSWER)
    assert [entry.status for entry in entries if isinstance(entry, AgentToolCall)] == [AgentCallStatus.COMPLETED]
    service.delete(path)
