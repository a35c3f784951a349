"""Which of several installed engines runs a model: a person's choice, the advisor's order, never one known to fail."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.core.engines import EngineInfo
from app.engine_store.recipe import read_recipes
from app.gateway.loading.launch import _install_hint, best_reader
from tests.demo import machines
from tests.unit.advisor.test_recipes import linux, make_machine


def engine(name: str, *, problem: str = "") -> EngineInfo:
    return EngineInfo(id=name, name=name, licence="", homepage="", formats=["gguf"], installed=True, problem=problem)


LLAMA, OPENVINO = engine("llama.cpp"), engine("openvino")


def test_the_only_one_is_taken_even_if_it_fails() -> None:
    broken_engine = engine("llama.cpp", problem="It crashed.")
    assert best_reader([broken_engine], [], None) is broken_engine


def test_without_a_machine_the_registrys_order_counts() -> None:
    assert best_reader([OPENVINO, LLAMA], [], None) is OPENVINO
    assert best_reader([LLAMA, OPENVINO], [], None) is LLAMA


def test_the_advisors_order_counts_for_this_machine() -> None:
    nobody = engine("unknown-engine")
    assert best_reader([nobody, LLAMA], [], machines.LAPTOP) is LLAMA


def test_a_persons_choice_counts_before_it() -> None:
    assert best_reader([LLAMA, OPENVINO], ["openvino"], machines.LAPTOP) is OPENVINO
    assert best_reader([LLAMA, OPENVINO], ["vllm", "llama.cpp"], machines.LAPTOP) is LLAMA


def test_one_that_failed_comes_last_whoever_chose_it() -> None:
    broken_engine = engine("openvino", problem="It wrote nonsense.")
    assert best_reader([LLAMA, broken_engine], ["openvino"], machines.LAPTOP) is LLAMA


def hint(machine: Any, *names: str, program: Path | None = None) -> str:  # noqa: ANN401 -- a machine, or none yet
    own_programs = SimpleNamespace(find_on_path=lambda _engine: program)
    catalogue: Any = SimpleNamespace(recipes=read_recipes(), own_programs=own_programs)
    return _install_hint(catalogue, machine, [engine(name) for name in names])


@pytest.mark.parametrize(
    ("machine", "names", "sentence"),
    [
        (linux(cpu="AMD EPYC 9654"), ("exllamav3",), "exllamav3 cannot be installed on this computer."),
        (linux("RTX 4090"), ("exllamav3",), "Install exllamav3, on the Engines page"),
        (linux(cpu="AMD EPYC 9654"), ("vllm", "mlx-lm"), "Install mlx-lm, on the Engines page"),
        (linux(cpu="AMD EPYC 9654"), (), "Choose the model in another format, such as GGUF."),
    ],
)
def test_the_next_step_names_what_can_be_installed_here(machine: Any, names: tuple[str, ...], sentence: str) -> None:  # noqa: ANN401 -- JSON
    assert hint(make_machine(machine), *names).startswith(sentence)


def test_a_program_on_path_is_named_first() -> None:
    sentence = hint(None, "llama.cpp", program=Path("/opt/llama/llama-server"))
    assert sentence.startswith("`roundhouse engines use llama.cpp llama-server` uses /opt/llama/llama-server")


def test_before_the_machine_is_known_all_are_named() -> None:
    assert hint(None, "vllm", "exllamav3").startswith("Install vllm or exllamav3")
