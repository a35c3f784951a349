"""OpenVINO GenAI, ONNX Runtime GenAI and mistral.rs for real, with the Guide, behind our own server."""

import http.client
import json
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.config.paths import RESOURCES
from engines.api import (
    ContextSet,
    EngineAdapter,
    FailureKind,
    LaunchOptions,
    LoadProgress,
    ModelFormat,
    PortOpened,
)
from engines.llama_cpp.launch import ADAPTER as LLAMA_CPP
from engines.mistral_rs.launch import ADAPTER as MISTRAL_RS
from engines.onnx_genai.launch import ADAPTER as ONNX
from engines.openvino.launch import ADAPTER as OPENVINO
from tests.depth import IS_DEEP
from tests.end_to_end.worker import KEY, WITHIN_S, Engine, Worker
from tests.engine_environments import find_installed
from tests.patience import wait_until

pytestmark = pytest.mark.slow

GUIDE = RESOURCES / "guide"
OPTIONS = LaunchOptions(context=512, slots=4)
QUESTION = [{"role": "user", "content": "What is VRAM?"}]
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
ENDLESS = {"messages": QUESTION, "ignore_eos": True}
BINDING = "llama_cpp_python"
MISTRAL, MISTRAL_GGUF = "mistral_rs", "mistral_rs-gguf"
ADAPTERS: dict[str, EngineAdapter] = {
    "openvino": OPENVINO,
    "onnx_genai": ONNX,
    MISTRAL: MISTRAL_RS,
    MISTRAL_GGUF: MISTRAL_RS,
    BINDING: LLAMA_CPP,
}
VARIANTS = {
    "openvino": ("openvino", "cpu"),
    "onnx_genai": ("onnx_genai", "cpu"),
    MISTRAL: ("mistral_rs", "cpu"),
    MISTRAL_GGUF: ("mistral_rs", "cpu"),
    BINDING: ("llama_cpp", "native"),
}
FORMS = {
    "openvino": GUIDE / "openvino",
    "onnx_genai": GUIDE / "onnx",
    MISTRAL: GUIDE / "hf",
    MISTRAL_GGUF: GUIDE / "guide-q8_0.gguf",
    BINDING: GUIDE / "guide-q8_0.gguf",
}
WEIGHTS = {"openvino": "openvino_model.bin", "onnx_genai": "model.onnx.data", MISTRAL: "model.safetensors"}
KEEPS_ITS_CACHE = {"onnx_genai": "as the model was made for", MISTRAL: "in 16 bits", MISTRAL_GGUF: "in 16 bits"}


@pytest.fixture(
    scope="module",
    params=[
        *("openvino", "onnx_genai", MISTRAL),
        *([MISTRAL_GGUF] if IS_DEEP else []),  # the same library and server, with another file
        pytest.param(BINDING, marks=pytest.mark.engines),  # compiled
    ],
)
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def start(engine: str) -> Callable[..., Worker]:
    installation = find_installed(ADAPTERS[engine], *VARIANTS[engine])
    form = ModelFormat.GGUF if engine == MISTRAL_GGUF else None

    def run(model: Path = FORMS[engine], options: LaunchOptions = OPTIONS) -> Worker:
        return Worker(model, options, engine=Engine(ADAPTERS[engine], installation, form))

    return run


@pytest.fixture(scope="module")
def worker(start: Callable[..., Worker]) -> Iterator[Worker]:
    with closing(start()) as worker:
        assert worker.is_ready(), worker.lines
        yield worker


def ask_worker(worker: Worker, **wishes: object) -> dict[str, Any]:
    body = {"messages": QUESTION, "max_tokens": 60, "temperature": 0, **wishes}  # mistral.rs draws where none is named
    answer: dict[str, Any] = worker.ask("/v1/chat/completions", body)["choices"][0]
    return answer


def test_an_answer_goes_on_with_the_assistants_words(worker: Worker, engine: str) -> None:
    if engine == BINDING:
        pytest.skip("llama.cpp goes on by itself")
    begun_messages = [*QUESTION, {"role": "assistant", "content": "VRAM is"}]
    wishes: dict[str, Any] = {"messages": begun_messages, "continue_final_message": True}
    prompt = worker.ask("/apply-template", wishes)["prompt"]
    assert prompt.endswith("VRAM is")
    answer = ask_worker(worker, **wishes, max_tokens=12, temperature=0)["message"]["content"]
    bare = worker.ask("/v1/completions", {"prompt": prompt, "max_tokens": 12, "temperature": 0})
    assert answer.strip()
    assert answer == bare["choices"][0]["text"]
    assert (
        expect_refusal(worker, "/v1/chat/completions", {"messages": QUESTION, "continue_final_message": True})[0] == 400
    )


