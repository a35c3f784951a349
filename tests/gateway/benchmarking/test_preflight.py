"""How a model would do with an agent: predicted at once, measured once that was done, and what stands in the way."""

import msgspec
import pytest

from app.core.benchmarks import BenchmarkReceipt, BenchmarkSettings, Correctness, Figure, PrefixReuse, Workload
from app.core.capabilities import Capability
from app.core.errors import NotFound
from app.core.models import ModelInfo, ModelSettings
from app.core.tool_prompts import TOOL_PROMPTS
from app.gateway.benchmarking import preflight as preflight_module
from app.gateway.benchmarking.preflight import preflight_tools
from app.gateway.services import Services
from tests.gateway.benchmarking import test_race
from tests.unit.benchmark.receipts import make_receipt

parts = test_race.parts


class SimpleEstimate(msgspec.Struct, frozen=True):
    """What is read of an estimate."""

    largest_context: int | None = None
    prefill: None = None


CLAUDE = next(prompt for prompt in TOOL_PROMPTS if prompt.tool == "claude-code")


@pytest.fixture(autouse=True)
def without_estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in library has no files to estimate."""

    async def know_nothing(*_: object) -> None:
        return None

    async def can_do_nothing(*_: object) -> list[object]:
        return []

    monkeypatch.setattr(preflight_module, "_estimate", know_nothing)
    monkeypatch.setattr(preflight_module, "capabilities_of", can_do_nothing)


def make_measured(tool: str, *disturbances: str) -> BenchmarkReceipt:
    prefix = PrefixReuse(
        prompt_tokens=30_000,
        cold_ttft_s=Figure(value=41, low=40, high=42),
        warm_ttft_s=Figure(value=1.2, low=1.1, high=1.3),
    )
    return msgspec.structs.replace(
        make_receipt([0.1] * 3, model="guide"),
        settings=BenchmarkSettings(workload=Workload.TOOL, tool=tool),
        prefix=prefix,
        disturbances=list(disturbances),
    )


async def test_without_a_measurement_nothing_is_said_to_be_measured(parts: Services) -> None:
    result = await preflight_tools(parts, "guide")
    assert [part.tool for part in result] == [prompt.tool for prompt in TOOL_PROMPTS]
    assert not any(part.is_measured for part in result)
    assert {part.cold_s for part in result} == {None}
    aider = next(part for part in result if part.tool == "aider")
    assert "is not known before it is measured" in aider.sentence
    assert all("That does not fit" in part.sentence for part in result if part.prompt_tokens > 2048)
    assert not any("measured" in part.sentence for part in result if part.prompt_tokens > 2048)
    assert "and no tools." in aider.sentence
    assert "call tools" not in aider.sentence


async def test_what_was_measured_here_replaces_the_prediction(parts: Services) -> None:
    await parts.chats.save_benchmark(make_measured("claude-code"))
    (result,) = await preflight_tools(parts, "guide", "Claude Code")
    assert (result.is_measured, result.cold_s, result.warm_s) == (True, 41, 1.2)
    assert "the first token comes after 41 s, that of later answers after 1.20 s (measured)." in result.sentence
    (other,) = await preflight_tools(parts, "guide", "codex")
    assert not other.is_measured


async def test_a_disturbed_measurement_does_not_count(parts: Services) -> None:
    await parts.chats.save_benchmark(make_measured("claude-code", "Others were busy."))
    (result,) = await preflight_tools(parts, "guide", "claude-code")
    assert not result.is_measured


async def test_a_prompt_that_was_cut_to_the_context_does_not_count(parts: Services) -> None:
    receipt = make_measured("claude-code")
    assert receipt.prefix is not None
    short = msgspec.structs.replace(receipt, prefix=msgspec.structs.replace(receipt.prefix, prompt_tokens=4000))
    await parts.chats.save_benchmark(short)
    (result,) = await preflight_tools(parts, "guide", "claude-code")
    assert not result.is_measured


async def test_too_little_context_is_said_with_what_sets_it(parts: Services) -> None:
    parts.model_settings.change_settings("guide", ModelSettings(context=2048))
    (result,) = await preflight_tools(parts, "guide", "claude-code")
    assert result.context_needed == CLAUDE.context
    assert "does not fit" in result.sentence or f"--context {CLAUDE.context}" in result.sentence
    assert "not made to call tools" in result.sentence


async def test_a_context_that_the_model_was_not_trained_for_is_not_advised(
    parts: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide, *_ = parts.library.list_models()
    model = msgspec.structs.replace(guide, trained_context=CLAUDE.context // 2)
    monkeypatch.setattr(parts.library, "list_models", lambda: [model])
    monkeypatch.setattr(parts.library, "find_model", lambda _name: model)
    (result,) = await preflight_tools(parts, "guide", "claude-code")
    assert result.largest_context == CLAUDE.context // 2
    assert f"{CLAUDE.context // 2:,} are what the model was trained for" in result.sentence
    assert "--context" not in result.sentence


async def test_a_tool_that_was_not_recorded_is_refused(parts: Services) -> None:
    with pytest.raises(NotFound, match="Nothing was recorded"):
        await preflight_tools(parts, "guide", "zed")
    with pytest.raises(NotFound):
        await preflight_tools(parts, "guide", "no such tool")


def with_calls(valid: int) -> BenchmarkReceipt:
    receipt = make_measured("codex", "Others were busy.")
    return msgspec.structs.replace(receipt, correctness=Correctness(tool_tasks=100, valid_calls=valid))


async def test_valid_calls_count_for_the_agent_whose_tools_were_offered_and_beside_other_programs(
    parts: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def call_tools(*_: object) -> list[Capability]:
        return [Capability.TOOLS]

    monkeypatch.setattr(preflight_module, "capabilities_of", call_tools)
    await parts.chats.save_benchmark(with_calls(97))
    codex, claude = [(await preflight_tools(parts, "guide", tool))[0] for tool in ("codex", "claude-code")]
    assert "97 of 100 tool calls were valid (measured)." in codex.sentence
    assert not codex.is_measured, "its times were disturbed"
    assert "tool calls" not in claude.sentence


async def test_a_model_that_would_do_is_named_where_this_does_not(
    parts: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide, *_ = parts.library.list_models()
    small, large, short = [
        msgspec.structs.replace(
            guide, name=name, parameters=size, trained_context=context, capabilities=[Capability.CHAT, Capability.TOOLS]
        )
        for name, size, context in (("small", 1, 1 << 20), ("large", 9, 1 << 20), ("short", 99, 2048))
    ]
    room = {"large": 4096, "small": 1 << 20}

    async def with_theirs(_services: object, models: list[ModelInfo]) -> list[ModelInfo]:
        return models

    async def estimate(_services: object, model: ModelInfo, _prompt: object) -> SimpleEstimate | None:
        return SimpleEstimate(room[model.name]) if model.name in room else None

    monkeypatch.setattr(parts.library, "list_models", lambda: [guide, small, large, short])
    monkeypatch.setattr(preflight_module, "with_capabilities", with_theirs)
    monkeypatch.setattr(preflight_module, "_estimate", estimate)
    (result,) = await preflight_tools(parts, "guide", "claude-code")
    assert result.suggestion == "small", "the large one has no room for the context, the short one was not made for it"
    assert result.sentence.endswith("Use small.")
