"""What agents send: sizes in tokens, the context that is enough, and prompts of that size to measure with."""

from typing import Any

import pytest

from app.benchmark.workloads import estimate_context, make_workload, prompt_characters
from app.connect.connections import find_tool
from app.core.benchmarks import BenchmarkSettings, Workload
from app.core.tool_prompts import TOOL_PROMPTS, ToolPrompt, find_tool_prompt
from tests.agents import AGENTS, record_prompt, text_bytes

CALL = {"id": "1", "type": "function", "function": {"name": "write", "arguments": "{}"}}


def test_every_agent_that_is_run_for_real_has_its_prompt_recorded() -> None:
    assert {(agent.tool, agent.version) for agent in AGENTS} == {
        (prompt.tool, prompt.version) for prompt in TOOL_PROMPTS
    }
    assert all(find_tool(prompt.tool).id == prompt.tool for prompt in TOOL_PROMPTS)
    assert all(prompt.prompt_bytes > 0 for prompt in TOOL_PROMPTS)


def test_tokens_and_context_follow_from_bytes() -> None:
    prompt = ToolPrompt(tool="x", version="1", prompt_bytes=60_000, tools=10, tool_bytes=20_000, turn_bytes=400)
    assert (prompt.prompt_tokens, prompt.turn_tokens, prompt.context) == (20_000, 100, 65_536)
    tiny = ToolPrompt(tool="x", version="1", prompt_bytes=40, tools=0, tool_bytes=0, turn_bytes=0)
    assert (tiny.turn_tokens, tiny.context) == (1, 8192)


@pytest.mark.parametrize("prompt", TOOL_PROMPTS, ids=lambda prompt: prompt.tool)
def test_what_is_measured_with_is_as_long_as_what_the_tool_sends(prompt: ToolPrompt) -> None:
    settings = BenchmarkSettings(workload=Workload.TOOL, tool=prompt.tool, requests=1, answer_tokens=16)
    ((only,),) = make_workload(settings)
    assert prompt_characters(only) == prompt.prompt_bytes + prompt.tool_bytes
    assert estimate_context([(only,)]) >= prompt.prompt_tokens
    ((short,),) = make_workload(settings, context=512)
    assert prompt_characters(short) < 512 * 4


def test_a_tool_nothing_was_recorded_of_is_refused() -> None:
    assert find_tool_prompt("nosuch") is None
    with pytest.raises(ValueError, match="recorded of what nosuch"):
        make_workload(BenchmarkSettings(workload=Workload.TOOL, tool="nosuch"))
    with pytest.raises(ValueError, match="this tool"):
        make_workload(BenchmarkSettings(workload=Workload.TOOL))


def test_a_recording_counts_the_request_with_tools_and_what_the_next_adds() -> None:
    title = {"messages": [{"role": "user", "content": "a title, please" * 100}]}
    first: dict[str, Any] = {
        "messages": [{"role": "system", "content": "x" * 100}, {"role": "user", "content": [{"text": "é"}]}],
        "tools": [{"type": "function", "function": {"name": "write"}}],
    }
    answer = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    second = {**first, "messages": [*first["messages"], answer, {"role": "tool", "content": "done"}]}
    record = record_prompt(AGENTS[0], [title, first, second])
    assert (record.prompt_bytes, record.tools) == (102, 1)
    assert record.turn_bytes == text_bytes(second) - 102
    assert record.turn_bytes > len("done")
    assert record_prompt(AGENTS[0], [title]).prompt_bytes == text_bytes(title)
