"""Tool calls of a preflight: how many tasks are answered by calls that their tools would take."""

import json
import threading

from aiohttp import web

from app.benchmark.tool_tasks import TASK_TOOLS, TASKS
from app.core.benchmarks import StartBenchmark, tool_benchmark
from app.gateway.benchmarking.run import BenchmarkRun
from app.gateway.benchmarking.targets import open_target
from app.gateway.benchmarking.tool_checks import count_valid_calls
from app.gateway.services import Services
from tests.gateway.benchmarking import test_race
from tests.gateway.benchmarking.played_engine import PlayedComputer
from tests.gateway.played import Upstream

parts = test_race.parts
CALLS = {
    TASKS[0]: {"name": "read_file", "arguments": '{"path": "README.md"}'},
    TASKS[1]: {"name": "read_file", "arguments": '{"lines": [10, 40]}'},
    TASKS[2]: {"name": "no_such_tool", "arguments": "{}"},
    TASKS[3]: {"name": "list_folder", "arguments": '{"path": "src", "recursive": true}'},
}


async def call_tools(request: web.Request) -> web.Response:
    body = await request.json()
    assert len(body["tools"]) == len(TASK_TOOLS)
    call = CALLS.get(body["messages"][-1]["content"])
    delta = (
        {"content": "I would rather not."}
        if call is None
        else {"tool_calls": [{"index": 0, "id": "c", "function": call}]}
    )
    chunk = json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]})
    return web.Response(text=f"data: {chunk}\n\ndata: [DONE]\n\n", content_type="text/event-stream")


async def test_calls_that_do_not_come_or_cannot_be_made_are_not_valid(parts: Services, upstream: Upstream) -> None:
    upstream.play = call_tools
    async with open_target(parts, StartBenchmark(model="guide", settings=tool_benchmark("codex"))) as target:
        assert await count_valid_calls(parts, target, PlayedComputer().read) == (len(TASKS), 2)


async def test_a_benchmark_of_another_workload_sets_no_tasks(parts: Services, upstream: Upstream) -> None:
    run = BenchmarkRun(parts, threading.Event(), lambda *_: None, PlayedComputer().read)
    request = StartBenchmark(model="guide")
    async with open_target(parts, request) as target:
        assert await run._check_calls(target, request) == (0, 0)
