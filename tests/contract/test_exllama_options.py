"""What both ExLlamas are told of cards, drafts, adapters and caches, against stand-ins that keep it."""

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engines.api import Draft, FailureKind
from engines.exllama.backend import check_vocabularies
from engines.exllama.cards import GIB, MIB, CardPlacement
from engines.exllama.exl2 import ADAPTER as EXL2
from engines.exllama.exl3 import ADAPTER as EXL3
from engines.worker_adapter import WorkerAdapter
from tests.contract.test_exllama import FAKES, FLASH_ATTN, HF, ROOT, complete_text, copy_model, path_with, start_worker

pytestmark = pytest.mark.slow

CARDS = ("GPU-a", "GPU-b")
BOTH = pytest.mark.parametrize("adapter", [EXL3, EXL2], ids=["exllamav3", "exllamav2"])


def load_kept(folder: Path, adapter: WorkerAdapter, model: Path = HF, **wishes: Any) -> dict[str, Any]:  # noqa: ANN401 -- any field of the options
    """Return what the library was told for a launch that answers."""
    environment = {**path_with(ROOT, FAKES, FLASH_ATTN), "ROUNDHOUSE_TEST_KEEP": str(folder)}
    with closing(start_worker(adapter, model, extra_env=environment, **wishes)) as worker:
        assert worker.is_ready(), worker.lines
        assert complete_text(worker)["choices"][0]["text"] == "grün 🚂"
    facts: dict[str, Any] = json.loads((folder / "kept.json").read_text(encoding="utf-8"))
    return facts


@pytest.fixture
def peft_adapter(tmp_path: Path) -> Path:
    folder = tmp_path / "polite"
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"r": 8, "lora_alpha": 16}', encoding="utf-8")
    return folder


def test_the_newer_one_fills_each_card_as_far_as_the_plan_says(tmp_path: Path) -> None:
    facts = load_kept(tmp_path, EXL3, device_ids=CARDS, device_bytes=(20 * GIB, 10 * GIB))
    assert (facts["use_per_device"], facts["tensor_p"]) == ([20.0, 10.0], False)


def test_the_newer_one_cuts_matrices_over_the_cards(tmp_path: Path) -> None:
    facts = load_kept(tmp_path, EXL3, device_ids=CARDS, device_bytes=(20 * GIB, 10 * GIB), tensor_parallel=2)
    assert (facts["use_per_device"], facts["tensor_p"]) == ([20.0, 10.0], True)


def test_the_older_one_leaves_what_the_plan_does_not_give_it(tmp_path: Path) -> None:
    facts = load_kept(tmp_path, EXL2, device_ids=("GPU-a",), device_bytes=(12 * GIB,))
    assert facts["reserve"] == [8 * GIB], "of the 20 that are free"


def test_the_older_one_cuts_matrices_over_the_cards(tmp_path: Path) -> None:
    wishes: dict[str, Any] = {
        "device_ids": CARDS,
        "device_bytes": (20 * GIB, 10 * GIB),
        "tensor_parallel": 2,
        "kv_type": "q6_0",
    }
    facts = load_kept(tmp_path, EXL2, **wishes)
    assert (facts["gpu_split"], facts["expected"]) == ([20.0, 10.0], [1024, "ExLlamaV2Cache_Q6"])


def test_an_architecture_that_cannot_be_cut_is_named(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(HF, model)
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    (model / "config.json").write_text(json.dumps({**config, "architectures": ["CohereForCausalLM"]}), encoding="utf-8")
    with closing(start_worker(EXL2, model, tensor_parallel=2)) as worker:
        failure = worker.expect_end()
    assert failure.kind is FailureKind.MODEL_UNSUPPORTED
    assert "Tensor-parallel" in failure.evidence


def test_bytes_to_leave_are_never_less_than_the_library_leaves_by_itself() -> None:
    cards = CardPlacement(budgets=(20 * GIB, 1 * GIB))
    assert cards.bytes_to_leave([12 * GIB, 3 * GIB, 8 * GIB], [192 * MIB, 64 * MIB, 64 * MIB]) == [
        192 * MIB,
        2 * GIB,
        8 * GIB,
    ]
    assert CardPlacement().bytes_to_leave([1], [1]) is None


@BOTH
def test_words_of_the_text_draft(adapter: WorkerAdapter, tmp_path: Path) -> None:
    facts = load_kept(tmp_path, adapter, draft=Draft(kind="ngram", tokens=5))
    assert facts["draft_tokens"] == 5
    assert facts["ngram"] in {True, 2}


@BOTH
def test_another_model_drafts(adapter: WorkerAdapter, tmp_path: Path) -> None:
    facts = load_kept(tmp_path, adapter, draft=Draft(kind="model", path=HF, tokens=3))
    assert facts["draft_tokens"] == 3


@BOTH
def test_an_answer_reaches_the_end_of_the_context_with_drafts_too(adapter: WorkerAdapter) -> None:
    with closing(start_worker(adapter, draft=Draft(kind="ngram", tokens=5))) as worker:
        assert worker.is_ready(), worker.lines
        answer = complete_text(worker, "a", ignore_eos=True)
    assert answer["usage"]["total_tokens"] == 512


def test_a_draft_on_planned_cards_leaves_the_rest_to_the_model(tmp_path: Path) -> None:
    facts = load_kept(tmp_path, EXL3, device_ids=CARDS, device_bytes=(20 * GIB, 10 * GIB), draft=Draft(path=HF))
    assert facts["use_per_device"] == [19.0, 9.0], "the stand-in's draft takes one of each"


def test_a_draft_of_another_vocabulary_is_refused() -> None:
    check_vocabularies(32_000, 32_064)
    check_vocabularies(None, 5)
    with pytest.raises(ValueError, match="vocabulary of 5 tokens"):
        check_vocabularies(32_000, 5)


@BOTH
def test_adapters_are_applied(adapter: WorkerAdapter, tmp_path: Path, peft_adapter: Path) -> None:
    assert load_kept(tmp_path, adapter, lora=(peft_adapter,))["lora"] == "polite"


@BOTH
def test_a_folder_without_an_adapter_is_named(adapter: WorkerAdapter, tmp_path: Path) -> None:
    with closing(start_worker(adapter, lora=(tmp_path,))) as worker:
        assert "adapter_config.json" in worker.expect_end().evidence


def test_keys_and_values_are_kept_differently(tmp_path: Path) -> None:
    assert load_kept(tmp_path, EXL3, kv_type="q8_0/q4_0")["kv"] == [8, 4]
    with pytest.raises(ValueError, match="f16, q8_0, q6_0, q4_0"):
        start_worker(EXL2, kv_type="q8_0/q4_0")


def test_experts_of_the_first_layers_stay_in_system_memory(tmp_path: Path) -> None:
    model = copy_model(tmp_path, num_hidden_layers=9, num_experts=8, first_k_dense_replace=3)
    assert load_kept(tmp_path, EXL3, model, cpu_moe_layers=7)["moe"] == 4, "it counts those with experts"
    with pytest.raises(ValueError, match="system memory"):
        start_worker(EXL3, cpu_moe_layers=7, tensor_parallel=2)
    with pytest.raises(ValueError, match="system memory"):
        start_worker(EXL2, cpu_moe_layers=7)
