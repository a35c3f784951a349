"""How a model would do with an agent: predicted at once, measured once that was done, and what stands in the way."""

import msgspec
import pytest

from app.core.benchmarks import BenchmarkReceipt, BenchmarkSettings, Figure, PrefixReuse, Workload
from app.core.errors import NotFound
from app.core.models import ModelSettings
from app.core.tool_prompts import TOOL_PROMPTS
from app.gateway.benchmarking import preflight as preflight_module
from app.gateway.benchmarking.preflight import preflight_tools
from app.gateway.services import Services
from tests.gateway.benchmarking import test_race
from tests.unit.benchmark.receipts import make_receipt

parts = test_race.parts
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
    found = await preflight_tools(parts, "guide")
    assert [part.tool for part in found] == [prompt.tool for prompt in TOOL_PROMPTS]
    assert not any(part.is_measured for part in found)
    assert {part.cold_s for part in found} == {None}


async def test_what_was_measured_here_replaces_the_prediction(parts: Services) -> None:
    await parts.chats.save_benchmark(make_measured("claude-code"))
    (found,) = await preflight_tools(parts, "guide", "Claude Code")
    assert (found.is_measured, found.cold_s, found.warm_s) == (True, 41, 1.2)
    assert "first token after 41 s, later ones after 1.20 s (measured)" in found.sentence
    (other,) = await preflight_tools(parts, "guide", "codex")
    assert not other.is_measured


async def test_a_disturbed_measurement_does_not_count(parts: Services) -> None:
    await parts.chats.save_benchmark(make_measured("claude-code", "Others were busy."))
    (found,) = await preflight_tools(parts, "guide", "claude-code")
    assert not found.is_measured


async def test_a_prompt_that_was_cut_to_the_context_does_not_count(parts: Services) -> None:
    receipt = make_measured("claude-code")
    assert receipt.prefix is not None
    short = msgspec.structs.replace(receipt, prefix=msgspec.structs.replace(receipt.prefix, prompt_tokens=4000))
    await parts.chats.save_benchmark(short)
    (found,) = await preflight_tools(parts, "guide", "claude-code")
    assert not found.is_measured


async def test_too_little_context_is_said_with_what_sets_it(parts: Services) -> None:
    parts.tuning.change_settings("guide", ModelSettings(context=2048))
    (found,) = await preflight_tools(parts, "guide", "claude-code")
    assert found.context_needed == CLAUDE.context
    assert "does not fit" in found.sentence or f"--context {CLAUDE.context}" in found.sentence
    assert "not made to call tools" in found.sentence


async def test_a_tool_that_was_not_recorded_is_refused(parts: Services) -> None:
    with pytest.raises(NotFound, match="Nothing was recorded"):
        await preflight_tools(parts, "guide", "zed")
    with pytest.raises(NotFound):
        await preflight_tools(parts, "guide", "no such tool")
