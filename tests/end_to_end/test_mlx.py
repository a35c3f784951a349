"""MLX-LM and MLX-VLM for real, with the Guide's 16-bit weights: on the processor under Linux, on the GPU of a Mac.

MLX-VLM takes 0.8 GB of packages: `make test-engines` runs it.
"""

import json
import platform
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from app.config.paths import RESOURCES
from engines.api import FailureKind, LaunchOptions, ModelFormat
from engines.llama_cpp.launch import ADAPTER as LLAMA_CPP
from engines.mlx_lm.launch import ADAPTER as MLX_LM
from engines.mlx_vlm.launch import ADAPTER as MLX_VLM
from tests.end_to_end.worker import KEY, Engine, Worker
from tests.engine_environments import engine_environment
from tests.patience import wait_until

GUIDE = RESOURCES / "guide"
HF = GUIDE / "hf"
OPTIONS = LaunchOptions(context=512, slots=2)
QUESTION = [{"role": "user", "content": "What is Roundhouse?"}]
IS_APPLE = sys.platform == "darwin" and platform.machine() == "arm64"
ADAPTERS = {"mlx_lm": MLX_LM, "mlx_vlm": MLX_VLM}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="MLX has no build for Windows"),
]


class Safetensors(NamedTuple):
    """`Engine`, told which of its formats to load."""

    adapter: Any
    installed_engine: Any
    format: ModelFormat = ModelFormat.SAFETENSORS


Start = Callable[..., Worker]


@pytest.fixture(scope="module", params=["mlx_lm", pytest.param("mlx_vlm", marks=pytest.mark.engines)])
def start(request: pytest.FixtureRequest) -> Start:
    name: str = request.param
    environment = engine_environment(name, "metal" if IS_APPLE else "cpu")

    def run(model: Path = HF, options: LaunchOptions = OPTIONS, port: int | None = None) -> Worker:
        return Worker(model, options, port=port, engine=Safetensors(ADAPTERS[name], environment))  # type: ignore[arg-type]  # as an Engine

    return run


@pytest.fixture(scope="module")
def worker(start: Start) -> Iterator[Worker]:
    with closing(start()) as worker:
        assert worker.is_ready(), worker.lines
        yield worker


def ask_worker(worker: Worker, **wishes: object) -> dict[str, Any]:
    body = {"model": worker.plan.served_name, "messages": QUESTION, "max_tokens": 60, "temperature": 0, **wishes}
    answer: dict[str, Any] = worker.ask("/v1/chat/completions", body)
    return answer


def test_it_says_what_llama_cpp_says(worker: Worker) -> None:
    with closing(Worker(GUIDE / "guide-q8_0.gguf", OPTIONS, engine=Engine(LLAMA_CPP))) as other:
        assert other.is_ready()
        theirs = ask_worker(other)["choices"][0]["message"]["content"]
    assert ask_worker(worker)["choices"][0]["message"]["content"] == theirs


def test_after_a_stream_it_does_with_the_connection_as_it_said(worker: Worker) -> None:
    assert not worker.drops_a_connection_after_a_stream(within_s=0.5)


def test_an_answer_is_counted_and_ends_where_it_is_told(worker: Worker) -> None:
    answer = ask_worker(worker, max_tokens=5)
    assert answer["usage"]["completion_tokens"] == 5
    assert answer["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("path", ["/v1/models", "/v1/chat/completions", "/metrics", "/nothing"])
def test_nobody_gets_in_without_the_key(worker: Worker, path: str) -> None:
    assert worker.status(path, key="another") == 401
    assert worker.status(path, {}, key="another") == 401


def test_a_taken_port_is_named(start: Start) -> None:
    with socket.socket() as taken_socket:
        taken_socket.bind(("127.0.0.1", 0))
        taken_socket.listen()
        with closing(start(port=taken_socket.getsockname()[1])) as worker:
            assert worker.expect_end().kind is FailureKind.PORT_IN_USE


def test_damaged_weights_are_named(start: Start, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(HF, model)
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100_000])
    with closing(start(model)) as worker:
        failure = expect_failure(worker)
    assert failure.kind is FailureKind.MODEL_CORRUPT
    assert failure.evidence


