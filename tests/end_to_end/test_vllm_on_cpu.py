"""vLLM for real, on the processor: found on PATH, loaded by its own plan, asked in every dialect, and killed."""

import json
import os
import shutil
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import ollama
import openai
import psutil
import pytest

from app.client.discovery import ensure_gateway
from app.client.http import GatewayClient
from app.config.paths import RESOURCES, Paths
from app.core.engines import EngineState, EngineStatus
from tests.end_to_end.conftest import Roundhouse
from tests.patience import wait_until
from tests.real_engines.vllm_on_cpu import VERSION, vllm_program

MODEL = "hf"
QUESTION = "What is VRAM?"
BEGINS = "VRAM is the fast memory on the graphics card."
WITHIN_S = 300.0
"""Loading takes half a minute alone on two cores."""
COMPACT = '--structured-outputs-config={"backend":"xgrammar","disable_any_whitespace":true}'
"""A model as small as the Guide writes the spaces that JSON allows without end."""
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}

pytestmark = [pytest.mark.engines, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def client(home: Paths) -> Iterator[GatewayClient]:
    """A gateway on whose PATH vLLM is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{vllm_program().parent}")
        yield GatewayClient(ensure_gateway(home), timeout_s=WITHIN_S)


@pytest.fixture(scope="module", autouse=True)
def running(home: Paths, client: GatewayClient, roundhouse: Roundhouse) -> Iterator[EngineStatus]:
    shutil.copytree(RESOURCES / "guide" / "hf", home.models / MODEL)
    options = ("--engine", "vllm", "--gpu-memory-fraction", "0.1", "--tool-parser", "hermes", f"--arg={COMPACT}")
    tuned = roundhouse("tune", MODEL, *options)
    assert "Memory share  0.1" in tuned.stdout, tuned.stdout + tuned.stderr
    loaded = roundhouse("load", MODEL, "--context", "2048", "--slots", "4", within_s=WITHIN_S)
    assert not loaded.returncode, loaded.stdout + loaded.stderr + roundhouse("logs", MODEL).stdout
    yield status(client)
    client.post("/unload", {"model": MODEL, "force": True}, object)


@pytest.fixture
def api(client: GatewayClient) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{client.gateway.url}/v1", api_key="none", timeout=WITHIN_S, max_retries=0
    ) as connection:
        yield connection


def status(client: GatewayClient) -> EngineStatus:
    (engine_status,) = (entry for entry in client.get("/running", list[EngineStatus]) if entry.model == MODEL)
    return engine_status


def ask(api: openai.OpenAI, **more: Any) -> Any:  # noqa: ANN401 -- fields of a request, and the package's answer
    fields: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}], "temperature": 0}
    return api.chat.completions.create(**{**fields, **more})


def test_it_is_known_as_what_it_is(running: EngineStatus) -> None:
    assert (running.engine, running.state, running.context) == ("vllm", EngineState.READY, 2048)
    assert (running.version, running.backend) == (f"{VERSION}+cpu", "cpu")


def test_openai_s_client_gets_an_answer_whole_and_in_pieces(api: openai.OpenAI) -> None:
    whole = ask(api)
    assert whole.choices[0].message.content.startswith(BEGINS)
    pieces = ask(api, stream=True, stream_options={"include_usage": True})
    parts = list(pieces)
    assert "".join(part.choices[0].delta.content or "" for part in parts if part.choices) == (
        whole.choices[0].message.content
    )
    assert parts[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_the_other_dialects_get_an_answer(client: GatewayClient, api: openai.OpenAI) -> None:
    assert api.responses.create(model=MODEL, input=QUESTION, temperature=0).output_text.startswith(BEGINS)
    with anthropic.Anthropic(base_url=client.gateway.url, api_key="none", timeout=WITHIN_S) as other:
        messages: Any = [{"role": "user", "content": QUESTION}]
        block = other.messages.create(model=MODEL, max_tokens=80, messages=messages).content[0]
        assert block.type == "text"
        assert block.text.startswith(BEGINS)
        assert other.messages.count_tokens(model=MODEL, messages=messages).input_tokens == 12
    with ollama.Client(host=client.gateway.url, timeout=WITHIN_S) as third:
        answer = third.chat(MODEL, [ollama.Message(role="user", content=QUESTION)], options={"temperature": 0})
        assert (answer.message.content or "").startswith(BEGINS)


def test_probabilities_need_no_compiler_and_a_bias_keeps_a_word_away(api: openai.OpenAI) -> None:
    content = ask(api, logprobs=True, top_logprobs=2, max_tokens=2).choices[0].logprobs.content
    assert [token.token for token in content] == ["V", "RAM"]
    assert "fast" not in ask(api, logit_bias={"548": -100}, max_tokens=20).choices[0].message.content


def test_a_prompt_too_long_is_said_in_openai_s_words(api: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(api, messages=[{"role": "user", "content": "a b " * 9000}])
    assert caught.value.code == "context_length_exceeded"


def test_a_call_that_must_be_made_has_what_its_tool_requires(api: openai.OpenAI) -> None:
    answer = ask(api, tools=[TOOL], tool_choice="required").choices[0].message
    (call,) = answer.tool_calls
    assert call.function.name == "weather"
    assert isinstance(json.loads(call.function.arguments)["city"], str)


def test_a_client_that_leaves_ends_the_work(client: GatewayClient) -> None:
    body = {"model": MODEL, "prompt": "a", "max_tokens": 1900, "ignore_eos": True, "stream": True}
    with httpx.stream("POST", f"{client.gateway.url}/v1/completions", json=body, timeout=WITHIN_S) as reply:
        next(reply.iter_bytes())
    wait_until(lambda: gauge(client, "requests_running") == 0)


def gauge(client: GatewayClient, name: str) -> float:
    start = f'roundhouse_engine_{name}{{model="{MODEL}"'
    lines = httpx.get(f"{client.gateway.url}/metrics", timeout=WITHIN_S).text.splitlines()
    return next((float(line.split()[-1]) for line in lines if line.startswith(start)), -1.0)


def test_a_killed_worker_is_replaced_by_the_next_request(client: GatewayClient, api: openai.OpenAI) -> None:
    before = status(client)
    assert before.pid is not None
    family = psutil.Process(before.pid).children(recursive=True)
    (worker,) = (process for process in family if process.name() == "VLLM::Worker")
    worker.kill()
    wait_until(lambda: status(client).state is not EngineState.READY)
    assert ask(api).choices[0].message.content.startswith(BEGINS)
    assert status(client).pid != before.pid
    assert not [process for process in family if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
