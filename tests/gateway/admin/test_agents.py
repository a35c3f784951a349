"""Coding agents over HTTP: started in a folder, asked, held to it, and ended in words whatever they do."""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from app.config.paths import Paths
from app.core.agents import (
    AgentAnswer,
    AgentCallStatus,
    AgentEntry,
    AgentEntryChanged,
    AgentEvent,
    AgentList,
    AgentNote,
    AgentPermission,
    AgentPlan,
    AgentPromptText,
    AgentSession,
    AgentSessionChanged,
    AgentState,
    AgentTerminal,
    AgentTextAdded,
    AgentThought,
    AgentToolCall,
    AgentTranscript,
    DecideAgentPermission,
    NewAgentSession,
)
from app.core.keys import NewKey, Scope
from app.gateway.agents import session as hosted
from app.gateway.agents import transcript as transcripts
from app.gateway.agents.sessions import AgentSessions, SessionFiles
from app.gateway.hosting import reach
from tests.fake_agent import agent as fake
from tests.gateway.admin.conftest import Api
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the scripted agent is a program by its first line")
needs_confinement = pytest.mark.skipif(not reach.can_confine(), reason="this system confines nothing")
_OVER = {AgentState.ENDED, AgentState.FAILED}


class AgentApi:
    """Sessions of the scripted agent, in place of OpenCode."""

    def __init__(self, api: Api, project: Path) -> None:
        self.api, self.project = api, project

    async def start(
        self, *, fault: str = "", until: AgentState = AgentState.READY, network: bool = False
    ) -> AgentSession:
        if fault:
            (self.project / "fault").write_text(fault, encoding="utf-8")
        new = NewAgentSession(agent="opencode", folder=str(self.project), network=network)
        session = await self.api.call("POST", "/agents/sessions", AgentSession, new)
        return await self.wait(session, until)

    async def wait(self, session: AgentSession, *states: AgentState) -> AgentSession:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                about = (await self.read(session)).session
                if about.state in states:
                    return about
                await asyncio.sleep(0.03)

    async def read(self, session: AgentSession) -> AgentTranscript:
        return await self.api.call("GET", f"/agents/sessions/{session.id}", AgentTranscript)

    async def send(self, session: AgentSession, text: str) -> None:
        path = f"/agents/sessions/{session.id}/prompts"
        await self.api.call("POST", path, AgentSession, AgentPromptText(text=text))

    async def ask(self, session: AgentSession, text: str) -> list[AgentEntry]:
        """Send a prompt, and return the entries of the turn once the agent waits again or has ended."""
        before = len((await self.read(session)).entries)
        await self.send(session, text)
        await self.wait(session, AgentState.READY, *_OVER)
        return (await self.read(session)).entries[before + 1 :]

    async def say(self, session: AgentSession, text: str) -> str:
        return "".join(entry.text for entry in await self.ask(session, text) if isinstance(entry, AgentAnswer))

    async def question(self, session: AgentSession) -> AgentPermission:
        await self.wait(session, AgentState.ASKING)
        entries = (await self.read(session)).entries
        return next(entry for entry in entries if isinstance(entry, AgentPermission) and entry.is_open)

    async def decide(self, session: AgentSession, question: AgentPermission, option: str) -> None:
        path = f"/agents/sessions/{session.id}/permissions/{question.id}"
        await self.api.call("POST", path, AgentSession, DecideAgentPermission(option=option))

    async def post(self, session: AgentSession, action: str) -> AgentSession:
        return await self.api.call("POST", f"/agents/sessions/{session.id}/{action}", AgentSession)


