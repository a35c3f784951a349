"""Coding agents, started for real by `roundhouse launch`: each writes a file by a tool call that a script makes.

Without a folder of agents (`make clients` makes it) the tests are skipped.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from app.client.http import GatewayClient
from app.config.programs import module_command
from app.core.api import SettingInfo
from app.core.keys import KeyInfo
from app.core.models import AttachEndpoint, ModelInfo
from app.core.tool_prompts import ToolPrompt, find_tool_prompt
from tests.agents import AGENTS, Agent, record_prompt, search_path
from tests.client_recorder import RequestRecorder
from tests.client_transcripts import (
    ClientRequest,
    is_recording,
    make_transcript,
    read_transcript,
    write_transcript,
)
from tests.scripted_endpoint import ANSWER, CONTENT, FILE, CompactingEndpoint, ScriptedEndpoint

pytestmark = [
    pytest.mark.real_engine,
    pytest.mark.own_gateway,
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
    kept_variables = {name: os.environ[name] for name in ("ROUNDHOUSE_HOME",)}
    return {**theirs, **kept_variables, "PATH": path, "HOME": str(person), "PWD": str(project), "IS_SANDBOX": "1"}


def model_name(agent: Agent, folder: Path) -> str:
    """Return a name that no other run has."""
    return f"coder-{agent.tool}-{folder.name[-8:]}"


class AgentRun(NamedTuple):
    """What came of an agent's run in a project of its own."""

    code: int
    output: str
    person: Path
    project: Path


def run_agent(
    agent: Agent, client: GatewayClient, endpoint: ScriptedEndpoint, folder: Path, *, home: Path | None = None
) -> AgentRun:
    """Have an agent do its task by `roundhouse launch`, with a model of the endpoint, which is attached for it.

    `home` is where the command line finds the gateway, where that is not its own.
    """
    person, project = folder / "person", Path(endpoint.folder)
    person.mkdir()
    name = model_name(agent, folder)
    client.post("/attached", AttachEndpoint(url=endpoint.url, name=name), list[ModelInfo])
    environment = environment_for(search_path(), person, project)
    if home is not None:
        environment["ROUNDHOUSE_HOME"] = str(home)
    process = subprocess.run(
        module_command("app.cli", "launch", agent.tool, name, "--", *agent.arguments),
        env={**environment, "PYTHONPATH": str(Path(__file__).parents[2])},
        cwd=project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_WITHIN_S,
        check=False,
    )
    return AgentRun(process.returncode, process.stdout + process.stderr, person, project)


def expect_file(run: AgentRun) -> None:
    assert (run.project / FILE).is_file(), run.output
    assert (run.project / FILE).read_text(encoding="utf-8").rstrip("\n") == CONTENT
    assert ANSWER in run.output
    assert run.code == 0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    search_path()
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.tool)
def test_an_agent_writes_a_file_by_a_tool_call_and_changes_none_of_its_settings(
    agent: Agent, client: GatewayClient, tmp_path: Path, project: Path
) -> None:
    recorder = RequestRecorder(client.gateway, tmp_path / "recorder")
    with ScriptedEndpoint(str(project)) as endpoint, recorder:
        run = run_agent(agent, client, endpoint, tmp_path, home=recorder.home)
    expect_file(run)
    assert any(body.get("stream") for body in endpoint.requests)
    _compare_transcript(agent, recorder, model_name(agent, tmp_path))
    _compare_prompt(record_prompt(agent, endpoint.requests))
    suffixes, addresses = {".json", ".toml", ".yml", ".env"}, (endpoint.url, recorder.url)
    files = [file for file in run.person.rglob("*") if file.suffix in suffixes and file.parent.name != "cache"]
    settings = [file.read_text(encoding="utf-8") for file in files]  # Claude Code keeps the list of models in its cache
    assert not [text for text in settings for address in addresses if address in text]


def _compare_transcript(agent: Agent, recorder: RequestRecorder, model: str) -> None:
    """Fail where an agent asks for what is not in its transcript; write it where that is wanted."""
    transcript = make_transcript(agent.tool, agent.package, agent.version, recorder.exchanges, model)
    if is_recording():
        write_transcript(transcript)
    known_transcript = read_transcript(agent.tool)
    assert (known_transcript.package, known_transcript.version) == (agent.package, agent.version)
    assert {_kind_of(each) for each in transcript.requests} <= {_kind_of(each) for each in known_transcript.requests}


def _kind_of(request: ClientRequest) -> tuple[object, ...]:
    fields = tuple(sorted(request.body)) if isinstance(request.body, dict) else ()
    return request.method, request.path, request.status, request.content_type, fields


def _compare_prompt(prompt: ToolPrompt) -> None:
    """Fail where what is told of an agent's prompts is no longer so; print what is."""
    print(prompt)  # noqa: T201 -- to be copied to app.core.tool_prompts
    known_prompt = find_tool_prompt(prompt.tool)
    assert known_prompt is not None
    for name in ("prompt_bytes", "tools", "tool_bytes"):
        assert getattr(known_prompt, name) == pytest.approx(getattr(prompt, name), rel=_SIZES_DIFFER, abs=400), name


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.tool)
def test_an_agent_has_a_key_of_its_own_where_keys_are_asked_for(
    agent: Agent, client: GatewayClient, tmp_path: Path, project: Path
) -> None:
    client.patch("/settings", {"gateway.require_key": True}, list[SettingInfo])
    try:
        with ScriptedEndpoint(str(project)) as endpoint:
            run = run_agent(agent, client, endpoint, tmp_path)
        assert client.get("/keys", list[KeyInfo]) == [], "it opens nothing once the agent has ended"
    finally:
        client.patch("/settings", {"gateway.require_key": None}, list[SettingInfo])
    expect_file(run)


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("agent", [agent for agent in AGENTS if agent.compaction], ids=lambda agent: agent.tool)
def test_an_agent_sums_its_conversation_up_before_the_context_is_full_and_goes_on(
    agent: Agent, client: GatewayClient, tmp_path: Path, project: Path
) -> None:
    with CompactingEndpoint(str(project), calls=agent.calls, characters=agent.characters) as endpoint:
        run = run_agent(agent, client, endpoint, tmp_path)
    expect_file(run)
    assert bool(endpoint.summaries) is (agent.compaction == "yes"), "it asked for a summary, or made one by itself"
    assert endpoint.requests_after, "it went on from the summary"


def test_codex_takes_the_list_in_its_form_where_a_command_gives_its_key(
    client: GatewayClient, tmp_path: Path, project: Path
) -> None:
    (codex,) = (agent for agent in AGENTS if agent.tool == "codex")
    provider = "model_providers.roundhouse.auth"
    command = ("-c", f"{provider}.command=echo", "-c", f'{provider}.args=["any"]')
    with ScriptedEndpoint(str(project)) as endpoint:
        run = run_agent(
            msgspec.structs.replace(codex, arguments=(*command, *codex.arguments)), client, endpoint, tmp_path
        )
    expect_file(run)
    assert "failed to refresh available models" not in run.output
    assert "Model metadata" not in run.output, "it says so of a model that is not in the list"
