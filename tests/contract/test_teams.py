"""Dynamo, and what would be run where over several computers: command lines against reviewed ones."""

import shlex
from pathlib import Path

import msgspec
import pytest

from app.engine_store.installer import version_in_lock
from app.engine_store.recipe import ENGINES, read_recipe
from engines.api import (
    EngineInstallation,
    LaunchOptions,
    ListenOptions,
    LoadProgress,
    ModelFormat,
    ModelSource,
    ReadyWhen,
)
from engines.dynamo.launch import ADAPTER as DYNAMO
from engines.dynamo.launch import HOSTS
from engines.teams import Team, TeamPlan, team_plan

GOLDEN = Path(__file__).parent / "golden"
MODEL = ModelSource(name="large", path=Path("/models/large"), format=ModelFormat.SAFETENSORS)
NET = ListenOptions(host="127.0.0.1", port=50_001, key="secret")
FOUND = EngineInstallation(engine="vllm", version="99.0", backend="cuda", python=Path("/e/bin/python"))
OPTIONS = LaunchOptions(context=32_768, slots=8, tensor_parallel=4)


def team(*nodes: str) -> Team:
    return Team(nodes=nodes, model=MODEL, options=OPTIONS, net=NET, installation=FOUND)


def write_commands(plan: TeamPlan) -> str:
    lines = []
    for step in plan.steps:
        env = sorted(f"{name}={value}" for name, value in step.process.env.items())
        lines.append(f"# {step.machine}: {step.process.role}\n{' '.join([*env, shlex.join(step.process.argv)])}")
    return "\n".join([*lines, *(f"# {note}" for note in plan.notes)]) + "\n"


@pytest.mark.parametrize("engine", ["vllm", "dynamo"])
def test_what_is_run_where_is_as_it_was_reviewed(engine: str) -> None:
    plan = team_plan(engine, team("10.0.0.1", "10.0.0.2", "10.0.0.3"))
    assert write_commands(plan) == (GOLDEN / f"team-{engine}.txt").read_text(encoding="utf-8")
    assert plan.base_url == "http://127.0.0.1:50001"


@pytest.mark.parametrize("engine", ["vllm", "dynamo"])
def test_no_key_is_shown_and_the_trusting_ports_are_named(engine: str) -> None:
    plan = team_plan(engine, team("a", "b"))
    assert "secret" not in write_commands(plan)
    assert any("trusts everyone" in note for note in plan.notes)


def test_every_computer_is_told_by_which_address_the_others_reach_it() -> None:
    rays = [step for step in team_plan("vllm", team("a", "b", "c")).steps if step.process.role == "ray"]
    assert [(step.machine, step.process.env["VLLM_HOST_IP"]) for step in rays] == [("a", "a"), ("b", "b"), ("c", "c")]


def test_what_a_plan_runs_is_brought_by_the_recipe() -> None:
    (variant,) = read_recipe(ENGINES / "vllm").variants
    names = {Path(step.process.argv[0]).name for step in team_plan("vllm", team("a", "b")).steps}
    lock_text = read_recipe(ENGINES / "vllm").lock_of(variant).read_text(encoding="utf-8")
    assert names == {"ray", "vllm"}
    assert {name: version_in_lock(lock_text, name) for name in names} == dict(
        requirement.split("==") for requirement in variant.requires
    )


def test_a_model_is_cut_into_as_many_stages_as_there_are_computers() -> None:
    server = team_plan("vllm", team("a", "b", "c")).steps[-1].process.argv
    assert server[server.index("--pipeline-parallel-size") + 1] == "3"
    assert server[server.index("--tensor-parallel-size") + 1] == "4"


