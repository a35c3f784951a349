"""ExLlamaV3 and ExLlamaV2 behind our server, against stand-ins with the same classes (`tests/fake_exllama`).

What a GPU would compute is not tested anywhere; what the worker does with it is.
"""

import json
import math
import os
import shutil
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.config.paths import RESOURCES
from app.engine_store.lock_text import read_pins
from app.engine_store.recipe import read_recipes
from engines.api import ContextSet, Draft, EngineInstallation, FailureKind, LaunchOptions, LoadProgress
from engines.exllama import backend2, backend3
from engines.exllama.backend import cache_tokens, context_of
from engines.exllama.exl2 import ADAPTER as EXL2
from engines.exllama.exl3 import ADAPTER as EXL3
from engines.exllama.exl3 import build_worker_config
from engines.exllama.vocabulary import ExllamaVocabulary, WindowDecoder
from engines.serving.backend import BackendSampling, WorkItem
from engines.worker_adapter import WorkerAdapter
from tests.end_to_end.worker import Engine, Worker
from tests.patience import PATIENCE_S, wait_until

ROOT = Path(__file__).resolve().parents[2]
FAKES = ROOT / "tests" / "fake_exllama"
FLASH_ATTN = FAKES / "with_flash_attn"
HF = RESOURCES / "guide" / "hf"
FOUND = EngineInstallation(engine="exllamav3", version="1.6.5", backend="cuda", python=Path(sys.executable))
ADAPTERS = {"exllamav3": EXL3, "exllamav2": EXL2}
SAY = [{"role": "user", "content": "say:grün 🚂"}]
Start = Callable[..., Worker]


def make_form(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"schema": schema}}


def make_options(**more: Any) -> LaunchOptions:  # noqa: ANN401 -- any field of the options
    return LaunchOptions(**{"context": 512, "slots": 2, "extra_env": path_with(ROOT, FAKES, FLASH_ATTN), **more})


def path_with(*folders: Path) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(map(str, folders))}


def start_worker(adapter: WorkerAdapter, model: Path = HF, **more: Any) -> Worker:  # noqa: ANN401 -- as above
    return Worker(model, make_options(**more), engine=Engine(adapter, FOUND), is_confined=False)


@pytest.fixture(scope="module", params=list(ADAPTERS))
def worker(request: pytest.FixtureRequest) -> Iterator[Worker]:
    with closing(start_worker(ADAPTERS[request.param])) as worker:
        assert worker.is_ready(), worker.lines
        yield worker


def complete_text(worker: Worker, prompt: str = "say:grün 🚂", **wishes: object) -> dict[str, Any]:
    answer: dict[str, Any] = worker.ask("/v1/completions", {"prompt": prompt, "temperature": 0, **wishes})
    return answer


def copy_model(folder: Path, **config: object) -> Path:
    """Return a copy of the model with other figures in its config.json, which alone says what ends an answer."""
    model = folder / "model"
    shutil.copytree(HF, model)
    body = json.loads((model / "config.json").read_text(encoding="utf-8"))
    (model / "config.json").write_text(json.dumps({**body, **config}), encoding="utf-8")
    (model / "generation_config.json").unlink()
    (model / "tokenizer_config.json").unlink()
    return model


def test_it_says_what_the_library_writes_character_for_character(worker: Worker) -> None:
    answer = complete_text(worker)
    assert answer["choices"][0]["text"] == "grün 🚂"
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] >= len("grün 🚂".encode())


def test_a_limit_ends_it(worker: Worker) -> None:
    choice = complete_text(worker, max_tokens=2)["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("gr", "length")


def test_a_chat_is_rendered_with_the_model_s_own_template(worker: Worker) -> None:
    answer = worker.ask("/v1/chat/completions", {"messages": SAY, "max_tokens": 300})
    assert answer["choices"][0]["message"]["content"].startswith("grün 🚂")


def test_its_load_is_told_in_stages_and_its_cache_holds_every_slot(worker: Worker) -> None:
    wait_until(lambda: ContextSet(tokens=512, slots=2) in worker.events())
    assert LoadProgress(stage="Reading weights", fraction=1.0) in worker.events()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"prompt": "x" * 600}, 400),
        ({"prompt": "a", "logit_bias": {"1": 1}}, 400),
        ({"prompt": "a", "logprobs": 21}, 400),
        ({"prompt": "a:b", "response_format": make_form({"type": "nonsense"})}, 400),
    ],
    ids=["too long", "not offered", "too many alternatives", "a schema nobody understands"],
)
def test_what_it_cannot_take_is_refused_and_the_next_is_answered(
    worker: Worker, body: dict[str, Any], status: int
) -> None:
    assert worker.status("/v1/completions", body) == status
    assert complete_text(worker)["choices"][0]["text"] == "grün 🚂"


