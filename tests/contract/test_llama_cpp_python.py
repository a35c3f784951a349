"""llama-cpp-python as a runtime of llama.cpp: which package an environment holds decides which worker runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from engines import worker_base
from engines.api import EngineInstallation, EngineLocation, LaunchOptions, ListenOptions, ModelFormat, ModelSource
from engines.llama_cpp.launch import ADAPTER
from engines.llama_cpp_python.sequences import Slot, choose_slot
from engines.serving.backend import BackendSampling, WorkItem

NET = ListenOptions(host="127.0.0.1", port=50_001, key="secret")
MODEL = ModelSource(name="tiny", path=Path("/models/tiny.gguf"), format=ModelFormat.GGUF)


@pytest.mark.parametrize(
    ("package", "where", "worker"),
    [
        ("llama_cpp", "lib/python3.11/site-packages", "engines.llama_cpp_python.worker"),
        ("llama_cpp", "Lib/site-packages", "engines.llama_cpp_python.worker"),
        ("xllamacpp", "lib/python3.11/site-packages", "engines.llama_cpp.worker"),
    ],
)
def test_the_package_in_an_environment_decides_who_serves(
    tmp_path: Path, package: str, where: str, worker: str
) -> None:
    (tmp_path / "venv" / where / package).mkdir(parents=True)
    place = EngineLocation(folder=tmp_path, version="1", backend="cpu", python=tmp_path / "venv" / "bin" / "python")
    installation = ADAPTER.probe(place)
    assert isinstance(installation, EngineInstallation)
    (process,) = ADAPTER.plan(MODEL, LaunchOptions(context=512, slots=2), NET, installation).processes
    assert process.argv[-1] == worker
    body = json.loads(process.env[worker_base.CONFIG_VARIABLE])
    assert (body["context"], body["slots"]) == (512, 2)


def work(prompt: list[int], max_tokens: int = 2) -> WorkItem:
    return WorkItem(id=1, prompt=prompt, max_tokens=max_tokens, sampling=BackendSampling())


def test_a_request_goes_where_most_of_it_is_known() -> None:
    slots = [Slot(0), Slot(1), Slot(2)]
    slots[0].known_tokens, slots[1].known_tokens = [1, 2, 9], [1, 2, 3, 4]
    assert choose_slot(slots, [1, 2, 3, 5]).number == 1
    assert choose_slot(slots, [7, 8]).number == 2, "an empty one loses nothing"
    slots[1].work = work([1])
    assert choose_slot(slots, [1, 2, 3, 5]).number == 0


def test_of_a_known_prompt_one_token_is_left_to_compute() -> None:
    slot = Slot(0)
    slot.known_tokens = [1, 2, 3]
    assert slot.prefix_match_length([1, 2, 3]) == 2
    assert slot.prefix_match_length([1, 2, 3, 4]) == 3
    assert slot.prefix_match_length([2]) == 0


def test_an_answer_is_full_once_it_has_what_was_asked_for() -> None:
    slot = Slot(0)
    slot.begin(work([1, 2, 3]), None, 2)
    assert (slot.known_tokens, slot.ahead, slot.take_cached(), slot.take_cached()) == ([1, 2], [3], 2, None)
    slot.write(7)
    assert not slot.is_full
    slot.write(8)
    assert slot.is_full
    slot.end()
    assert (slot.work, slot.ahead, slot.is_full) == (None, [], False)


def installation_of(package: str) -> EngineInstallation:
    return EngineInstallation(engine="llama.cpp", version="1", backend="cuda", python=Path("/p"), package=package)


def test_layers_and_experts_are_placed_as_planned() -> None:
    options = LaunchOptions(context=512, gpu_layers=20, split_ratio=(0.6, 0.4), cpu_moe_layers=3)
    (process,) = ADAPTER.plan(MODEL, options, NET, installation_of("llama-cpp-python")).processes
    config = json.loads(process.env[worker_base.CONFIG_VARIABLE])
    assert (config["gpu_layers"], config["split_ratio"], config["cpu_moe_layers"]) == (20, [0.6, 0.4], 3)


@pytest.mark.parametrize("options", [{"split_ratio": (1.0, 2.0)}, {"cpu_moe_layers": 3}], ids=" ".join)
def test_the_bundled_one_places_nothing(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^The bundled llama.cpp does not .*\.$"):
        ADAPTER.plan(MODEL, LaunchOptions(context=512, **options), NET, installation_of("xllamacpp"))
