"""Models left out in turn, from the answers that the store keeps."""

import msgspec
import pytest

from app.core.advice import Generation
from app.core.errors import NotFound
from app.core.model_facts import ModelFacts
from app.gateway.benchmarking.left_out import measure_left_out_here
from app.gateway.services import Services
from tests.gateway.benchmarking import test_race
from tests.unit.advisor.made_models import EIGHT

parts = test_race.parts


def make_generation(model: str, decode_s: float) -> Generation:
    return Generation(
        model=model,
        engine="llama.cpp",
        version="1",
        backend="cpu",
        device="cpu",
        prompt_tokens=100,
        cached_tokens=0,
        completion_tokens=64,
        prefill_s=1.0,
        decode_s=decode_s,
    )


async def test_answers_of_models_that_are_here_count_and_tiny_ones_do_not(
    parts: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = EIGHT.facts("Q4_K_M")

    async def find(model: str) -> ModelFacts:
        if model == "gone":
            raise NotFound("There is no such model.")
        return msgspec.structs.replace(large, file_bytes=1 << 20) if model == "tiny" else large

    monkeypatch.setattr(parts.facts, "find", find)
    for model in ("a", "b", "tiny", "gone"):
        await parts.chats.add_generation(make_generation(model, 20.0))
    errors = await measure_left_out_here(parts)
    assert len(errors.before) == len(errors.after) == 2
    assert max(errors.after) < 0.02, "equal models predict each other"