def test_a_client_that_goes_away_frees_the_slot(worker: Worker) -> None:
    import http.client  # noqa: PLC0415 -- only this test hangs up

    for _ in range(4):  # twice as many as there are slots: each would go on to the end of the context
        connection = http.client.HTTPConnection(worker.plan.base_url.removeprefix("http://"), timeout=PATIENCE_S)
        request = worker.request("/v1/completions", {"prompt": "a", "ignore_eos": True, "stream": True})
        connection.request("POST", "/v1/completions", request.data, dict(request.header_items()))
        assert connection.getresponse().read(16)
        connection.close()
    assert complete_text(worker)["choices"][0]["text"] == "grün 🚂"


@pytest.mark.parametrize("top", [0, 2])
def test_each_token_comes_with_what_the_model_thought_of_it(worker: Worker, top: int) -> None:
    wishes = {"messages": SAY, "max_tokens": 3, "logprobs": True, "top_logprobs": top, "temperature": 0}
    content = worker.ask("/v1/chat/completions", wishes)["choices"][0]["logprobs"]["content"]
    sure = 4.0 - math.log(math.exp(4.0) + math.exp(2.0) + 262)
    assert [entry["token"] for entry in content] == ["g", "r", "�"], "the first byte of ü is no character"
    assert [entry["logprob"] for entry in content] == pytest.approx([sure] * 3, abs=1e-4)
    for entry in content:
        figures = [other["logprob"] for other in entry["top_logprobs"]]
        assert figures == pytest.approx([sure, sure - 2.0][:top], abs=1e-4)


def test_without_being_asked_no_figures_come(worker: Worker) -> None:
    assert complete_text(worker)["choices"][0].get("logprobs") is None


def test_figures_come_with_every_token_of_a_character_in_pieces_and_not_with_the_end(worker: Worker) -> None:
    choice = complete_text(worker, logprobs=0)["choices"][0]
    assert choice["text"] == "grün 🚂"
    assert len(choice["logprobs"]["token_logprobs"]) == len("grün 🚂".encode())


def test_a_schema_nobody_understands_is_refused_with_its_reason(worker: Worker) -> None:
    body = {"prompt": "a:b", "response_format": make_form({"type": "nonsense"})}
    error = worker.refusal("/v1/completions", body)[1]["error"]
    assert (error["code"], error["param"]) == ("invalid_schema", "response_format")
    assert error["message"] == "This schema cannot be followed: Invalid type: nonsense."


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ADAPTERS))
def test_a_context_need_not_be_whole_pages(name: str) -> None:
    with closing(start_worker(ADAPTERS[name], context=1000)) as worker:
        assert worker.is_ready(), worker.lines
        wait_until(lambda: ContextSet(tokens=1000, slots=2) in worker.events())
        answer = complete_text(worker, "a", ignore_eos=True)
    assert answer["usage"]["total_tokens"] == 1000, "the last token of the context too"


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("name", list(ADAPTERS))
def test_an_answer_without_a_limit_leaves_room_for_another_beside_it(name: str, tmp_path: Path) -> None:
    model = copy_model(tmp_path, max_position_embeddings=102_400, eos_token_id=0)
    with closing(start_worker(ADAPTERS[name], model, context=102_400)) as worker:
        assert worker.is_ready(), worker.lines
        endlessly = worker.request("/v1/completions", {"prompt": "a", "ignore_eos": True, "stream": True})
        with urllib.request.urlopen(endlessly) as endless:  # noqa: S310 -- loopback
            assert endless.read(16)
            assert complete_text(worker)["choices"][0]["text"] == "grün 🚂"
            with urllib.request.urlopen(worker.request("/metrics")) as metrics:  # noqa: S310 -- loopback
                assert "requests_running 1\n" in metrics.read().decode()


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("ends", [[7, 0], 0], ids=str)
def test_the_older_one_ends_at_each_end_the_model_has(ends: object, tmp_path: Path) -> None:
    """It reads one of them itself, the first."""
    with closing(start_worker(EXL2, copy_model(tmp_path, eos_token_id=ends))) as worker:
        assert worker.is_ready(), worker.lines
        assert complete_text(worker)["choices"][0]["finish_reason"] == "stop"


