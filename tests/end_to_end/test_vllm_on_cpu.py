"""vLLM for real, on the processor: found on PATH, loaded by its own plan, asked in every dialect, and killed."""

import json
import os
from collections.abc import Iterator
from typing import Any

import anthropic
import ollama
import openai
import pytest

from app.client.discovery import ensure_gateway
from app.client.http import GatewayClient
from app.config.paths import Paths
from app.core.engines import EngineState
from tests.end_to_end.conftest import Roundhouse
from tests.end_to_end.served_guide import BEGINS, CONTEXT, MODEL, QUESTION, TOOL, WITHIN_S, ServedGuide, ask
from tests.patience import wait_until
from tests.real_engines.vllm_on_cpu import VERSION, vllm_program

COMPACT = '--structured-outputs-config={"backend":"xgrammar","disable_any_whitespace":true}'
"""A model as small as the Guide writes the spaces that JSON allows without end."""
pytestmark = [pytest.mark.engines, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def client(home: Paths) -> Iterator[GatewayClient]:
    """A gateway on whose PATH vLLM is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{vllm_program().parent}")
        yield GatewayClient(ensure_gateway(home), timeout_s=WITHIN_S)


@pytest.fixture(scope="module", autouse=True)
def guide(home: Paths, client: GatewayClient, roundhouse: Roundhouse) -> Iterator[ServedGuide]:
    guide = ServedGuide(client, roundhouse)
    guide.load(home, "vllm", "--gpu-memory-fraction", "0.1", "--tool-parser", "hermes", f"--arg={COMPACT}")
    yield guide
    guide.unload()


@pytest.fixture
def api(guide: ServedGuide) -> Iterator[openai.OpenAI]:
    with guide.connect() as connection:
        yield connection


def test_it_is_known_as_what_it_is(guide: ServedGuide) -> None:
    status = guide.status()
    assert (status.engine, status.state, status.context) == ("vllm", EngineState.READY, CONTEXT)
    assert (status.version, status.backend) == (f"{VERSION}+cpu", "cpu")
    assert "Memory share  0.1" in guide.roundhouse("tune", MODEL).stdout


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
    with pytest.raises(openai.BadRequestError) as error:
        ask(api, messages=[{"role": "user", "content": "a b " * 9000}])
    assert error.value.code == "context_length_exceeded"


def test_a_call_that_must_be_made_has_what_its_tool_requires(api: openai.OpenAI) -> None:
    answer = ask(api, tools=[TOOL], tool_choice="required").choices[0].message
    (call,) = answer.tool_calls
    assert call.function.name == "weather"
    assert isinstance(json.loads(call.function.arguments)["city"], str)


def test_a_client_that_leaves_ends_the_work(guide: ServedGuide) -> None:
    guide.leave()
    wait_until(lambda: guide.gauge("requests_running") == 0)


def test_a_killed_worker_is_replaced_by_the_next_request(guide: ServedGuide, api: openai.OpenAI) -> None:
    guide.kill_worker("VLLM::Worker")
    assert ask(api).choices[0].message.content.startswith(BEGINS)
