"""ExLlamaV3 and ExLlamaV2 with their real generators and the Guide's weights, behind our worker, without a card.

What they compile for cards is stood in for (`tests.real_engines.exllama_on_cpu`): whether their kernels compute the
same, `python -m tests.gpu` shows.
"""

import http.client
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from app.config.paths import RESOURCES
from engines.api import ContextSet, Draft, LaunchOptions
from engines.exllama.exl2 import ADAPTER as EXL2
from engines.exllama.exl3 import ADAPTER as EXL3
from engines.worker_adapter import WorkerAdapter
from tests.end_to_end.served_guide import BEGINS, QUESTION
from tests.end_to_end.worker import Engine, Worker
from tests.patience import PATIENCE_S
from tests.real_engines.exllama_on_cpu import ENVIRONMENT, exllama_installation

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1500)]

HF = RESOURCES / "guide" / "hf"
ADAPTERS = {"exllamav3": EXL3, "exllamav2": EXL2}
CONTEXT = 512
"""Two conversations of it take less than the libraries read of a prompt at once."""
WITHIN_S = 600.0
TOKENS = 14


def start_worker(adapter: WorkerAdapter, **more: Any) -> Worker:  # noqa: ANN401 -- any field of the options
    options = LaunchOptions(**{"context": CONTEXT, "slots": 2, "extra_env": ENVIRONMENT, **more})
    installation = exllama_installation(adapter.descriptor.id)
    return Worker(HF, options, engine=Engine(adapter, installation), is_confined=False)


@pytest.fixture(scope="module", params=list(ADAPTERS))
def worker(request: pytest.FixtureRequest) -> Iterator[Worker]:
    with closing(start_worker(ADAPTERS[request.param])) as worker:
        assert worker.is_ready(within_s=WITHIN_S), worker.lines
        yield worker


def ask(worker: Worker, question: str = QUESTION, **wishes: object) -> dict[str, Any]:
    messages = [{"role": "user", "content": question}]
    body = {"messages": messages, "max_tokens": TOKENS, "temperature": 0, **wishes}
    answer: dict[str, Any] = worker.ask("/v1/chat/completions", body)
    return answer


def content_of(answer: dict[str, Any]) -> str:
    return str(answer["choices"][0]["message"]["content"])


def test_it_answers_as_the_guide_does_on_llama_cpp(worker: Worker) -> None:
    answer = ask(worker)
    assert content_of(answer).startswith(BEGINS)
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == TOKENS
    assert ContextSet(tokens=CONTEXT, slots=2) in worker.events()


def test_answers_to_several_at_once_are_those_to_each_alone(worker: Worker) -> None:
    questions = [QUESTION, "What is a token?", "What is quantisation?"]
    alone = [content_of(ask(worker, question)) for question in questions]
    with ThreadPoolExecutor(len(questions)) as pool:
        assert list(pool.map(lambda question: content_of(ask(worker, question)), questions)) == alone
    assert len(set(alone)) == len(questions)


def test_what_was_read_before_is_not_read_again(worker: Worker) -> None:
    ask(worker, max_tokens=1)
    usage = ask(worker, max_tokens=1)["usage"]
    assert 0 < usage["prompt_tokens_details"]["cached_tokens"] < usage["prompt_tokens"]


def test_an_answer_ends_with_the_model_s_own_end(worker: Worker) -> None:
    answer = ask(worker, max_tokens=300)
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert "<|im_end|>" not in content_of(answer)


def test_the_likeliest_tokens_come_with_their_figures(worker: Worker) -> None:
    tokens = ask(worker, max_tokens=3, logprobs=True, top_logprobs=2)["choices"][0]["logprobs"]["content"]
    assert [token["token"] for token in tokens] == ["V", "RAM", " is"]
    for token in tokens:
        first, second = (alternative["logprob"] for alternative in token["top_logprobs"])
        assert token["logprob"] == pytest.approx(first, abs=1e-3)
        assert second < first <= 0


def test_a_schema_is_kept_to(worker: Worker) -> None:
    form = {"type": "json_schema", "json_schema": {"schema": {"enum": ["Oslo", "Lima"]}}}
    answer = ask(worker, response_format=form)
    assert json.loads(content_of(answer)) in {"Oslo", "Lima"}
    assert answer["choices"][0]["finish_reason"] == "stop"


def test_a_seed_draws_the_same_again_and_another_does_not(worker: Worker) -> None:
    wishes: dict[str, Any] = {
        "temperature": 1.9,
        "top_p": 0.99,
        "top_k": 500,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.5,
    }
    first, again, other = (content_of(ask(worker, **wishes, seed=seed)) for seed in (1, 1, 2))
    assert first == again != other


def test_a_client_that_leaves_frees_its_place(worker: Worker) -> None:
    for _ in range(3):
        connection = http.client.HTTPConnection(worker.plan.base_url.removeprefix("http://"), timeout=PATIENCE_S)
        request = worker.request("/v1/completions", {"prompt": "a", "ignore_eos": True, "stream": True})
        connection.request("POST", "/v1/completions", request.data, dict(request.header_items()))
        assert connection.getresponse().read(16)
        connection.close()
    assert content_of(ask(worker)).startswith(BEGINS)


@pytest.mark.parametrize("name", list(ADAPTERS))
def test_a_model_that_drafts_changes_no_word(name: str) -> None:
    with closing(start_worker(ADAPTERS[name], draft=Draft(kind="model", path=HF, tokens=3))) as worker:
        assert worker.is_ready(within_s=WITHIN_S), worker.lines
        answer = ask(worker)
        assert content_of(answer).startswith(BEGINS)
        assert answer["usage"]["completion_tokens"] == TOKENS


def test_a_cache_of_eight_bits_answers_alike() -> None:
    with closing(start_worker(EXL3, kv_type="q8_0", slots=1)) as worker:
        assert worker.is_ready(within_s=WITHIN_S), worker.lines
        assert content_of(ask(worker)).startswith(BEGINS)
