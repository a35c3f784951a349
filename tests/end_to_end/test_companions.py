"""llama.cpp for real with what goes with a model: a draft, a LoRA adapter, another template, sampling of its own."""

import base64
import struct
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engines.api import Draft, FailureKind, LaunchOptions
from engines.api.options import SamplingDefaults
from tests.end_to_end.worker import Worker
from tests.gguf_files import TinyLlama, lora_for, projector_for

HELLO = [{"role": "user", "content": "hello"}]
IMAGE_TOKENS = 16
TOLD = {"general.sampling.temp": 0.25, "general.sampling.top_k": 7, "general.sampling.min_p": 0.125}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def tiny(folder: Path) -> Path:
    return TinyLlama(values=TOLD).write(folder / "tiny.gguf")


def start_worker(model: Path, **options: Any) -> Worker:  # noqa: ANN401 -- options of every type
    worker = Worker(model, LaunchOptions(context=512, slots=1, **options))
    assert worker.is_ready(), worker.lines[-20:]
    return worker


def write_answer(worker: Worker, **wishes: object) -> Any:  # noqa: ANN401 -- JSON
    body = {"messages": HELLO, "max_tokens": 24, "ignore_eos": True, "temperature": 0, **wishes}
    return worker.ask("/v1/chat/completions", body)


def usual(worker: Worker) -> dict[str, float]:
    params = worker.ask("/props")["default_generation_settings"]["params"]
    return {name: round(params[name], 4) for name in ("temperature", "top_k", "top_p", "min_p", "repeat_penalty")}


def test_what_is_said_at_the_start_goes_before_what_the_file_says(tiny: Path) -> None:
    with closing(start_worker(tiny, sampling=SamplingDefaults(temperature=0.5, repeat_penalty=1.25))) as worker:
        assert usual(worker) == {"temperature": 0.5, "top_k": 7, "top_p": 0.95, "min_p": 0.125, "repeat_penalty": 1.25}


def test_the_files_own_sampling_can_be_switched_off(tiny: Path) -> None:
    with closing(start_worker(tiny, sampling=SamplingDefaults(is_all=True))) as worker:
        assert usual(worker) == {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "repeat_penalty": 1.0}


def test_a_draft_writes_ahead_and_changes_nothing(tiny: Path, folder: Path) -> None:
    smaller = TinyLlama(layers=1).write(folder / "smaller.gguf")
    with closing(start_worker(tiny)) as worker:
        alone = write_answer(worker)["choices"][0]["message"]["content"]
    with closing(start_worker(tiny, draft=Draft(path=smaller, tokens=4))) as worker:
        drafted_text = write_answer(worker)
    assert drafted_text["choices"][0]["message"]["content"] == alone
    assert drafted_text["timings"]["draft_n"] > 0


@pytest.mark.slow
def test_a_lora_adapter_changes_what_is_written(tiny: Path, folder: Path) -> None:
    adapter = lora_for(TinyLlama(), folder / "style.gguf")
    with closing(start_worker(tiny)) as worker:
        alone = write_answer(worker)["choices"][0]["message"]["content"]
    with closing(start_worker(tiny, lora=(adapter,))) as worker:
        assert write_answer(worker)["choices"][0]["message"]["content"] != alone
        assert [listed_adapter["path"] for listed_adapter in worker.ask("/lora-adapters")] == [str(adapter)]


def test_a_lora_adapter_of_another_model_fails_with_a_cause(tiny: Path, folder: Path) -> None:
    adapter = lora_for(TinyLlama(), folder / "wide.gguf", wide=96)
    with closing(Worker(tiny, LaunchOptions(context=512, lora=(adapter,)))) as worker:
        assert not worker.is_ready()
        failure = worker.expect_end()
        assert failure.kind is FailureKind.MODEL_UNSUPPORTED
        assert "wrong base model" in failure.evidence


def test_another_template_takes_the_place_of_the_models_own(tiny: Path) -> None:
    template = "{% for m in messages %}[{{ m.content }}]{% endfor %}"
    with closing(start_worker(tiny, chat_template=template)) as worker:
        assert worker.ask("/apply-template", {"messages": HELLO})["prompt"] == "[hello]"


@pytest.mark.slow
def test_a_projector_lets_it_see(tiny: Path, folder: Path) -> None:
    projector = projector_for(TinyLlama(), folder / "mmproj.gguf")
    with closing(start_worker(tiny, projector=projector)) as worker:
        red, blue = (describe_picture(worker, color) for color in ((255, 0, 0), (0, 0, 255)))
    assert red["usage"]["prompt_tokens"] > IMAGE_TOKENS
    assert red["choices"][0]["message"]["content"] != blue["choices"][0]["message"]["content"]


def describe_picture(worker: Worker, color: tuple[int, int, int]) -> Any:  # noqa: ANN401 -- JSON
    picture = {"type": "image_url", "image_url": {"url": png(color)}}
    return write_answer(worker, messages=[{"role": "user", "content": [{"type": "text", "text": "hello"}, picture]}])


def png(color: tuple[int, int, int]) -> str:
    """Return 16 pixels square of one colour as a data address."""
    rows = b"".join(b"\0" + bytes(color) * 16 for _ in range(16))
    head = struct.pack(">IIBBBBB", 16, 16, 8, 2, 0, 0, 0)
    chunks = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunks).decode()


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
