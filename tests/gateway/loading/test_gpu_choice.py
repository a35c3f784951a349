"""A card per model: offered where there are several, one value through plan and launch. Cards are those of replays."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.advisor.memory.setting import RunSetting
from app.core.errors import NotFound
from app.core.machine import Machine
from app.gateway.loading.gpu_choice import VARIABLE, gpu_of, list_gpu_options, machine_with_gpu, with_gpu
from app.gateway.loading.load_plan import plan_setting
from engines.api import EngineInstallation, LaunchOptions, ListenOptions, ModelFormat, ModelSource
from engines.registry import ADAPTERS
from tests.machine_fixtures import FOLDER, load
from tests.unit.advisor.engines import engines_on
from tests.unit.advisor.made_models import EIGHT

SEVERAL = "linux-nvidia-five-workstation-cards"
NONE_OR_ONE = (
    "linux-nvidia-eight-with-nvlink",  # whose driver told no UUIDs
    "linux-nvidia-instances-instead-of-the-gpu",
    "linux-nvidia-desktop-seen-by-three-probes",
    "linux-amd-eight-accelerators",
)


def load_machine(name: str) -> Machine:
    return load(FOLDER / f"{name}.toml").machine()


@pytest.mark.parametrize("name", NONE_OR_ONE)
def test_where_there_is_no_choice_none_is_offered(name: str) -> None:
    assert list_gpu_options(load_machine(name), "cuda") == []


def test_an_engine_on_the_processor_has_no_choice_and_an_unknown_machine_neither() -> None:
    machine = load_machine(SEVERAL)
    assert list_gpu_options(machine, "cpu") == list_gpu_options(None, "cuda") == []
    options = with_gpu(LaunchOptions(), "GPU-1", backend="cpu", machine=machine)
    assert gpu_of(options) == "", "it is for another engine of the model"


def test_the_plan_is_made_for_the_card_alone() -> None:
    machine = load_machine(SEVERAL)
    cards = list_gpu_options(machine, "cuda")
    assert len(cards) == len(machine.gpus)
    chosen_uuid = cards[-1].uuid
    alone = machine_with_gpu(machine, chosen_uuid)
    assert [gpu.uuid for gpu in alone.gpus] == [chosen_uuid]
    engine = engines_on(alone)["llama.cpp"]
    setting = RunSetting(engine=engine, backend="cuda", context=4096, slots=1)
    pick = plan_setting(EIGHT.every("gguf")[0], alone, setting, kv_type=None)
    assert pick is not None
    assert pick.setting.gpus == 1
    assert pick.setting.split == ()


def test_a_card_that_is_gone_is_said_and_planned_for_nobody() -> None:
    machine = load_machine(SEVERAL)
    with pytest.raises(NotFound) as refusal:
        with_gpu(LaunchOptions(), "GPU-gone", backend="cuda", machine=machine)
    assert refusal.value.code == "gpu_not_found"
    assert machine_with_gpu(machine, "GPU-gone") is machine
    assert gpu_of(with_gpu(LaunchOptions(), "GPU-1", backend="cuda", machine=None)) == "GPU-1", "it is not known yet"


def test_what_is_set_reaches_the_process(tmp_path: Path) -> None:
    options = with_gpu(LaunchOptions(context=512), "GPU-1", backend="cuda", machine=None)
    source = ModelSource(name="m", path=tmp_path / "m", format=ModelFormat.SAFETENSORS)
    table: Any = ADAPTERS["vllm"]
    flags = frozenset(name for row in table.flag_table.flags for name in row.names)
    installation = EngineInstallation(
        engine="vllm", version="0.33.0", backend="cuda", python=tmp_path / "python", flags=flags
    )
    plan = ADAPTERS["vllm"].plan(source, options, ListenOptions(host="127.0.0.1", port=1, key="k"), installation)
    assert plan.processes[0].env[VARIABLE] == "GPU-1"
    assert msgspec.structs.replace(options, extra_env={}) == LaunchOptions(context=512)
