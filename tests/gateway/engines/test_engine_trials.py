"""What a test makes of what an engine wrote, and where it computed."""

import pytest

from app.core.engine_store import Proof
from app.gateway.engines.smoke_tests import EXPECTED, is_alike, is_elsewhere, is_nonsense, judge_proof


@pytest.mark.parametrize(
    "text",
    ["", "  \n", "word word word word word word word word", "aaaaaaaaaaaaaaaa", "!!!!!!!! !!!!", "Hello � there"],
)
def test_nonsense_is_known(text: str) -> None:
    assert is_nonsense(text)


@pytest.mark.parametrize("text", [EXPECTED, "Hello!", "Hi there, how can I help you today?", "你好,我能帮你什么?"])
def test_short_answers_in_any_language_are_no_nonsense(text: str) -> None:
    assert not is_nonsense(text)


@pytest.mark.parametrize(
    ("text", "alike"),
    [
        (EXPECTED, True),
        (f"  {EXPECTED} and more", True),
        (EXPECTED.replace("picks", "chooses"), True),
        ("Paris is the capital of France, and a fine city to see in spring with its many bridges and cafés.", False),
        ("the of and to in a is that for it as was with be by on not he his but at are this have", False),
    ],
)
def test_the_guides_answer_is_known_again_when_a_word_differs(text: str, alike: bool) -> None:  # noqa: FBT001 -- a table
    assert is_alike(text, EXPECTED) is alike


@pytest.mark.parametrize(
    ("backend", "device", "elsewhere"),
    [
        ("cuda", "CPU, CPU_Mapped", True),
        ("vulkan", "CPU", True),
        ("cuda", "CPU_Mapped, CUDA0", False),
        ("cpu", "CPU", False),
        ("cuda", "", False),
        ("", "CPU", False),
        ("cuda", "CPU_Mapped, AMX", True),
        ("cuda", "CPU_Mapped, BLAS", True),
        ("vulkan", "CPU_REPACK, Vulkan_Host", True),
        ("cuda", "CPU_Mapped, CUDA_Host, CUDA0", False),
        ("rocm", "CPU_Mapped, ROCm0_Split", False),
    ],
)
def test_a_gpu_build_on_the_processor_is_found_out(backend: str, device: str, elsewhere: bool) -> None:  # noqa: FBT001 -- a table
    assert is_elsewhere(backend, device) is elsewhere


def test_a_proof_is_judged_by_text_and_device() -> None:
    good = Proof(at=1.0, text=EXPECTED, backend="cuda", device="CUDA0")
    assert judge_proof(good, EXPECTED) is good
    assert judge_proof(Proof(at=1.0, text=""), EXPECTED).problem == "It wrote nothing."
    assert judge_proof(Proof(at=1.0, text="Paris is the capital of France."), EXPECTED).code == "gibberish"
    assert judge_proof(Proof(at=1.0, text="Anything sensible will do here."), "").is_good
    wrong = judge_proof(Proof(at=1.0, text=EXPECTED, backend="cuda", device="CPU"), EXPECTED)
    assert (wrong.code, wrong.problem) == ("wrong_device", "It should have used cuda but used CPU.")