@pytest.fixture(scope="module")
def newer() -> Iterator[Worker]:
    with closing(start_worker(EXL3)) as worker:
        assert worker.is_ready(), worker.lines
        yield worker


def test_the_newer_one_hands_a_schema_to_its_own_filter(newer: Worker) -> None:
    assert newer.status("/v1/completions", {"prompt": "a:b", "response_format": make_form({"type": "object"})}) == 200


def test_a_job_the_newer_one_gives_up_ends_with_what_was_the_matter_and_alone(newer: Worker) -> None:
    with ThreadPoolExecutor(2) as both:
        beside = both.submit(complete_text, newer)
        status, error = newer.refusal("/v1/completions", {"prompt": "too much"})
        assert beside.result()["choices"][0]["text"] == "grün 🚂"
    assert status == 500
    assert "CUDA out of memory" in error["error"]["message"]
    for _ in range(3):  # more than there are slots: none is lost
        assert complete_text(newer)["choices"][0]["text"] == "grün 🚂"


@pytest.fixture(scope="module")
def older() -> Iterator[Worker]:
    with closing(start_worker(EXL2)) as worker:
        assert worker.is_ready(), worker.lines
        yield worker


@pytest.mark.parametrize("more", [{}, {"ignore_eos": True}, {"logprobs": 1}], ids=str)
def test_the_older_one_writes_what_the_schema_lets_it_and_ends(older: Worker, more: dict[str, Any]) -> None:
    answer = complete_text(older, response_format=make_form({"const": {"a": [1, "ü"]}}), **more)["choices"][0]
    assert json.loads(answer["text"]) == {"a": [1, "ü"]}
    assert answer["finish_reason"] == "stop"


def test_two_answers_at_once_keep_to_their_own_schemas(older: Worker) -> None:
    with ThreadPoolExecutor(2) as both:
        requests = [
            both.submit(complete_text, older, response_format=make_form({"const": word})) for word in ("left", "right")
        ]
        assert [json.loads(request.result()["choices"][0]["text"]) for request in requests] == ["left", "right"]


@pytest.mark.parametrize("breaks_at", [0, 3], ids=["at once", "in the middle"])
def test_a_schema_that_gets_too_hard_ends_that_answer_alone(worker: Worker, breaks_at: int) -> None:
    hard = {"prompt": "a:bcdef", "response_format": make_form({"const": "too long", "breaks_at": breaks_at})}
    status, error = worker.refusal("/v1/completions", hard)
    assert (status, error["error"]["code"]) == (400, "invalid_schema")
    assert "Parser limit exceeded" in error["error"]["message"]
    assert "state" not in error["error"]["message"]
    assert complete_text(worker)["choices"][0]["text"] == "grün 🚂"


def test_without_llguidance_the_older_one_refuses_schemas(tmp_path: Path) -> None:
    for fake in ("exllamav2", "playing.py", "torch.py"):
        (tmp_path / fake).symlink_to(FAKES / fake)
    with closing(start_worker(EXL2, extra_env=path_with(ROOT, tmp_path))) as worker:
        assert worker.is_ready(), worker.lines
        assert worker.status("/v1/completions", {"prompt": "a:b", "response_format": make_form({"const": 1})}) == 400


def test_without_flash_attn_the_older_one_is_given_ours() -> None:
    with closing(start_worker(EXL2, extra_env=path_with(ROOT, FAKES))) as worker:
        assert worker.is_ready(), worker.lines
        wait_until(lambda: ContextSet(tokens=512, slots=2) in worker.events())