@pytest.fixture
async def agents(
    api: Api, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[AgentApi]:
    base = tmp_path_factory.mktemp("agents").resolve()  # beside what the gateway keeps, which no agent is given
    programs, project = base / "programs", base / "project"
    programs.mkdir()
    project.mkdir()
    program = programs / "opencode"
    source = Path(fake.__file__).read_text(encoding="utf-8")  # noqa: ASYNC240 -- nobody waits
    program.write_text(f"#!{sys.executable}\n{source}", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    await api.call("PATCH", "/settings", list[object], {"agents.enabled": True})
    yield AgentApi(api, project)
    for session in await api.call("GET", "/agents/sessions", list[AgentSession]):
        await api.raw("DELETE", f"/agents/sessions/{session.id}")


def only(entries: Sequence[AgentEntry], kind: type[AgentEntry]) -> AgentEntry:
    (entry,) = [each for each in entries if isinstance(each, kind)]
    return entry


async def test_nothing_runs_until_agents_are_switched_on(api: Api, tmp_path: Path) -> None:
    agent_list = await api.call("GET", "/agents", AgentList)
    assert not agent_list.is_on
    assert {"opencode", "claude-code", "codex", "gemini-cli", "qwen-code"} <= {agent.id for agent in agent_list.agents}
    assert all(agent.install for agent in agent_list.agents)
    new = NewAgentSession(agent="opencode", folder=str(tmp_path))
    assert await api.expect_refusal("POST", "/agents/sessions", new) == (409, "agents_off")


async def test_an_agent_answers_thinks_and_plans(agents: AgentApi) -> None:
    session = await agents.start()
    assert (session.version, session.can_resume, session.name) == ("Scripted 1.0", True, "OpenCode")
    entries = await agents.ask(session, "say Hello from the agent")
    assert [type(entry) for entry in entries] == [AgentThought, AgentPlan, AgentAnswer]
    plan = only(entries, AgentPlan)
    assert isinstance(plan, AgentPlan)
    assert [(step.text, step.status.value) for step in plan.steps] == [("Look", "completed"), ("Answer", "in_progress")]
    assert "".join(entry.text for entry in entries if isinstance(entry, AgentAnswer)) == "Hello from the agent "
    assert (await agents.read(session)).session.title == "say Hello from the agent"
    assert await agents.api.expect_refusal("POST", f"/agents/sessions/{session.id}/cancel") == (409, "agent_idle")


@pytest.mark.slow
async def test_what_happens_is_told_as_it_happens_and_whole_to_who_comes_late(agents: AgentApi) -> None:
    session = await agents.start()
    texts: dict[int, str] = {}
    async with agents.api.events(f"/agents/sessions/{session.id}/events", AgentEvent) as events:
        await agents.send(session, "say one two three")
        is_over = False
        async with asyncio.timeout(PATIENCE_S):
            while not is_over:
                match await anext(events):
                    case AgentSessionChanged(session=about):
                        is_over = about.state is AgentState.READY and bool(about.title)
                    case AgentEntryChanged(entry=AgentAnswer(id=number, text=text)):
                        texts[number] = text
                    case AgentTextAdded(entry=number, offset=offset, text=text):
                        assert len(texts.get(number, "")) == offset
                        texts[number] = texts.get(number, "") + text
    await agents.post(session, "end")
    async with agents.api.events(f"/agents/sessions/{session.id}/events", AgentEvent) as events:
        late = [event async for event in events]
    answers = [event.entry for event in late if isinstance(event, AgentEntryChanged)]
    assert [entry.text for entry in answers if isinstance(entry, AgentAnswer)] == ["one two three "]
    assert set(texts.values()) <= {"one two three "[:end] for end in range(15)}


async def test_an_edit_is_asked_about_shown_and_made_once_allowed(agents: AgentApi) -> None:
    session, file = await agents.start(), agents.project / "file.txt"
    file.write_text("old", encoding="utf-8")
    file.chmod(0o640)
    await agents.send(session, f"edit {file} new")
    question = await agents.question(session)
    assert (question.title, question.kind) == ("file.txt", "edit")
    assert [(diff.path, diff.diff.splitlines()[2:]) for diff in question.diffs] == [
        ("file.txt", ["@@ -1 +1 @@", "-old", "+new"])
    ]
    assert [option.kind.value for option in question.options] == ["allow_once", "allow_always", "reject_once"]
    assert file.read_text(encoding="utf-8") == "old"
    path = f"/agents/sessions/{session.id}/permissions/{question.id}"
    assert await agents.api.expect_refusal("POST", path, DecideAgentPermission(option="root")) == (400, "invalid_value")
    await agents.decide(session, question, "yes")
    await agents.wait(session, AgentState.READY)
    assert (file.read_text(encoding="utf-8"), stat.S_IMODE(file.stat().st_mode)) == ("new", 0o640)
    assert await agents.api.expect_refusal("POST", path, DecideAgentPermission(option="yes")) == (
        409,
        "already_decided",
    )
    call = only((await agents.read(session)).entries, AgentToolCall)
    assert isinstance(call, AgentToolCall)
    assert (call.status, call.text, call.paths) == (AgentCallStatus.COMPLETED, "Written.", ["file.txt"])
    assert call.diffs  # what was first told of the change stays when only its end is told


@pytest.mark.slow
async def test_an_edit_that_is_refused_is_not_made_and_always_asks_no_more(agents: AgentApi) -> None:
    session, file = await agents.start(), agents.project / "file.txt"
    await agents.send(session, f"edit {file} new")
    await agents.decide(session, await agents.question(session), "no")
    await agents.wait(session, AgentState.READY)
    assert not file.exists()
    await agents.send(session, f"edit {file} new")
    await agents.decide(session, await agents.question(session), "all")
    await agents.wait(session, AgentState.READY)
    assert file.read_text(encoding="utf-8") == "new"
    assert await agents.say(session, f"write {file} newer") == "done: "
    assert file.read_text(encoding="utf-8") == "newer"


@pytest.mark.slow
async def test_a_write_that_the_agent_did_not_ask_about_is_asked_about(agents: AgentApi) -> None:
    session, file = await agents.start(), agents.project / "deep" / "file.txt"
    for option, text in (("refuse", None), ("once", "a b")):
        await agents.send(session, f"write {file} a b")
        question = await agents.question(session)
        assert (question.title, question.diffs[0].is_new) == ("deep/file.txt", True)
        await agents.decide(session, question, option)
        await agents.wait(session, AgentState.READY)
        assert (file.read_text(encoding="utf-8") if file.exists() else None) == text
    assert await agents.say(session, f"read {file}") == "done: a b"


async def test_files_outside_of_the_folder_are_neither_read_nor_written(agents: AgentApi) -> None:
    session, secret = await agents.start(), agents.project.parent / "secret.txt"
    secret.write_text("secret", encoding="utf-8")
    (agents.project / "link.txt").symlink_to(secret)
    (agents.project / "linked").symlink_to(agents.project.parent)
    (agents.project / "picture").write_bytes(b"\xff\xfe\x00")
    inside = agents.project
    for path in (
        secret,
        inside / ".." / "secret.txt",
        inside / "link.txt",
        inside / "linked" / "secret.txt",
        Path("secret.txt"),
        Path("/etc/passwd"),
        inside / "picture",
        inside,
    ):
        assert (await agents.say(session, f"read {path}")).startswith("refused: "), path
    assert (await agents.say(session, f"read {inside / 'none.txt'}")).startswith("refused: Resource not found")
    for path in (secret, inside / "link.txt", inside / "linked" / "new.txt", inside / ".." / "new.txt"):
        assert (await agents.say(session, f"write {path} gone")).startswith("refused: "), path
    assert secret.read_text(encoding="utf-8") == "secret"
    assert not (agents.project.parent / "new.txt").exists()


@pytest.mark.slow
@needs_confinement
async def test_an_agent_itself_reads_nothing_beside_its_folder(agents: AgentApi, paths: Paths) -> None:
    secret = agents.project.parent / "secret.txt"
    secret.write_text("secret", encoding="utf-8")
    session = await agents.start()
    assert session.is_confined
    assert await agents.say(session, f"steal {secret}") == "denied: PermissionError"
    assert await agents.say(session, f"steal {paths.settings_file}") == "denied: PermissionError"
    (agents.project / "own.txt").write_text("mine", encoding="utf-8")
    assert await agents.say(session, f"steal {agents.project / 'own.txt'}") == "stolen: mine"


@pytest.mark.slow
@needs_confinement
async def test_a_command_runs_in_the_folder_confined_and_is_shown(agents: AgentApi) -> None:
    secret = agents.project.parent / "secret.txt"
    secret.write_text("secret", encoding="utf-8")
    session = await agents.start()
    entries = await agents.ask(session, f"run pwd; cat {secret} 2>/dev/null; exit 7")
    terminal = only(entries, AgentTerminal)
    assert isinstance(terminal, AgentTerminal)
    assert (terminal.output.strip(), terminal.exit_code) == (str(agents.project), 7)
    answer = only(entries, AgentAnswer)
    assert isinstance(answer, AgentAnswer)
    assert answer.text == f"exit 7: {agents.project}"


async def test_no_command_runs_where_nothing_is_confined(agents: AgentApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.gateway.agents.sessions.can_confine", lambda: False)
    session = await agents.start()
    assert not session.is_confined
    assert (await agents.say(session, "run pwd")).startswith("refused: ")


@pytest.mark.slow
async def test_an_agent_has_a_key_of_its_own_that_ends_with_it(agents: AgentApi) -> None:
    session, services = await agents.start(), agents.api.gateway.services
    key, in_argv, home, folder = (await agents.say(session, "facts")).split()
    key_info = services.keys.find_key(key)
    assert key_info is not None
    assert (key_info.scopes, in_argv, folder) == ([Scope.INFERENCE], "False", str(agents.project))
    assert home == str(services.paths.agent_homes / "opencode")
    assert key.encode() not in services.paths.keys_file.read_bytes() if services.paths.keys_file.exists() else True
    assert len(services.keys) == 0
    await agents.post(session, "end")
    assert services.keys.find_key(key) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prompt", "words"),
    [("die", "exit code 3"), ("line", "too long"), ("garbage 2000", "none of the protocol's messages")],
)
async def test_an_agent_that_breaks_off_says_so_and_nothing_is_lost(agents: AgentApi, prompt: str, words: str) -> None:
    session = await agents.start()
    await agents.ask(session, "say before")
    entries = await agents.ask(session, prompt)
    note = only(entries, AgentNote)
    assert isinstance(note, AgentNote)
    about = (await agents.read(session)).session
    assert (about.state, note.is_problem, words in about.problem) == (AgentState.FAILED, True, True), about.problem
    if prompt == "die":
        assert about.hint == "I have no more tokens"
        assert any(isinstance(entry, AgentAnswer) and entry.text == "last words" for entry in entries)
    all_entries = (await agents.read(session)).entries
    assert any(isinstance(entry, AgentAnswer) and "before" in entry.text for entry in all_entries)
    path = f"/agents/sessions/{session.id}/prompts"
    assert await agents.api.expect_refusal("POST", path, AgentPromptText(text="say more")) == (409, "agent_not_running")


@pytest.mark.slow
async def test_a_flood_ends_the_agent(agents: AgentApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcripts, "LARGEST_CHARACTERS", 2_000_000)
    session = await agents.start()
    await agents.send(session, "flood")
    about = await agents.wait(session, AgentState.FAILED)
    assert "more than can be kept" in about.problem


@pytest.mark.slow
async def test_a_little_that_is_no_message_is_skipped(agents: AgentApi) -> None:
    session = await agents.start()
    assert await agents.say(session, "garbage 20") == "clean again"


@pytest.mark.slow
async def test_answers_that_the_protocol_does_not_know_are_refused(agents: AgentApi) -> None:
    session = await agents.start()
    assert await agents.say(session, "kinds") == "refused: Invalid params"


@pytest.mark.slow
async def test_an_agent_that_refuses_a_prompt_says_why_and_goes_on(agents: AgentApi) -> None:
    session = await agents.start()
    note = only(await agents.ask(session, "fail"), AgentNote)
    assert isinstance(note, AgentNote)
    assert "The model is on holiday." in note.text
    assert await agents.say(session, "say again") == "again "
    call = only(await agents.ask(session, "leave"), AgentToolCall)
    assert isinstance(call, AgentToolCall)
    assert call.status is AgentCallStatus.CANCELLED  # the turn is over, so nothing of it goes on


@pytest.mark.slow
async def test_a_prompt_is_stopped_also_while_a_person_is_asked(agents: AgentApi) -> None:
    session = await agents.start()
    for prompt, state in (("wait", AgentState.WORKING), (f"edit {agents.project / 'x'} y", AgentState.ASKING)):
        await agents.send(session, prompt)
        await agents.wait(session, state)
        path = f"/agents/sessions/{session.id}/prompts"
        assert await agents.api.expect_refusal("POST", path, AgentPromptText(text="say")) == (409, "agent_busy")
        await agents.post(session, "cancel")
        await agents.wait(session, AgentState.READY)
    assert not (agents.project / "x").exists()
    questions = [each for each in (await agents.read(session)).entries if isinstance(each, AgentPermission)]
    assert [(question.is_open, question.answer) for question in questions] == [(False, "")]


@pytest.mark.slow
async def test_an_agent_that_does_not_stop_is_ended(agents: AgentApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted, "CANCEL_S", 0.1)
    session = await agents.start()
    await agents.send(session, "hang")
    await agents.post(session, "cancel")
    assert "did not stop" in (await agents.wait(session, AgentState.FAILED)).problem


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "words"),
    [("crash", "exit code 4"), ("sign-in", "sign in"), ("version", "version 99"), ("mute", "did not become ready")],
)
async def test_an_agent_that_does_not_start_says_why(
    agents: AgentApi, monkeypatch: pytest.MonkeyPatch, fault: str, words: str
) -> None:
    if fault == "mute":
        monkeypatch.setattr(hosted, "READY_S", 0.5)
    session = await agents.start(fault=fault, until=AgentState.FAILED)
    assert words in session.problem
    if fault == "crash":
        assert session.hint == "I have no licence file"


@pytest.mark.slow
async def test_a_session_is_taken_up_again_and_not_told_twice(agents: AgentApi) -> None:
    session = await agents.start()
    await agents.ask(session, "say before")
    await agents.ask(session, "die")
    await agents.post(session, "resume")
    about = await agents.wait(session, AgentState.READY)
    assert (agents.project / "loaded").read_text(encoding="utf-8") == fake.SESSION
    assert about.problem == ""
    assert await agents.say(session, "say after") == "after "
    answers = [each.text for each in (await agents.read(session)).entries if isinstance(each, AgentAnswer)]
    assert answers == ["before ", "last words", "after "]
    assert await agents.api.expect_refusal("POST", f"/agents/sessions/{session.id}/resume") == (409, "agent_running")


@pytest.mark.slow
async def test_a_session_without_loading_stays_to_be_read(agents: AgentApi) -> None:
    session = await agents.start(fault="no-load")
    await agents.post(session, "end")
    assert await agents.api.expect_refusal("POST", f"/agents/sessions/{session.id}/resume") == (
        409,
        "agent_cannot_resume",
    )


@pytest.mark.slow
async def test_sessions_are_kept_over_a_restart_and_removed(agents: AgentApi, paths: Paths) -> None:
    session = await agents.start()
    await agents.ask(session, "say kept")
    services = agents.api.gateway.services
    async with asyncio.timeout(PATIENCE_S):
        while not list(paths.agent_sessions.glob("*.session.json")):  # noqa: ASYNC110 -- a file appears
            await asyncio.sleep(0.05)
    await agents.post(session, "end")
    again = AgentSessions(services)
    async with asyncio.timeout(PATIENCE_S):
        while not (about := (await again.list_sessions())[0]).title:
            await asyncio.sleep(0.05)
            again = AgentSessions(services)
    assert (about.id, about.state) == (session.id, AgentState.ENDED)
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in paths.agent_sessions.iterdir())
    (paths.agent_sessions / "broken.session.json").write_text("{", encoding="utf-8")
    await agents.api.raw("DELETE", f"/agents/sessions/{session.id}")
    assert [file.name for file in paths.agent_sessions.iterdir()] == ["broken.session.json"]
    assert await agents.api.expect_refusal("DELETE", f"/agents/sessions/{session.id}") == (
        404,
        "agent_session_not_found",
    )