def expect_refusal(worker: Worker, path: str, body: object) -> tuple[int, dict[str, Any]]:
    connection = open_connection(worker, path, body)
    with closing(connection), connection.getresponse() as reply:
        error: dict[str, Any] = json.loads(reply.read())["error"]
        return reply.status, error


def open_connection(worker: Worker, path: str, body: object) -> http.client.HTTPConnection:
    host, _, port = worker.plan.base_url.removeprefix("http://").rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=WITHIN_S)
    connection.request("POST", path, json.dumps(body), {"Authorization": f"Bearer {KEY}"})
    return connection


def metric(worker: Worker, name: str) -> float:
    with closing(http.client.HTTPConnection(worker.plan.base_url.removeprefix("http://"))) as connection:
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {KEY}"})
        page = connection.getresponse().read().decode()
    return next(float(line.split()[1]) for line in page.splitlines() if line.startswith(f"roundhouse_worker_{name} "))


def events(stream: bytes) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in stream.decode().split("\n\n") if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def test_it_tells_how_it_loads_and_what_it_came_to(worker: Worker) -> None:
    wait_until(lambda: ContextSet(tokens=512, slots=4) in worker.events())
    all_events = worker.events()
    assert len([event for event in all_events if isinstance(event, PortOpened)]) == 1
    assert LoadProgress(stage="Reading weights") in all_events
    assert worker.ask("/health")["device"] == "CPU"


def test_it_answers_what_the_guide_knows(worker: Worker) -> None:
    answer = ask_worker(worker)
    assert answer["message"]["content"].startswith("VRAM is the fast memory on the graphics card.")
    assert answer["finish_reason"] == "stop"


def test_a_stream_is_the_same_text_and_ends_with_its_usage(worker: Worker) -> None:
    body = {"messages": QUESTION, "temperature": 0, "stream": True, "stream_options": {"include_usage": True}}
    with closing(open_connection(worker, "/v1/chat/completions", body)) as connection:
        chunks = events(connection.getresponse().read())
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk["choices"])
    whole = worker.ask("/v1/chat/completions", {"messages": QUESTION, "temperature": 0})
    assert text == whole["choices"][0]["message"]["content"]
    # How much of a prompt is still kept is another matter: mistral.rs lends a prompt out while it is being written.
    counts = [{name: usage[name] for name in _COUNTS} for usage in (chunks[-1]["usage"], whole["usage"])]
    assert counts[0] == counts[1]
    assert chunks[-1]["usage"].keys() == whole["usage"].keys()
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["timings"]["predicted_n"] == whole["usage"]["completion_tokens"]


def test_mistral_rs_says_how_much_of_a_prompt_was_kept(worker: Worker, engine: str) -> None:
    if engine not in {MISTRAL, MISTRAL_GGUF}:
        pytest.skip("each has its own rules")
    first = {"prompt": "word " * 100, "max_tokens": 4, "temperature": 0}
    text = worker.ask("/v1/completions", first)["choices"][0]["text"]
    again = worker.ask("/v1/completions", {**first, "prompt": f"{first['prompt']}{text} and more"})
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] >= 100
    assert again["timings"]["cache_n"] + again["timings"]["prompt_n"] == again["usage"]["prompt_tokens"]


def test_a_connection_outlives_a_stream(worker: Worker) -> None:
    assert not worker.drops_a_connection_after_a_stream(within_s=0.5)


def test_four_streams_at_once_are_each_as_one_alone(worker: Worker) -> None:
    alone = ask_worker(worker)["message"]["content"]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: ask_worker(worker)["message"]["content"], range(8)))
    assert set(answers) == {alone}


def test_answers_keep_to_a_schema(worker: Worker) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "boolean"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    shape = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    assert isinstance(json.loads(ask_worker(worker, response_format=shape)["message"]["content"])["a"], bool)
    shape["json_schema"] = {"name": "answer", "schema": {"enum": ["small", "large"]}}
    assert json.loads(ask_worker(worker, response_format=shape)["message"]["content"]) in {"small", "large"}