@pytest.mark.slow
def test_with_flash_attn_switched_off_the_older_one_answers_one_at_a_time() -> None:
    with closing(start_worker(EXL2, extra_env={**path_with(ROOT, FAKES), "EXLLAMA_NO_FLASH_ATTN": "1"})) as worker:
        assert worker.is_ready(), worker.lines
        wait_until(lambda: ContextSet(tokens=512, slots=1) in worker.events())
        with ThreadPoolExecutor(3) as several:
            requests = [several.submit(complete_text, worker) for _ in range(3)]
            assert [request.result()["choices"][0]["text"] for request in requests] == ["grün 🚂"] * 3


IMPORTED = {
    "exllamav2": {
        "fastparquet",
        "numpy",
        "pandas",
        "pillow",
        "rich",
        "safetensors",
        "tokenizers",
        "torch",
        "websockets",
    },
    "exllamav3": {"numpy", "pillow", "pydantic", "pyyaml", "rich", "safetensors", "tokenizers", "torch", "triton"},
}
"""What the modules of the wheels import as they are read, which is more than their metadata names."""


@pytest.mark.parametrize("engine", list(IMPORTED))
def test_the_lock_has_whatever_the_library_imports(engine: str) -> None:
    recipe = read_recipes()[engine]
    for variant in recipe.variants:
        names = read_pins(recipe.lock_of(variant).read_text(encoding="utf-8"))
        locked_names = {name.removesuffix("-windows") for name in names}  # Triton's name there
        assert IMPORTED[engine] | {"llguidance", "ninja", "jinja2"} <= locked_names


@pytest.mark.parametrize("engine", list(IMPORTED))
def test_the_lock_has_the_compiler_of_pytorch_s_own_cuda(engine: str) -> None:
    recipe = read_recipes()[engine]
    locked_versions = read_pins(recipe.lock_of(recipe.variants[0]).read_text(encoding="utf-8"))
    assert locked_versions["nvidia-cuda-nvcc"] == locked_versions["nvidia-nvvm"]
    assert _minor_version(locked_versions["nvidia-cuda-nvcc"]) == _minor_version(locked_versions["nvidia-cuda-runtime"])
    assert "nvidia-curand" in locked_versions, "its headers are included"


def _minor_version(version: str) -> list[str]:
    return version.split(".")[:2]


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("name", list(ADAPTERS))
@pytest.mark.parametrize("kv_type", ["f16", "q8_0", "q6_0", "q4_0"])
def test_its_cache_is_kept_in_the_bits_asked_for(name: str, kv_type: str) -> None:
    with closing(start_worker(ADAPTERS[name], kv_type=kv_type)) as worker:
        assert worker.is_ready(), worker.lines


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("name", list(ADAPTERS))
def test_a_card_too_small_is_named(name: str) -> None:
    with closing(start_worker(ADAPTERS[name], context=4096, slots=300)) as worker:
        assert worker.expect_end().kind is FailureKind.OUT_OF_GPU_MEMORY


def test_the_head_of_a_model_is_loaded_beside_it_and_drafts(tmp_path: Path) -> None:
    model = copy_model(tmp_path, mtp_num_hidden_layers=1)
    with closing(start_worker(EXL3, model, draft=Draft(kind="mtp"))) as worker:
        assert worker.is_ready(), worker.lines
        assert LoadProgress(stage="Reading the head that drafts", fraction=1.0) in worker.events()
        assert complete_text(worker)["choices"][0]["text"] == "grün 🚂"


@pytest.mark.parametrize("draft", [Draft(kind="eagle3"), Draft(kind="mtp", path=HF)])
def test_other_drafts_are_refused(draft: Draft) -> None:
    with pytest.raises(ValueError, match="draft"):
        build_worker_config(LaunchOptions(draft=draft), FOUND)