def expect_failure(worker: Worker) -> Any:  # noqa: ANN401 -- a Failure
    assert not worker.is_ready(), worker.lines
    return worker.expect_end()


def mlx_lm_worker(options: LaunchOptions) -> Worker:
    environment = engine_environment("mlx_lm", "metal" if IS_APPLE else "cpu")
    return Worker(HF, options, engine=Safetensors(MLX_LM, environment))  # type: ignore[arg-type]  # as an Engine


@pytest.fixture(scope="module")
def mlx_lm() -> Iterator[Worker]:
    with closing(mlx_lm_worker(OPTIONS)) as worker:
        assert worker.is_ready(), worker.lines
        yield worker


def test_whatever_model_a_request_names_the_loaded_one_answers(mlx_lm: Worker) -> None:
    assert ask_worker(mlx_lm, model="somebody/else")["model"] == "served"


@pytest.mark.parametrize(
    "wish", [{"adapters": "x"}, {"draft_model": "x"}, {"response_format": {"type": "json_object"}}]
)
def test_what_it_cannot_do_or_should_not_is_refused(mlx_lm: Worker, wish: dict[str, Any]) -> None:
    assert mlx_lm.status("/v1/chat/completions", {"messages": QUESTION, **wish}) == 400


def test_a_prompt_longer_than_the_context_is_refused(mlx_lm: Worker) -> None:
    assert mlx_lm.status("/v1/completions", {"prompt": "word " * 600}) == 400


def test_the_figures_of_tokens_are_the_library_s(mlx_lm: Worker) -> None:
    """Ours are read out of its memory; those of likely tokens, of which the first was chosen, it tells itself."""
    ours = tell_logprobs(mlx_lm)
    assert len(ours) == 12
    assert min(ours) < 0.0
    assert tell_logprobs(mlx_lm, top_logprobs=1) == ours


def tell_logprobs(worker: Worker, **wishes: object) -> list[float]:
    answer = ask_worker(worker, max_tokens=12, logprobs=True, **wishes)
    return [figure["logprob"] for figure in answer["choices"][0]["logprobs"]["content"]]


def test_an_answer_stays_within_the_context(mlx_lm: Worker) -> None:
    answer = mlx_lm.ask("/v1/completions", {"prompt": "word " * 400, "max_tokens": 5000, "logit_bias": {}})
    assert answer["usage"]["total_tokens"] <= 512


def test_a_client_that_goes_away_frees_the_engine() -> None:
    """The answer would go on for an hour: its end is forbidden, and the context is huge."""
    with closing(mlx_lm_worker(LaunchOptions(context=200_000))) as worker:
        assert worker.is_ready(), worker.lines
        begin_endless(worker)
        wait_until(lambda: not is_busy(worker))


def begin_endless(worker: Worker) -> None:
    """Ask for an answer in one piece, wait until it is being written, and hang up."""
    end = json.loads((HF / "config.json").read_text(encoding="utf-8"))["eos_token_id"]
    ends = end if isinstance(end, list) else [end]
    body = json.dumps({"messages": QUESTION, "logit_bias": {str(each): -1000 for each in ends}}).encode()
    head = f"Authorization: Bearer {KEY}\r\nContent-Length: {len(body)}\r\n\r\n"
    host, _, port = worker.plan.base_url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(f"POST /v1/chat/completions HTTP/1.0\r\n{head}".encode() + body)
        wait_until(lambda: any("Prompt processing" in line for line in worker.lines) and is_busy(worker))


def is_busy(worker: Worker) -> bool:
    return psutil.Process(worker.process.pid).cpu_percent(0.3) > 30.0
