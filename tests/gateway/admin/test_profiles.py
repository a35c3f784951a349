"""Profiles with real processes: what a switch loads and unloads, answers that it must not break, undo, the command."""

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from app.cli import main
from app.core.api import SettingInfo
from app.core.engines import EngineState, EngineStatus, Pause
from app.core.errors import Conflict, NotFound
from app.core.models import LoadModel, ModelSettings, SetModel
from app.core.profiles import Profile, ProfileAction, ProfileList, ProfileModel, ProfilePlan, SaveProfile, UseProfile
from tests.gateway.admin.real_gateway import RealGateway, run_gateway
from tests.patience import PATIENCE_S


@pytest.fixture
def gateway(lent_gateway: RealGateway) -> RealGateway:
    return lent_gateway


@pytest.fixture
def new_gateway(tmp_path: Path, unused_port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealGateway]:
    """One that has just looked at the clock: what is given hours now does not begin before it looks again."""
    with run_gateway(tmp_path, unused_port) as gateway:
        monkeypatch.setenv("ROUNDHOUSE_HOME", str(tmp_path))
        yield gateway


def save(gateway: RealGateway, name: str, *models: ProfileModel, aliases: tuple[str, ...] = ()) -> None:
    profile = Profile(name=name, models=list(models), aliases=list(aliases))
    gateway.client.post("/profiles", SaveProfile(profile=profile), Profile)


def use(gateway: RealGateway, name: str) -> dict[str, ProfileAction]:
    plan = gateway.client.post("/profile/use", UseProfile(name=name), ProfilePlan)
    return {step.model: step.action for step in plan.steps}


def load(gateway: RealGateway, model: str) -> EngineStatus:
    return gateway.client.post("/load", LoadModel(model=model), EngineStatus)


def wait_for(gateway: RealGateway, *models: str) -> dict[str, EngineStatus]:
    """Return what is ready once that is exactly these models."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        statuses = gateway.client.get("/running", list[EngineStatus])
        is_ready = all(status.state is EngineState.READY for status in statuses)
        is_done = not gateway.client.get("/profiles", ProfileList).loading
        if is_done and is_ready and sorted(status.model for status in statuses) == sorted(models):
            return {status.model: status for status in statuses}
        assert time.monotonic() < deadline, statuses
        time.sleep(0.05)


@pytest.mark.slow
def test_only_what_differs_is_loaded_and_unloaded_and_undone(gateway: RealGateway) -> None:
    kept_load, _ = load(gateway, "quick"), load(gateway, "slow")
    save(gateway, "coding", ProfileModel(model="quick"), ProfileModel(model="heavy", is_pinned=True, context=256))
    plan = gateway.client.post("/profile/plan", UseProfile(name="coding"), ProfilePlan)
    assert wait_for(gateway, "quick", "slow"), "a plan changes nothing"
    assert use(gateway, "coding") == {step.model: step.action for step in plan.steps}
    assert {step.model: step.action for step in plan.steps} == {
        "slow": ProfileAction.UNLOAD,
        "quick": ProfileAction.KEEP,
        "heavy": ProfileAction.LOAD,
    }
    after = wait_for(gateway, "quick", "heavy")
    assert (after["heavy"].context, after["heavy"].is_pinned, after["quick"].pid) == (256, True, kept_load.pid)
    assert gateway.client.get("/model-settings", dict[str, ModelSettings]) == {}, "a profile changes no settings"
    gateway.client.post("/profile/undo", None, ProfilePlan)
    assert wait_for(gateway, "quick", "slow")["quick"].pid == kept_load.pid
    assert gateway.client.get("/profiles", ProfileList).active == ""
    with pytest.raises(Conflict):
        gateway.client.post("/profile/undo", None, ProfilePlan)


def test_the_memory_of_a_plan_is_that_of_what_is_loaded(gateway: RealGateway) -> None:
    load(gateway, "slow")
    save(gateway, "coding", ProfileModel(model="heavy"))
    plan = gateway.client.post("/profile/plan", UseProfile(name="coding"), ProfilePlan)
    (pool, *_) = plan.pools
    sizes = {step.model: step.memory_bytes for step in plan.steps}
    assert pool.after_bytes == sizes["heavy"]
    assert pool.before_bytes
    assert pool.limit > pool.after_bytes


def test_what_a_person_pinned_stays_and_a_place_too_few_leaves_one_out(gateway: RealGateway) -> None:
    pinned_model = SetModel(model="slow", settings=ModelSettings(pinned=True))
    gateway.client.post("/model-settings", pinned_model, ModelSettings)
    gateway.client.patch("/settings", {"models.max_loaded": 2}, list[SettingInfo])
    load(gateway, "slow")
    save(gateway, "coding", ProfileModel(model="quick"), ProfileModel(model="heavy"))
    assert use(gateway, "coding") == {
        "slow": ProfileAction.STAY,
        "quick": ProfileAction.LOAD,
        "heavy": ProfileAction.LEAVE_OUT,
    }
    wait_for(gateway, "slow", "quick")


@pytest.mark.parametrize("names", [("other",), ("small", "other")])
def test_no_answer_is_broken_off(gateway: RealGateway, names: tuple[str, ...]) -> None:
    """An answer is written by a model that has to go, or that was to get another context before that."""
    gateway.client.patch("/settings", {"engine.drain_seconds": 1}, list[SettingInfo])
    save(gateway, "small", ProfileModel(model="slow", context=256))
    save(gateway, "other", ProfileModel(model="quick"))
    with closing(http.client.HTTPConnection(urlsplit(gateway.port_file.url).netloc, timeout=PATIENCE_S)) as connection:
        pid = begin_answer(connection, gateway)
        for name in names:
            use(gateway, name)
        wait_until_draining(gateway, pid)
    wait_for(gateway, "quick")


@pytest.mark.slow
def test_a_model_gets_its_context_after_the_answer_it_writes(gateway: RealGateway) -> None:
    gateway.client.patch("/settings", {"engine.drain_seconds": 1}, list[SettingInfo])
    save(gateway, "small", ProfileModel(model="slow", context=256), ProfileModel(model="quick"))
    with closing(http.client.HTTPConnection(urlsplit(gateway.port_file.url).netloc, timeout=PATIENCE_S)) as connection:
        pid = begin_answer(connection, gateway)
        assert use(gateway, "small") == {"slow": ProfileAction.RELOAD, "quick": ProfileAction.LOAD}
        wait_until_draining(gateway, pid)
    after = wait_for(gateway, "slow", "quick")["slow"]
    assert (after.context, after.pid == pid) == (256, False)


def begin_answer(connection: http.client.HTTPConnection, gateway: RealGateway) -> int | None:
    body = {"model": "slow", "stream": True, "messages": [{"role": "user", "content": "Go on"}]}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    assert reply.status == 200
    assert reply.readline()
    (status,) = gateway.client.get("/running", list[EngineStatus])
    return status.pid


def wait_until_draining(gateway: RealGateway, pid: int | None) -> None:
    """Return once the other model is loaded, and the one that writes still does, for longer than a drain lasts."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        states = {status.model: status for status in gateway.client.get("/running", list[EngineStatus])}
        slow, quick = states["slow"], states.get("quick")
        assert (slow.pid, slow.in_flight) == (pid, 1), "the answer goes on"
        if quick is not None and quick.state is EngineState.READY and time.time() - (quick.loaded_at or 0.0) > 2.0:
            return
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_pause_and_a_name_that_is_not_there_are_refused(gateway: RealGateway) -> None:
    save(gateway, "coding", ProfileModel(model="QUICK"))
    assert gateway.client.get("/profiles/coding", Profile).models[0].model == "quick", "as it runs"
    with pytest.raises(NotFound):
        use(gateway, "nothing")
    with pytest.raises(NotFound):
        save(gateway, "x", ProfileModel(model="nosuch"))
    gateway.client.post("/pause", None, Pause)
    with pytest.raises(Conflict):
        use(gateway, "coding")