def test_a_model_it_does_not_know_is_named(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(HF, model)
    (model / "config.json").write_text('{"architectures": ["StarshipForCausalLM"]}', encoding="utf-8")
    with closing(start_worker(EXL3, model)) as worker:
        failure = worker.expect_end()
    assert failure.kind is FailureKind.MODEL_UNSUPPORTED
    assert "Starship" in failure.evidence


def test_without_the_library_it_says_what_is_missing() -> None:
    with closing(start_worker(EXL3, extra_env={})) as worker:
        assert worker.expect_end().kind is FailureKind.MISSING_LIBRARY


@pytest.mark.parametrize("name", list(ADAPTERS))
@pytest.mark.parametrize(
    "wish",
    [
        {"kv_type": "q3_0"},
        {"tensor_parallel": 2, "lora": (HF,)},
        {"tensor_parallel": 2, "device_ids": ("GPU-a",)},
        {"draft": Draft(kind="eagle3")},
        {"task": "embed"},
        {"extra_args": ("-x",)},
    ],
    ids=str,
)
def test_what_it_cannot_honour_is_refused_with_a_sentence(name: str, wish: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        start_worker(ADAPTERS[name], **wish)


def make_work(**wishes: Any) -> WorkItem:  # noqa: ANN401 -- any field of the sampling
    return WorkItem(id=1, prompt=[1], max_tokens=1, sampling=BackendSampling(**wishes))


def test_what_is_not_asked_of_the_sampler_does_nothing() -> None:
    newer, older = backend3.sampler_arguments(make_work()), backend2.sampler_settings(make_work())
    assert (newer["temperature"], newer["top_p"], newer["rep_p"]) == (1.0, 1.0, 1.0)
    assert (older["temperature"], older["top_k"], older["token_repetition_penalty"]) == (1.0, 0, 1.0)
    assert backend2.sampler_settings(make_work(temperature=0.0))["top_k"] == 1, "its sampler divides by the temperature"


def test_a_cache_is_whole_pages_for_every_slot() -> None:
    assert (cache_tokens(1, 1), cache_tokens(256, 2), cache_tokens(257, 2)) == (256, 512, 1024)
    assert context_of({"context": 9000}, 4096) == 4096
    assert context_of({"context": None}, None) == 4096


def test_text_comes_as_the_tokens_in_a_row_would_have_it() -> None:
    """A decoder of words joined by spaces: a token alone has no space before it."""
    decoder = WindowDecoder(lambda tokens: " ".join("abc"[token] for token in tokens))
    assert [decoder.feed(token) for token in (0, 1, 2)] == ["a", " b", " c"]
    assert decoder.flush() == ""


def test_tokens_whose_texts_stand_in_a_row_are_decoded_once() -> None:
    decode_calls: list[list[int]] = []

    def decode(tokens: Sequence[int]) -> str:
        decode_calls.append(list(tokens))
        return bytes(tokens).decode("utf-8", "replace")

    texts: dict[int, str] = {}
    for word in ("aabaü🚂b", "ab"):
        decoder = WindowDecoder(decode, texts)
        assert "".join(map(decoder.feed, word.encode())) == word
        assert decoder.flush() == ""
    assert sum(tokens == [ord("a")] for tokens in decode_calls) == 1
    assert max(map(len, decode_calls)) == len("🚂".encode())


@pytest.mark.parametrize("joint", ["", " "])
def test_whether_texts_stand_in_a_row_is_tried_when_the_first_answer_begins(joint: str) -> None:
    class Words:
        def encode(self, text: str, **_how: bool) -> object:
            return SimpleNamespace(tolist=lambda: [list(map(ord, text))])

        def decode(self, rows: list[list[int]]) -> list[str]:
            return [joint.join(map(chr, rows[0]))]

    torch = SimpleNamespace(tensor=lambda rows, **_kind: rows, long=int)
    vocabulary = ExllamaVocabulary(torch, Words(), begins=False)
    decoder = vocabulary.make_decoder()
    assert (decoder._texts is None) is bool(joint)
    assert "".join(map(decoder.feed, map(ord, "abc"))) == joint.join("abc")


def test_a_character_in_pieces_is_kept_back_until_it_is_whole() -> None:
    train = "🚂".encode()
    decoder = WindowDecoder(lambda tokens: bytes(tokens).decode("utf-8", "replace"))
    assert [decoder.feed(byte) for byte in train] == ["", "", "", "🚂"]
    assert [decoder.feed(byte) for byte in train[:2]] == ["", ""]
    assert decoder.flush() == "�"
