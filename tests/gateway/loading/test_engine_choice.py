"""Which of several installed engines runs a model: a person's choice, the advisor's order, never one known to fail."""

from app.core.engines import EngineInfo
from app.gateway.loading.launch import best_reader
from tests.demo import machines


def engine(name: str, *, problem: str = "") -> EngineInfo:
    return EngineInfo(id=name, name=name, licence="", homepage="", formats=["gguf"], installed=True, problem=problem)


LLAMA, OPENVINO = engine("llama.cpp"), engine("openvino")


def test_the_only_one_is_taken_even_if_it_fails() -> None:
    broken = engine("llama.cpp", problem="It crashed.")
    assert best_reader([broken], [], None) is broken


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
    broken = engine("openvino", problem="It wrote nonsense.")
    assert best_reader([LLAMA, broken], ["openvino"], machines.LAPTOP) is LLAMA
