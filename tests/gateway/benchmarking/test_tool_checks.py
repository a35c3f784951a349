"""Tool calls of a preflight: how many tasks are answered by calls that an agent's tools would take."""

import json
import threading

import pytest
from aiohttp import web

from app.benchmark.tool_tasks import list_tasks
from app.connect.connections import find_tool
from app.core.benchmarks import StartBenchmark, tool_benchmark
from app.core.tool_prompts import TOOL_PROMPTS
from app.gateway.benchmarking import tool_checks
from app.gateway.benchmarking.run import BenchmarkRun
from app.gateway.benchmarking.targets import open_target
from app.gateway.benchmarking.tool_checks import FILE, count_valid_calls, list_tools
from app.gateway.services import Services
from tests.gateway.benchmarking import test_race
from tests.gateway.benchmarking.played_engine import PlayedComputer
from tests.gateway.played import Upstream
from tests.tool_forms import encode_forms

parts = test_race.parts
TASKS = list_tasks()
CALLS = {
    TASKS[0]: {"name": "exec_command", "arguments": '{"cmd": "cat README.md"}'},
    TASKS[1]: {"name": "exec_command", "arguments": '{"lines": [10, 40]}'},
    TASKS[2]: {"name": "no_such_tool", "arguments": "{}"},
    TASKS[99]: {"name": "exec_command", "arguments": '{"cmd": "head -n 5 config/application.conf"}'},
}


async def call_tools(request: web.Request) -> web.Response:
    body = await request.json()
    assert [tool["function"]["name"] for tool in body["tools"]] == [tool.name for tool in list_tools("codex")]
    call = CALLS.get(body["messages"][-1]["content"])
    delta = (
        {"content": "I would rather not."}
        if call is None
        else {"tool_calls": [{"index": 0, "id": "c", "function": call}]}
    )
    chunk = json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]})
    return web.Response(text=f"data: {chunk}\n\ndata: [DONE]\n\n", content_type="text/event-stream")


def test_there_are_a_hundred_tasks_and_the_tools_are_those_recorded() -> None:
    assert len(set(TASKS)) == 100
    assert FILE.read_bytes() == encode_forms(), "`python -m tests.tool_forms --write` writes it anew"
    for prompt in TOOL_PROMPTS:
        assert bool(list_tools(prompt.tool)) == bool(prompt.tools), find_tool(prompt.tool).name
    assert "<text of" not in FILE.read_text(encoding="utf-8"), "no words, nor marks of them"


async def test_calls_that_do_not_come_or_cannot_be_made_are_not_valid(parts: Services, upstream: Upstream) -> None:
    upstream.play = call_tools
    progress: list[tuple[int, int]] = []
    async with open_target(parts, StartBenchmark(model="guide", settings=tool_benchmark("codex"))) as target:
        counts = await count_valid_calls(
            parts, target, PlayedComputer().read, tool="codex", publish=lambda *at: progress.append(at)
        )
    assert counts == (100, 2)
    assert progress == [(done_count, 100) for done_count in range(100)]


async def test_where_the_time_is_over_what_was_set_until_then_counts(
    parts: Services, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.play = call_tools
    monkeypatch.setattr(tool_checks, "MOST_S", -1.0)
    async with open_target(parts, StartBenchmark(model="guide", settings=tool_benchmark("codex"))) as target:
        counts = await count_valid_calls(
            parts, target, PlayedComputer().read, tool="codex", publish=lambda _done_count, _count: None
        )
    assert counts == (0, 0)


async def test_a_benchmark_of_another_workload_or_an_agent_without_tools_sets_no_tasks(
    parts: Services, upstream: Upstream
) -> None:
    run = BenchmarkRun(parts, threading.Event(), lambda *_: None, PlayedComputer().read)
    request = StartBenchmark(model="guide")
    async with open_target(parts, request) as target:
        assert await run._check_calls(target, request) == (0, 0)
        bare = StartBenchmark(model="guide", settings=tool_benchmark("aider"))
        assert await run._check_calls(target, bare) == (0, 0)


async def test_how_many_tasks_are_done_is_told_while_they_are_set(parts: Services, upstream: Upstream) -> None:
    upstream.play = call_tools
    stages: list[tuple[str, float]] = []
    run = BenchmarkRun(parts, threading.Event(), lambda *stage: stages.append(stage), PlayedComputer().read)
    request = StartBenchmark(model="guide", settings=tool_benchmark("codex"))
    async with open_target(parts, request) as target:
        assert await run._check_calls(target, request) == (100, 2)
    stage, fraction = stages[37]
    assert stage == "Asking for tool calls, 37 of 100 done"
    assert fraction == pytest.approx(0.98 + 0.02 * 0.37)
