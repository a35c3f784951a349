"""Dynamo and SGLang for real, on the processor: loaded by their own plans, asked, and with a worker killed."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import openai
import pytest

from app.client.discovery import ensure_gateway
from app.client.http import GatewayClient
from app.config.paths import Paths
from app.core.engines import EngineState
from tests.end_to_end.conftest import Roundhouse, stop
from tests.end_to_end.served_guide import BEGINS, CONTEXT, TOOL, WITHIN_S, ServedGuide, ask
from tests.patience import wait_until
from tests.real_engines import dynamo_on_cpu, sglang_on_cpu
from tests.real_engines.on_cpu import put_into_store

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1500)]


class EngineCase(NamedTuple):
    """An engine: how it is made, and what a test has to know of it."""

    engine: str
    version: str
    make: Callable[[], Path]
    options: tuple[str, ...]
    worker: str
    """How a process whose death ends all is called."""


COMPACT = '--structured-outputs-config={"backend":"xgrammar","disable_any_whitespace":true}'
"""A model as small as the Guide writes the spaces that JSON allows without end."""
DYNAMO = EngineCase(
    "dynamo",
    dynamo_on_cpu.VERSION,
    dynamo_on_cpu.dynamo_environment,
    ("--gpu-memory-fraction", "0.1", f"--arg={COMPACT}"),
    "VLLM::Worker",
)
SGLANG = EngineCase(
    "sglang",
    sglang_on_cpu.VERSION,
    sglang_on_cpu.sglang_environment,
    ("--arg=--constrained-json-disable-any-whitespace",),
    "sglang::schedul",
)


@pytest.fixture(scope="module", params=[DYNAMO, SGLANG], ids=lambda case: case.engine)
def case(request: pytest.FixtureRequest) -> EngineCase:
    case: EngineCase = request.param
    return case


@pytest.fixture(scope="module")
def guide(case: EngineCase, home: Paths, roundhouse: Roundhouse) -> Iterator[ServedGuide]:
    stop(home)  # a gateway that runs need not look for versions that somebody else puts into its store
    put_into_store(home, case.engine, case.version, case.make())
    guide = ServedGuide(GatewayClient(ensure_gateway(home), timeout_s=WITHIN_S), roundhouse)
    guide.load(home, case.engine, *case.options)
    yield guide
    guide.unload()


@pytest.fixture
def api(guide: ServedGuide) -> Iterator[openai.OpenAI]:
    with guide.connect() as connection:
        yield connection


def test_it_is_known_as_what_it_is(case: EngineCase, guide: ServedGuide) -> None:
    status = guide.status()
    assert (status.engine, status.state, status.context) == (case.engine, EngineState.READY, CONTEXT)
    assert (status.version, status.backend) == (case.version, "cpu")


def test_it_answers_whole_and_in_pieces(api: openai.OpenAI) -> None:
    whole = ask(api)
    assert whole.choices[0].message.content.startswith(BEGINS)
    parts = list(ask(api, stream=True, stream_options={"include_usage": True}))
    assert "".join(part.choices[0].delta.content or "" for part in parts if part.choices) == (
        whole.choices[0].message.content
    )
    assert parts[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_probabilities_need_no_compiler(api: openai.OpenAI) -> None:
    content = ask(api, logprobs=True, top_logprobs=2, max_tokens=2).choices[0].logprobs.content
    assert [token.token for token in content] == ["V", "RAM"]


def test_a_prompt_too_long_is_said_in_openai_s_words(api: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        ask(api, messages=[{"role": "user", "content": "a b " * 9000}])
    assert error.value.code == "context_length_exceeded"


def test_a_call_that_must_be_made_has_what_its_tool_requires(api: openai.OpenAI) -> None:
    answer = ask(api, tools=[TOOL], tool_choice="required").choices[0].message
    (call,) = answer.tool_calls
    assert call.function.name == "weather"
    assert isinstance(json.loads(call.function.arguments)["city"], str)


def test_a_model_that_is_not_here_is_not_answered_by_the_one_that_is(api: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        ask(api, model="somebody-else")


def test_a_client_that_leaves_ends_the_work(guide: ServedGuide) -> None:
    guide.leave()
    wait_until(lambda: guide.gauge("requests_running") == 0)


def test_a_killed_worker_is_replaced_by_the_next_request(
    case: EngineCase, guide: ServedGuide, api: openai.OpenAI
) -> None:
    guide.kill_worker(case.worker)
    assert ask(api).choices[0].message.content.startswith(BEGINS)