@pytest.mark.parametrize(("engine", "nodes"), [("vllm", ("a",)), ("vllm", ("a", "a")), ("llama.cpp", ("a", "b"))])
def test_what_is_no_team_is_refused_with_a_sentence(engine: str, nodes: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        team_plan(engine, team(*nodes))


def test_on_one_computer_dynamo_is_a_frontend_and_a_worker_that_meet_in_a_file() -> None:
    plan = DYNAMO.plan(MODEL, OPTIONS, NET, FOUND)
    assert [process.role for process in plan.processes] == ["frontend", "worker"]
    assert {process.env["DYN_FILE_KV"] for process in plan.processes} == {"discovery"}
    assert all("--discovery-backend file" in " ".join(process.argv) for process in plan.processes)
    assert plan.readiness.when is ReadyWhen.MODEL_LISTED, "its frontend is well without any worker"
    assert not any(process.secrets for process in plan.processes), "it has no key, and says so in its descriptor"


def test_dynamo_s_processes_talk_on_this_computer_alone_and_write_plain_lines() -> None:
    plan = DYNAMO.plan(MODEL, msgspec.structs.replace(OPTIONS, device_ids=("1", "3")), NET, FOUND)
    for process in plan.processes:
        assert {process.env[host] for host in HOSTS} == {"127.0.0.1"}
        assert process.env["DYN_SDK_DISABLE_ANSI_LOGGING"] == "1"
        assert process.env["CUDA_VISIBLE_DEVICES"] == "1,3"


def test_dynamo_s_router_does_not_wait_for_what_its_workers_do_not_tell() -> None:
    fronts = [
        *(step.process for step in team_plan("dynamo", team("a", "b")).steps),
        *DYNAMO.plan(MODEL, OPTIONS, NET, FOUND).processes,
    ]
    assert ["--no-router-kv-events" in piece.argv for piece in fronts if piece.role == "frontend"] == [True, True]
    assert not any("--kv-events-config" in piece.argv for piece in fronts)


def test_a_template_reaches_dynamo_s_worker_as_a_file_where_there_is_a_folder_for_it() -> None:
    plan = DYNAMO.plan(MODEL, LaunchOptions(chat_template="{{ x }}"), NET, FOUND)
    argv = plan.processes[1].argv
    assert argv[argv.index("--custom-jinja-template") + 1] == plan.files[0].name
    assert plan.files[0].content == b"{{ x }}"
    with pytest.raises(ValueError, match="cannot put on each computer"):
        team_plan("dynamo", msgspec.structs.replace(team("a", "b"), options=LaunchOptions(chat_template="{{ x }}")))


def test_dynamo_embeds_with_a_worker_for_that_and_refuses_what_its_worker_has_no_flag_for() -> None:
    worker = DYNAMO.plan(MODEL, LaunchOptions(task="embed"), NET, FOUND).processes[1]
    assert worker.argv[-5:] == ("--embedding-worker", "--runner", "pooling", "--convert", "embed")
    for options in (LaunchOptions(task="rerank"), LaunchOptions(lora=(Path("/models/tone"),))):
        with pytest.raises(ValueError, match=r"\.$"):
            DYNAMO.plan(MODEL, options, NET, FOUND)


def test_dynamo_s_own_flags_are_reserved_beside_vllm_s() -> None:
    for flag in ("--http-host", "--discovery-backend", "--model", "--port"):
        with pytest.raises(ValueError, match="Roundhouse's to set"):
            DYNAMO.plan(MODEL, LaunchOptions(extra_args=(flag, "x")), NET, FOUND)


def test_dynamo_s_worker_loads_like_vllm() -> None:
    line = "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:01<00:01]"
    assert LoadProgress(stage="Reading weights", fraction=0.5) in DYNAMO.read_log(line)


def test_dynamo_s_frontend_says_when_a_worker_is_known() -> None:
    line = (
        "2026-11-22T15:08:07.321418Z  INFO dynamo_llm::discovery::watcher: Committed discovered model group "
        'model_name="m" group=["m"] members=1'
    )
    assert LoadProgress(stage="Ready") in DYNAMO.read_log(line)
