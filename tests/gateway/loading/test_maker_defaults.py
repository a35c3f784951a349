"""What a model's makers recommend where its files say nothing: the catalogue's word, below files' and people's."""

from pathlib import Path

import msgspec
import pytest

from app.core.capabilities import Capability
from app.core.models import ModelInfo, ModelSampling, ModelSettings
from app.core.thinking import ThinkingDefault, ThinkingLevel
from app.gateway.loading.model_tuning import (
    effective_sampling,
    effective_thinking,
    find_maker_entry,
    find_recommendation,
)
from app.hub.repositories.answers import HubMemory
from app.hub.repositories.generation import NOTHING, SamplingRecommendation
from tests.gguf_files import TinyLlama

THINKING = ModelSampling(temperature=0.6, top_p=0.95, top_k=20, min_p=0.0)


@pytest.fixture
def hub(tmp_path: Path) -> HubMemory:
    return HubMemory(tmp_path / "hub", tmp_path / "token")


def model_from(tmp_path: Path, repository: str) -> ModelInfo:
    folder = tmp_path / f"models--{repository.replace('/', '--')}" / "snapshots" / "0123456"
    folder.mkdir(parents=True)
    file = TinyLlama().write(folder / "Model-Q4_K_M.gguf")
    return ModelInfo(
        name="model",
        title="Model",
        path=str(file),
        format="gguf",
        size_bytes=0,
        modified_at=0.0,
        capabilities=[Capability.CHAT],
    )


def test_the_catalogue_s_sampling_is_used_where_the_files_say_nothing(hub: HubMemory, tmp_path: Path) -> None:
    model = model_from(tmp_path, "unsloth/Qwen3-8B-GGUF")
    assert find_recommendation(hub, model) == SamplingRecommendation(sampling=THINKING, source="Qwen/Qwen3-8B")
    assert effective_sampling(hub, model, ModelSettings()) == THINKING
    entry = find_maker_entry(hub, model)
    assert entry is not None
    assert "enable_thinking" in entry.maker_note


def test_what_a_person_or_a_file_says_counts_before_it(hub: HubMemory, tmp_path: Path) -> None:
    model = model_from(tmp_path, "unsloth/Qwen3-8B-GGUF")
    own = ModelSettings(sampling=ModelSampling(temperature=0.1))
    assert effective_sampling(hub, model, own) == msgspec.structs.replace(THINKING, temperature=0.1)
    ignoring_settings = ModelSettings(uses_model_sampling=False)
    assert effective_sampling(hub, model, ignoring_settings) == ModelSampling()
    (Path(model.path).parent / "generation_config.json").write_text('{"temperature": 0.9}', encoding="utf-8")
    assert effective_sampling(hub, model, ModelSettings()) == ModelSampling(temperature=0.9)


def test_a_model_the_catalogue_does_not_know_has_none(hub: HubMemory, tmp_path: Path) -> None:
    model = model_from(tmp_path, "org/Unheard-of-GGUF")
    assert find_recommendation(hub, model) == NOTHING
    assert find_maker_entry(hub, model) is None


def test_the_makers_effort_counts_unless_somebody_chose(hub: HubMemory, tmp_path: Path) -> None:
    model = model_from(tmp_path, "ggml-org/gpt-oss-20b-GGUF")
    medium = ThinkingDefault(level=ThinkingLevel.MEDIUM)
    assert effective_thinking(hub, model, ModelSettings()) == medium
    assert effective_thinking(hub, model, ModelSettings(thinking=ThinkingLevel.HIGH)).level is ThinkingLevel.HIGH
    assert effective_thinking(hub, model, ModelSettings(thinking_budget=500)) == msgspec.structs.replace(
        medium, budget=500
    )
    assert effective_thinking(hub, model, ModelSettings(uses_model_sampling=False)) == ThinkingDefault()


def test_sampling_that_nobody_compared_is_marked(hub: HubMemory, tmp_path: Path) -> None:
    compared_entry = find_recommendation(hub, model_from(tmp_path, "unsloth/Qwen3-8B-GGUF"))
    guessed_entry = find_recommendation(hub, model_from(tmp_path, "unsloth/Llama-3.2-1B-Instruct-GGUF"))
    assert (compared_entry.is_unchecked, guessed_entry.is_unchecked) == (False, True)