async def test_a_folder_is_checked_before_anything_starts(agents: AgentApi, tmp_path: Path, paths: Paths) -> None:
    for folder, refusal in (
        ("project", (400, "invalid_value")),
        (str(tmp_path / "none"), (404, "folder_not_found")),
        (str(Path.home()), (400, "folder_too_wide")),
        ("/", (400, "folder_too_wide")),
        (str(paths.data), (400, "folder_too_wide")),
    ):
        new = NewAgentSession(agent="opencode", folder=folder)
        assert await agents.api.expect_refusal("POST", "/agents/sessions", new) == refusal, folder
    unknown = NewAgentSession(agent="emacs", folder=str(agents.project))
    assert await agents.api.expect_refusal("POST", "/agents/sessions", unknown) == (404, "agent_not_found")
    missing_folder = NewAgentSession(agent="codex", folder=str(agents.project))
    assert await agents.api.expect_refusal("POST", "/agents/sessions", missing_folder) == (404, "agent_not_installed")


@pytest.mark.slow
async def test_with_a_key_agents_are_watched_and_stopped_and_no_more(agents: AgentApi) -> None:
    session = await agents.start()
    new_key = agents.api.gateway.services.keys.make_key(NewKey(name="remote", scopes=[Scope.MANAGE]))
    remote = Api(agents.api.gateway, new_key.key)
    assert [each.id for each in await remote.call("GET", "/agents/sessions", list[AgentSession])] == [session.id]
    new = NewAgentSession(agent="opencode", folder=str(agents.project))
    for path, body in (
        ("", new),
        (f"/{session.id}/prompts", AgentPromptText(text="say")),
        (f"/{session.id}/permissions/0", DecideAgentPermission(option="yes")),
        (f"/{session.id}/resume", None),
    ):
        assert await remote.expect_refusal("POST", f"/agents/sessions{path}", body) == (403, "agents_need_person")
    assert (await remote.call("POST", f"/agents/sessions/{session.id}/end", AgentSession)).state is AgentState.ENDED


@pytest.mark.slow
async def test_agents_that_reach_other_computers_end_when_nothing_may_go_out(agents: AgentApi) -> None:
    near, far = await agents.start(), await agents.start(network=True)
    await agents.api.call("PATCH", "/settings", list[object], {"network.offline": True})
    await agents.wait(far, AgentState.ENDED)
    assert (await agents.read(near)).session.state is AgentState.READY
    await agents.api.call("PATCH", "/settings", list[object], {"network.offline": None})


def test_a_session_that_cannot_be_read_is_left_alone(paths: Paths) -> None:
    paths.agent_sessions.mkdir(parents=True)
    assert SessionFiles(paths).read_all() == []