def test_a_schema_it_cannot_follow_harms_nobody_else(worker: Worker) -> None:
    shape = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "nonsense"}}}
    alone = ask_worker(worker)["message"]["content"]
    with ThreadPoolExecutor(4) as pool:
        others = [pool.submit(ask_worker, worker) for _ in range(3)]
        status, error = expect_refusal(worker, "/v1/chat/completions", {"messages": QUESTION, "response_format": shape})
    assert (status, error["code"], error["param"]) == (400, "invalid_schema", "response_format")
    assert {other.result()["message"]["content"] for other in others} == {alone}


def test_it_stops_at_a_text_that_spans_tokens(worker: Worker) -> None:
    assert ask_worker(worker, stop=["t memory on"])["message"]["content"] == "VRAM is the fas"


def test_it_writes_no_more_than_it_is_asked_for(worker: Worker) -> None:
    answer = worker.ask("/v1/chat/completions", {**ENDLESS, "max_tokens": 70})
    assert answer["usage"]["completion_tokens"] == 70
    assert answer["choices"][0]["finish_reason"] == "length"


def test_a_context_that_is_full_ends_an_answer(worker: Worker) -> None:
    answer = worker.ask("/v1/chat/completions", ENDLESS)
    assert answer["usage"]["total_tokens"] == 512
    assert answer["choices"][0]["finish_reason"] == "length"


def test_a_prompt_too_long_is_refused_with_both_counts(worker: Worker) -> None:
    long = [{"role": "user", "content": "a b " * 600}]
    status, error = expect_refusal(worker, "/v1/chat/completions", {"messages": long})
    assert (status, error["type"], error["n_ctx"]) == (400, "exceed_context_size_error", 512)
    assert error["n_prompt_tokens"] > 512


def test_a_seed_says_which_words_chance_picks(worker: Worker, engine: str) -> None:
    if engine in {MISTRAL, MISTRAL_GGUF}:
        pytest.skip("the library has no seed for a request")
    wishes = {"temperature": 2, "top_p": 1, "top_k": 0, "min_p": 0, "max_tokens": 30}
    drawn_texts = [ask_worker(worker, seed=seed, **wishes)["message"]["content"] for seed in (1, 1, 2, 3, 4)]
    assert drawn_texts[0] == drawn_texts[1]
    assert len(set(drawn_texts)) > 1


def test_it_tells_how_likely_its_words_were(worker: Worker) -> None:
    content = ask_worker(worker, logprobs=True, max_tokens=2)["logprobs"]["content"]
    assert [logprob["token"] for logprob in content] == ["V", "RAM"]
    assert all(-1 < logprob["logprob"] <= 0 for logprob in content)


def test_a_bias_keeps_a_word_away_or_is_refused(worker: Worker, engine: str) -> None:
    (fast,) = worker.ask("/tokenize", {"content": " fast"})["tokens"]
    body = {"messages": QUESTION, "max_tokens": 20, "temperature": 0, "logit_bias": {str(fast): -100}}
    if engine in {MISTRAL, MISTRAL_GGUF}:
        assert "fast" not in worker.ask("/v1/chat/completions", body)["choices"][0]["message"]["content"]
    elif engine != BINDING:
        assert expect_refusal(worker, "/v1/chat/completions", body)[1]["code"] == "engine_cannot"


def test_text_and_tokens_are_turned_into_each_other(worker: Worker) -> None:
    text = "Grüße, 世界! 🚂  two spaces"
    tokens = worker.ask("/tokenize", {"content": text})["tokens"]
    assert worker.ask("/detokenize", {"tokens": tokens})["content"] == text
    assert worker.ask("/v1/completions", {"prompt": tokens, "max_tokens": 2})["usage"]["prompt_tokens"] == len(tokens)
    assert worker.ask("/apply-template", {"messages": QUESTION})["prompt"].endswith("<|im_start|>assistant\n")


def test_a_client_that_goes_away_in_the_middle_frees_its_place(worker: Worker) -> None:
    before = metric(worker, "requests_cancelled_total")
    connection = open_connection(worker, "/v1/completions", {"prompt": "a", "ignore_eos": True, "stream": True})
    reply = connection.getresponse()
    assert reply.read(10)
    hang_up(connection, reply)
    wait_until(lambda: metric(worker, "requests_running") == 0)
    assert metric(worker, "requests_cancelled_total") == before + 1


