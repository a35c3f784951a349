"""llama.cpp for real, with a model of random weights: what it serves, what it keeps shut, how it ends."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import psutil
import pytest

from engines.api import BufferAllocated, ContextSet, FailureKind, LaunchOptions, LoadProgress, PortOpened
from engines.llama_cpp.launch import ask_devices
from tests.end_to_end.worker import KEY, WITHIN_S, Worker, environment, installation
from tests.gguf_files import TinyLlama
from tests.patience import wait_until

QUICKLY_S = 20
HELLO = [{"role": "user", "content": "hello"}]
THREE = {"max_tokens": 3, "ignore_eos": True}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return TinyLlama().write(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="module")
def worker(tiny: Path) -> Iterator[Worker]:
    with closing(Worker(tiny)) as worker:
        assert worker.is_ready()
        yield worker


def test_it_answers_in_every_dialect_it_claims(worker: Worker) -> None:
    ask = worker.ask
    assert ask("/v1/chat/completions", {"messages": HELLO, **THREE})["usage"]["completion_tokens"] == 3
    assert ask("/v1/completions", {"prompt": "hello", **THREE})["choices"][0]["finish_reason"] == "length"
    assert ask("/v1/responses", {"input": "hello", "max_output_tokens": 3})["object"] == "response"
    assert ask("/v1/messages", {"messages": HELLO, "max_tokens": 3})["type"] == "message"
    assert ask("/v1/messages/count_tokens", {"messages": HELLO})["input_tokens"] > 5
    words = ask("/tokenize", {"content": "hello"})["tokens"]
    assert ask("/detokenize", {"tokens": words})["content"].strip() == "hello"
    assert "<|im_start|>user\nhello" in ask("/apply-template", {"messages": HELLO})["prompt"]


def test_the_model_goes_by_the_served_name(worker: Worker) -> None:
    assert [model["id"] for model in worker.ask("/v1/models")["data"]] == ["served"]
    assert worker.ask("/v1/chat/completions", {"messages": HELLO, "max_tokens": 1})["model"] == "served"


def choice(worker: Worker, **wishes: object) -> dict[str, Any]:
    body = {"messages": HELLO, "max_tokens": 99, "seed": 1, **wishes}
    answer_choice: dict[str, Any] = worker.ask("/v1/chat/completions", body)["choices"][0]
    return answer_choice


def test_answers_keep_to_a_schema_and_to_a_grammar(worker: Worker) -> None:
    schema = {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"]}
    shape = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    assert isinstance(json.loads(choice(worker, response_format=shape)["message"]["content"])["yes"], bool)
    assert choice(worker, grammar='root ::= "yes" | "no"')["message"]["content"] in {"yes", "no"}


def test_answers_report_their_odds(worker: Worker) -> None:
    content = choice(worker, grammar='root ::= "yes"', logprobs=True, top_logprobs=3)["logprobs"]["content"]
    assert len(content[0]["top_logprobs"]) == 3


def test_a_stream_ends_with_its_usage(worker: Worker) -> None:
    body = {
        "messages": HELLO,
        "max_tokens": 3,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    request = worker.request("/v1/chat/completions", body)
    with urllib.request.urlopen(request, timeout=WITHIN_S) as reply:  # noqa: S310 -- loopback
        lines = [line.removeprefix("data: ") for line in reply.read().decode().splitlines() if line]
    assert lines[-1] == "[DONE]"
    assert json.loads(lines[-2])["usage"]["completion_tokens"] == 3


def test_a_connection_is_not_kept_after_a_stream_though_it_says_so(worker: Worker) -> None:
    assert worker.drops_a_connection_after_a_stream(within_s=WITHIN_S)
    assert worker.adapter.descriptor.closes_after_stream


def test_each_slot_has_the_context_asked_for(worker: Worker) -> None:
    assert [slot["n_ctx"] for slot in worker.ask("/slots")] == [512, 512]
    wait_until(lambda: ContextSet(tokens=512, slots=2) in worker.events())


def test_its_log_tells_progress_memory_and_port(worker: Worker) -> None:
    # The server answers before its constructor has returned and the worker says where it listens.
    wait_until(lambda: any(isinstance(event, PortOpened) for event in worker.events()))
    log_events = worker.events()
    assert 1.0 in {event.fraction for event in log_events if isinstance(event, LoadProgress)}
    assert {"model", "kv", "compute"} <= {event.purpose for event in log_events if isinstance(event, BufferAllocated)}
    assert worker.plan.base_url.endswith(f":{next(e.port for e in log_events if isinstance(e, PortOpened))}")


@pytest.mark.parametrize("path", ["/v1/models", "/props", "/slots", "/metrics"])
def test_nothing_but_health_is_told_without_the_key(worker: Worker, path: str) -> None:
    assert worker.status(path, key="a-guess") == 401
    assert worker.status(path) == 200
    assert worker.status("/health", key="a-guess") == 200


@pytest.mark.parametrize(
    ("path", "body"), [("/", None), ("/tools", None), ("/cors-proxy", None), ("/props", {}), ("/models/load", {})]
)
def test_what_the_gateway_does_not_need_is_shut(worker: Worker, path: str, body: object) -> None:
    assert worker.status(path, body) in {403, 404, 501}


def test_no_web_page_may_read_its_answers(worker: Worker) -> None:
    with urllib.request.urlopen(worker.request("/v1/models"), timeout=WITHIN_S) as reply:  # noqa: S310 -- loopback
        allowed_origin = reply.headers.get("Access-Control-Allow-Origin", "")
    assert allowed_origin not in {"*", "https://evil.example"}


def test_prompts_and_the_key_stay_out_of_the_log(worker: Worker) -> None:
    worker.ask(
        "/v1/chat/completions", {"messages": [{"role": "user", "content": "my deepest secret"}], "max_tokens": 1}
    )
    assert not [line for line in worker.lines if "deepest" in line or KEY in line]


def test_a_chat_model_refuses_to_embed_rather_than_pay_for_it(worker: Worker) -> None:
    assert worker.status("/v1/embeddings", {"input": "hello"}) == 501


def test_an_embedding_model_embeds(tmp_path: Path) -> None:
    model = TinyLlama(values={"llama.pooling_type": 1}).write(tmp_path / "embed.gguf")
    with closing(Worker(model, LaunchOptions(context=600, task="embed"))) as worker:
        assert worker.is_ready()
        reply = worker.ask("/v1/embeddings", {"input": ["hello", "a " * 250]})
        assert [len(row["embedding"]) for row in reply["data"]] == [64, 64]


def test_a_vector_does_not_depend_on_what_is_embedded_beside_it(tmp_path: Path) -> None:
    model = TinyLlama(values={"llama.pooling_type": 1}).write(tmp_path / "embed.gguf")
    texts = [f"{number} " + "ab " * (17 * number % 100) for number in range(1, 12)]
    with closing(Worker(model, LaunchOptions(context=512, slots=4, task="embed"))) as worker:
        assert worker.is_ready()
        together = [row["embedding"] for row in worker.ask("/v1/embeddings", {"input": texts})["data"]]
        wait_until(lambda: ContextSet(tokens=512, slots=4) in worker.events())
        for text, vector in zip(texts, together, strict=True):
            alone = worker.ask("/v1/embeddings", {"input": text})["data"][0]["embedding"]
            assert vector == pytest.approx(alone, abs=1e-3)


@pytest.mark.slow
def test_as_many_long_texts_as_there_are_slots_are_embedded_at_once(tmp_path: Path) -> None:
    model = TinyLlama(values={"llama.pooling_type": 1}).write(tmp_path / "embed.gguf")
    with closing(Worker(model, LaunchOptions(context=600, slots=4, task="embed"))) as worker:
        assert worker.is_ready()
        for count in (2, 8, 3, 4, 2, 9) * 3:
            reply = worker.ask("/v1/embeddings", {"input": ["a " * 290] * count})
            assert len(reply["data"]) == count
        wait_until(lambda: ContextSet(tokens=600, slots=4) in worker.events())


def test_a_quantised_cache_answers_and_is_smaller(tmp_path: Path, worker: Worker) -> None:
    model = TinyLlama(heads=2, head_width=32).write(tmp_path / "tiny.gguf")
    with closing(Worker(model, LaunchOptions(context=512, slots=2, kv_type="q8_0"))) as quantised_worker:
        assert quantised_worker.is_ready()
        assert quantised_worker.status("/v1/chat/completions", {"messages": HELLO, "max_tokens": 2}) == 200
        assert kv_bytes(quantised_worker) < 0.6 * kv_bytes(worker)


def kv_bytes(worker: Worker) -> int:
    return sum(
        event.size_bytes for event in worker.events() if isinstance(event, BufferAllocated) and event.purpose == "kv"
    )


def test_the_devices_are_told_by_a_child() -> None:
    assert any(name.startswith("CPU") for name in ask_devices(installation()))


Damage = Callable[[bytes], bytes]
WHOLE = TinyLlama().content()
DAMAGES: dict[str, tuple[Damage, FailureKind]] = {
    "half": (lambda whole: whole[: len(whole) // 2], FailureKind.MODEL_CORRUPT),
    "header only": (lambda whole: whole[:700], FailureKind.MODEL_CORRUPT),
    "magic": (lambda whole: b"GGUX" + whole[4:], FailureKind.MODEL_CORRUPT),
    "empty": (lambda _whole: b"", FailureKind.MODEL_CORRUPT),
    "text": (lambda _whole: b"I am not a model.\n" * 50, FailureKind.MODEL_CORRUPT),
    "tensor": (lambda whole: whole.replace(b"blk.1.ffn_up", b"blk.1.ffn_xx"), FailureKind.MODEL_CORRUPT),
    "key": (lambda whole: whole.replace(b"llama.block_count", b"llama.block_xxxxx"), FailureKind.MODEL_CORRUPT),
    "architecture": (lambda whole: whole.replace(b"llama", b"zlama"), FailureKind.MODEL_UNSUPPORTED),
    "version": (lambda whole: whole[:4] + b"\x09" + whole[5:], FailureKind.MODEL_UNSUPPORTED),
    "template": (lambda whole: whole.replace(b"{% endfor %}", b"{% endfoo %}"), FailureKind.BAD_TEMPLATE),
}


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_model_ends_with_its_cause(tmp_path: Path, name: str) -> None:
    damage, kind = DAMAGES[name]
    model = tmp_path / "model.gguf"
    model.write_bytes(damage(WHOLE))
    with closing(Worker(model)) as worker:
        assert not worker.is_ready()
        assert worker.expect_end().kind is kind


def test_a_missing_model_ends_with_its_cause(tmp_path: Path) -> None:
    with closing(Worker(tmp_path / "nothing.gguf")) as worker:
        assert not worker.is_ready()
        assert worker.expect_end().kind is FailureKind.MODEL_NOT_FOUND


def test_a_taken_port_ends_with_its_cause(tiny: Path, worker: Worker) -> None:
    taken_port = int(worker.plan.base_url.rpartition(":")[2])
    with closing(Worker(tiny, port=taken_port)) as second_worker:
        assert second_worker.expect_end().kind is FailureKind.PORT_IN_USE


@pytest.mark.slow
def test_a_context_no_memory_holds_ends_with_its_cause(tmp_path: Path) -> None:
    model = TinyLlama(layers=8, head_width=1024).write(tmp_path / "wide.gguf")
    with closing(Worker(model, LaunchOptions(context=1 << 22))) as worker:  # 512 GiB of KV cache
        assert not worker.is_ready()
        assert worker.expect_end().kind is FailureKind.CONTEXT_TOO_LARGE


def test_it_ends_at_once_while_loading(tiny: Path) -> None:
    with closing(Worker(tiny)) as worker:
        assert worker.has_spoken.wait(WITHIN_S)
        worker.process.terminate()
        assert worker.expect_end(within_s=QUICKLY_S).kind is FailureKind.KILLED


def test_it_ends_at_once_while_answering(tmp_path: Path) -> None:
    model = TinyLlama(width=256, layers=8, inner=512, head_width=64).write(tmp_path / "slower.gguf")
    with closing(Worker(model, LaunchOptions(context=4096))) as worker:
        assert worker.is_ready()
        body = {"prompt": "hello", "max_tokens": 4000, "ignore_eos": True, "stream": True}
        with urllib.request.urlopen(worker.request("/v1/completions", body), timeout=WITHIN_S) as reply:  # noqa: S310 -- loopback
            assert reply.readline().startswith(b"data: ")
            worker.process.terminate()
            assert worker.expect_end(within_s=QUICKLY_S).kind is FailureKind.KILLED


def test_it_ends_with_its_lifeline(tiny: Path) -> None:
    with closing(Worker(tiny)) as worker:
        assert worker.is_ready()
        assert worker.process.stdin is not None
        worker.process.stdin.close()
        assert worker.expect_end(within_s=QUICKLY_S).kind is FailureKind.LOST_PARENT


PARENT = """
import json, subprocess, sys
argv, env = json.loads(sys.stdin.readline())
pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
child = subprocess.Popen(argv, env=env, stdin=pipe, stdout=nowhere, stderr=pipe, text=True)
for line in child.stderr:
    if "listening on" in line:
        break
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_no_engine_outlives_a_killed_parent(tiny: Path) -> None:
    with closing(Worker(tiny)) as planned_worker:
        (spec,) = planned_worker.plan.processes
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        expect_pipe(parent.stdin).write(json.dumps([spec.argv, environment(spec)]) + "\n")
        expect_pipe(parent.stdin).flush()
        orphan = psutil.Process(int(expect_pipe(parent.stdout).readline()))
        parent.kill()
        ended_processes, _alive = psutil.wait_procs([orphan], timeout=QUICKLY_S)
        assert ended_processes


def expect_pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe
