"""Which launches write the states of their slots, and what they are told for it."""

import json
import sys
from pathlib import Path

import pytest

from engines.api import (
    Draft,
    EngineInstallation,
    LaunchOptions,
    LaunchPlan,
    ListenOptions,
    ModelFormat,
    ModelSource,
)
from engines.llama_cpp.binary import _NEEDED as NEEDED
from engines.llama_cpp.launch import ADAPTER
from engines.registry import ADAPTERS

MODEL = ModelSource(name="m", path=Path("/models/m.gguf"), format=ModelFormat.GGUF)
FOLDER = Path("/dev/shm/states")  # noqa: S108 -- named only
WORKER = EngineInstallation(engine="llama.cpp", version="1", backend="cpu", python=Path(sys.executable))
BINDING = EngineInstallation(
    engine="llama.cpp", version="1", backend="cpu", python=Path(sys.executable), package="llama-cpp-python"
)


FLAGS = (
    "--mmproj",
    "--lora",
    "--embeddings",
    "--no-cache-prompt",
    "--spec-type",
    "--spec-draft-model",
    "--spec-draft-n-max",
)


def build_program(*flags: str) -> EngineInstallation:
    return EngineInstallation(
        engine="llama.cpp", version="b1", backend="cpu", executable=Path("llama-server"), flags=NEEDED | set(flags)
    )


def plan_launch(installation: EngineInstallation, options: LaunchOptions, folder: Path | None = FOLDER) -> LaunchPlan:
    net = ListenOptions(host="127.0.0.1", port=1, key="k", state_folder=folder)
    return ADAPTER.plan(MODEL, options, net, installation)


def state_folder_of(launch: LaunchPlan) -> str | None:
    folder: str | None = json.loads(launch.processes[0].env["ROUNDHOUSE_WORKER_CONFIG"])["state_folder"]
    return folder


def test_the_worker_is_told_the_folder_if_there_is_one() -> None:
    with_folder, without_folder = (
        plan_launch(WORKER, LaunchOptions()),
        plan_launch(WORKER, LaunchOptions(), folder=None),
    )
    assert (with_folder.keeps_states, state_folder_of(with_folder), with_folder.stateless_reason) == (
        True,
        str(FOLDER),
        "",
    )
    assert (without_folder.keeps_states, state_folder_of(without_folder), without_folder.stateless_reason) == (
        False,
        None,
        "",
    )


def test_a_program_is_told_if_it_has_the_flag() -> None:
    able, unable = (
        plan_launch(build_program("--slot-save-path"), LaunchOptions()),
        plan_launch(build_program(), LaunchOptions()),
    )
    argv = able.processes[0].argv
    assert argv[argv.index("--slot-save-path") + 1] == str(FOLDER)
    assert able.keeps_states
    assert "--slot-save-path" not in unable.processes[0].argv
    assert not unable.keeps_states
    assert unable.stateless_reason


@pytest.mark.parametrize(
    "options",
    [
        LaunchOptions(task="embed"),
        LaunchOptions(prefix_cache=False),
        LaunchOptions(projector=Path("/models/mmproj.gguf")),
        LaunchOptions(lora=(Path("/models/lora.gguf"),)),
        LaunchOptions(draft=Draft(path=Path("/models/draft.gguf"))),
    ],
    ids=["embeds", "no cache", "sees", "adapter", "draft"],
)
@pytest.mark.parametrize("installation", [WORKER, build_program("--slot-save-path", *FLAGS)])
def test_a_launch_that_cannot_says_why(installation: EngineInstallation, options: LaunchOptions) -> None:
    launch = plan_launch(installation, options)
    assert not launch.keeps_states
    assert launch.stateless_reason.endswith(".")


def test_the_binding_cannot_and_says_so() -> None:
    launch = plan_launch(BINDING, LaunchOptions())
    assert not launch.keeps_states
    assert "bundled" in launch.stateless_reason


def test_an_engine_that_writes_states_tells_its_slots() -> None:
    able = [adapter.descriptor for adapter in ADAPTERS.values() if adapter.descriptor.slot_states is not None]
    assert [about.id for about in able] == ["llama.cpp"]
    for about in able:
        assert about.slots_path
        assert about.slot_states is not None
        assert "{slot}" in about.slot_states.save
        assert "{slot}" in about.slot_states.restore
