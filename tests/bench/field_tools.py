"""Whether other tools measure what we measure: the same load on a scripted server, whose figures are known.

The tools are programs of their own, named by `ROUNDHOUSE_BENCH_TOOLS` (paths with colons between them): `vllm`,
`guidellm`. Each is given the Guide's tokenizer, so that nothing is fetched.
"""

import asyncio
import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from aiohttp import web

from app.benchmark.results import BenchmarkRound, RequestTiming, summarize_level
from app.config.paths import RESOURCES
from app.core.benchmarks import BenchmarkMessage, BenchmarkPrompt
from app.gateway.benchmarking.client import BenchmarkClient, BenchmarkEndpoint
from app.gateway.exchange.resolving import make_session
from tests.bench.figures import BenchFigure, at_most, not_measured
from tests.ports import free_port

FIRST_S, TOKEN_S = 0.1, 0.01
TOKENS, REQUESTS, AT_ONCE = 64, 40, 4
TOLERANCE_PERCENT = 3.0
TOOLS_VARIABLE = "ROUNDHOUSE_BENCH_TOOLS"
_MODEL = "scripted"
_TOKENIZER = RESOURCES / "guide" / "hf"
_LONGEST_S = 600


class ToolMeans(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool says, in seconds and tokens per second."""

    ttft_s: float
    token_s: float
    e2e_s: float
    tokens_s: float


async def _answer(request: web.Request) -> web.StreamResponse:
    """Send each token at the moment it is due, whatever the ones before took."""
    loop = asyncio.get_running_loop()
    begun_at = loop.time()
    body = await request.json()
    tokens = int(body.get("max_tokens") or body.get("max_completion_tokens") or TOKENS)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for number in range(tokens):
        await asyncio.sleep(max(0.0, begun_at + FIRST_S + number * TOKEN_S - loop.time()))
        await _send(response, [{"index": 0, "delta": {"content": " word"}, "finish_reason": None}])
    await _send(response, [{"index": 0, "delta": {}, "finish_reason": "length"}])
    usage = {"prompt_tokens": 20, "completion_tokens": tokens, "total_tokens": tokens + 20}
    await _send(response, [], usage=usage)
    await response.write(b"data: [DONE]\n\n")
    return response


async def _send(response: web.StreamResponse, choices: list[object], **more: object) -> None:
    document = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": _MODEL, "choices": choices, **more}
    await response.write(b"data: " + json.dumps(document).encode() + b"\n\n")


async def _list_models(_request: web.Request) -> web.Response:
    model = {"id": _MODEL, "object": "model", "created": 0, "owned_by": "nobody"}
    return web.json_response({"object": "list", "data": [model]})


@contextmanager
def scripted_server() -> Iterator[str]:
    """Have the server answer, in a thread of its own, while the block runs; yields its base URL."""
    port, loop = free_port(), asyncio.new_event_loop()
    app = web.Application()
    for path in ("/health", "/v1/models"):
        app.router.add_get(path, _list_models)
    app.router.add_post("/v1/chat/completions", _answer)
    runner = web.AppRunner(app)
    start_event = threading.Event()

    async def start() -> None:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        start_event.set()

    def serve() -> None:
        loop.run_until_complete(start())
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=serve)
    thread.start()
    start_event.wait()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


async def measure_ours(url: str) -> ToolMeans:
    """Return what our client says."""
    prompt = BenchmarkPrompt(messages=[BenchmarkMessage(role="user", content="word " * 20)], answer_tokens=TOKENS)
    results: list[RequestTiming] = []
    places = iter(range(REQUESTS))
    async with make_session(5.0) as http:
        client = BenchmarkClient(http, BenchmarkEndpoint(url=f"{url}/v1/chat/completions", key="", model=_MODEL))
        await client.send(prompt)

        async def work() -> None:
            for _ in places:
                results.append(await client.send(prompt, concurrency=AT_ONCE))  # noqa: PERF401 -- several workers share it

        begun_at = time.monotonic()
        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        duration_s = time.monotonic() - begun_at
    level = summarize_level([BenchmarkRound(concurrency=AT_ONCE, duration_s=duration_s, requests=results)])
    return ToolMeans(
        ttft_s=level.ttft_s.mean,
        token_s=level.tpot_s.mean,
        e2e_s=level.e2e_s.mean,
        tokens_s=level.answer_tokens_s.value,
    )


def _run_vllm(program: Path, url: str, folder: Path) -> ToolMeans:
    file = folder / "vllm.json"
    load = ["--random-input-len", "20", "--random-output-len", str(TOKENS), "--num-prompts", str(REQUESTS)]
    target = [
        "--base-url",
        url,
        "--endpoint",
        "/v1/chat/completions",
        "--model",
        _MODEL,
        "--tokenizer",
        str(_TOKENIZER),
    ]
    result_options = ["--save-result", "--result-dir", str(folder), "--result-filename", file.name, "--disable-tqdm"]
    metrics = ["--percentile-metrics", "ttft,tpot,itl,e2el", "--max-concurrency", str(AT_ONCE)]
    command = ["bench", "serve", "--backend", "openai-chat", "--dataset-name", "random"]
    _run_tool([str(program), *command, *target, *load, *metrics, *result_options])
    body = json.loads(file.read_bytes())
    return ToolMeans(
        ttft_s=body["mean_ttft_ms"] / 1e3,
        token_s=body["mean_tpot_ms"] / 1e3,
        e2e_s=body["mean_e2el_ms"] / 1e3,
        tokens_s=body["output_throughput"],
    )


def _run_guidellm(program: Path, url: str, folder: Path) -> ToolMeans:
    file = folder / "guidellm.json"
    backend = f"kind=openai_http,target={url},model={_MODEL},request_format=/v1/chat/completions"
    load = ["--profile", f"kind=concurrent,streams={AT_ONCE}", "--constraint", f"kind=max_requests,count={REQUESTS}"]
    data = ["--data", f"kind=synthetic_text,prompt_tokens=20,output_tokens={TOKENS}"]
    tokenizer = ["--tokenizer", f"kind=huggingface_auto,model={_TOKENIZER}"]
    result_options = ["--output", f"kind=json,path={file}", "--disable-console-interactive"]
    _run_tool([str(program), "run", "--backend", backend, *load, *data, *tokenizer, *result_options])
    metrics = json.loads(file.read_bytes())["benchmarks"][0]["metrics"]

    def mean_of(name: str) -> float:
        return float(metrics[name]["successful"]["mean"])

    return ToolMeans(
        ttft_s=mean_of("time_to_first_token_ms") / 1e3,
        token_s=mean_of("inter_token_latency_ms") / 1e3,
        e2e_s=mean_of("request_latency"),
        tokens_s=mean_of("output_tokens_per_second"),
    )


def _run_tool(command: Sequence[str]) -> None:
    environ = {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    subprocess.run(command, check=True, env=environ, timeout=_LONGEST_S, stdout=subprocess.DEVNULL)


TOOLS: dict[str, Callable[[Path, str, Path], ToolMeans]] = {"vllm": _run_vllm, "guidellm": _run_guidellm}


def measure() -> list[BenchFigure]:
    """Return how far our figures are from each tool's, in per cent."""
    programs = [Path(name) for name in os.environ.get(TOOLS_VARIABLE, "").split(os.pathsep) if name]
    named_programs = [program for program in programs if program.name in TOOLS]
    if not named_programs:
        return [not_measured("other tools", f"within {TOLERANCE_PERCENT:.0f} %", f"{TOOLS_VARIABLE} names none")]
    figures: list[BenchFigure] = []
    with scripted_server() as url, tempfile.TemporaryDirectory() as folder:
        for program in named_programs:
            ours = asyncio.run(measure_ours(url))
            theirs = TOOLS[program.name](program, url, Path(folder))
            figures += [
                at_most(f"{name}, against {program.name}", difference, TOLERANCE_PERCENT, " %")
                for name, difference in compare_means(ours, theirs).items()
            ]
    return figures


def compare_means(ours: ToolMeans, theirs: ToolMeans) -> dict[str, float]:
    """Return how far each figure of ours is from theirs, in per cent."""
    return {name: abs(getattr(ours, name) / getattr(theirs, name) - 1) * 100 for name in ToolMeans.__struct_fields__}