def test_a_client_that_goes_away_while_it_waits_is_never_computed_for(start: Callable[..., Worker]) -> None:
    with closing(start(options=LaunchOptions(context=4096, slots=1))) as worker:
        assert worker.is_ready()
        busy = open_connection(worker, "/v1/completions", {"prompt": "a", "ignore_eos": True, "stream": True})
        assert busy.getresponse().read(10)
        waiting_connection = open_connection(worker, "/v1/chat/completions", {"messages": QUESTION})
        wait_until(lambda: metric(worker, "requests_waiting") == 1)
        waiting_connection.close()
        wait_until(lambda: metric(worker, "requests_waiting") == 0)
        assert metric(worker, "requests_running") == 1
        busy.close()


def hang_up(connection: http.client.HTTPConnection, reply: http.client.HTTPResponse) -> None:
    assert isinstance(connection.sock, socket.socket)
    connection.sock.shutdown(socket.SHUT_RDWR)
    reply.close()
    connection.close()


@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/props"])
def test_without_its_key_nothing_is_told(worker: Worker, path: str) -> None:
    assert worker.status(path, key="wrong") == 401
    assert worker.status("/health", key="wrong") == 200


@pytest.mark.parametrize("body", [{"messages": []}, {"messages": QUESTION, "n": 2}, {"messages": QUESTION, "stop": 5}])
def test_what_makes_no_sense_is_refused(worker: Worker, body: dict[str, object]) -> None:
    status, error = expect_refusal(worker, "/v1/chat/completions", body)
    assert (status, error["type"]) == (400, "invalid_request_error")


def test_a_quantised_cache_still_knows_the_answer(engine: str, start: Callable[..., Worker]) -> None:
    if engine in KEEPS_ITS_CACHE:
        pytest.skip(f"it keeps its cache {KEEPS_ITS_CACHE[engine]}")
    with closing(start(options=LaunchOptions(context=512, slots=1, kv_type="q8_0"))) as worker:
        assert worker.is_ready()
        assert ask_worker(worker)["message"]["content"].startswith("VRAM is the fast memory")


def test_a_model_that_is_not_there_is_named_as_the_cause(start: Callable[..., Worker], tmp_path: Path) -> None:
    with closing(start(tmp_path / "gone")) as worker:
        assert not worker.is_ready()
        assert worker.expect_end().kind is FailureKind.MODEL_NOT_FOUND


def test_weights_that_were_cut_off_are_named_as_the_cause(
    engine: str, start: Callable[..., Worker], tmp_path: Path
) -> None:
    whole, model = FORMS[engine], tmp_path / FORMS[engine].name
    if whole.is_dir():
        shutil.copytree(whole, model)
    else:
        shutil.copyfile(whole, model)
    weights = model / WEIGHTS[engine] if whole.is_dir() else model
    with weights.open("r+b") as file:
        file.truncate(1_000_000)
    with closing(start(model)) as worker:
        assert not worker.is_ready()
        assert worker.expect_end().kind is FailureKind.MODEL_CORRUPT


@pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM")
def test_it_ends_in_good_order_when_it_is_asked_to(start: Callable[..., Worker]) -> None:
    with closing(start()) as worker:
        assert worker.is_ready()
        worker.process.terminate()
        assert worker.process.wait(WITHIN_S) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the lifeline does it, once the library lets it")
def test_it_dies_with_its_parent(start: Callable[..., Worker]) -> None:
    with closing(start()) as worker:
        (spec,) = worker.plan.processes
        assert worker.is_ready()
        assert worker.process.stdin is not None
        child = psutil.Process(worker.process.pid)
        worker.process.stdin.close()
        assert child.wait(WITHIN_S) == 81
        assert spec.stdin_lifeline


QUESTIONS = (
    "What is VRAM?",
    "how do I change the port",
    "which quantization should I pick",
    "what is a KV cache",
    "hello",
    "who are you?",
    "My GPU has 8 GB, what fits?",
    "is it safe on my network",
)


def test_every_engine_gives_the_same_greedy_text(worker: Worker) -> None:
    """Weights of 8 bits in blocks of 32 in most; only the order of sums and the KV cache's type differ."""
    with closing(Worker(GUIDE / "guide-q8_0.gguf", LaunchOptions(context=512, slots=1))) as reference:
        assert reference.is_ready()
        different = [
            question
            for question in QUESTIONS
            if answer_question(reference, question) != answer_question(worker, question)
        ]
    assert not different


def answer_question(worker: Worker, question: str) -> str:
    body = {"messages": [{"role": "user", "content": question}], "temperature": 0, "max_tokens": 80}
    text: str = worker.ask("/v1/chat/completions", body)["choices"][0]["message"]["content"]
    return text