def test_a_model_that_does_not_load_is_told(gateway: RealGateway) -> None:
    save(gateway, "coding", ProfileModel(model="broken"), ProfileModel(model="quick"))
    use(gateway, "coding")
    deadline = time.monotonic() + PATIENCE_S
    while not (state := gateway.client.get("/profiles", ProfileList)).problems or state.loading:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert state.problems[0].startswith("broken: ")
    assert state.active == "coding"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main.roundhouse, ["profiles", *arguments])
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.mark.slow
def test_the_command_does_it_all(new_gateway: RealGateway) -> None:
    load(new_gateway, "quick")
    assert "quick" in run("save", "now")
    run("save", "coding", "--model", "heavy=256", "--pin", "heavy", "--alias", "gpt-*=heavy", "--default", "heavy")
    assert "load           heavy" in run("use", "coding", "--plan")
    run("use", "coding")
    wait_for(new_gateway, "heavy")
    assert json.loads(run("list", "--json"))["profiles"]["active"] == "coding"
    assert "22:00-06:00" in run("hours", "coding", "fri-mon", "22:00-06:00")
    assert json.loads(run("show", "coding", "--json"))["profile"]["hours"][0]["days"] == ["fri", "sat", "sun", "mon"]
    run("save", "coding", "--model", "heavy")
    assert "22:00-06:00" in run("show", "coding"), "hours stay when the rest is replaced"
    run("undo")
    wait_for(new_gateway, "quick")
    run("rename", "coding", "work")
    run("off")
    run("hours", "work", "--never")
    run("remove", "now")
    assert json.loads(run("list", "--json"))["profiles"]["profiles"] == [
        {"name": "work", "models": [{"model": "heavy"}]}
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["save", "x", "--pin", "quick"],
        ["save", "x", "--model", "quick", "--pin", "slow"],
        ["save", "x", "--model", "quick=many"],
        ["save", "x", "--alias", "nothing"],
        ["save", "a/b"],
        ["hours", "x", "mon"],
        ["hours", "x", "someday", "22:00-06:00"],
        ["hours", "x", "mon", "22-6"],
        ["hours", "x"],
        ["use", "gone"],
    ],
)
def test_mistakes_are_sentences(gateway: RealGateway, arguments: list[str]) -> None:
    save(gateway, "x")
    result = CliRunner().invoke(main.roundhouse, ["profiles", *arguments])
    assert result.exit_code in {1, 2}
    assert result.stderr
    assert "Traceback" not in result.stderr
