"""What a name means: a file, a repository and what it holds, a well-known model where the hub does not answer."""

import json
from pathlib import Path

import pytest

from app.advisor.choosing.targets import explain_lack
from app.advisor.memory import estimate as memory
from app.config.environment import HUB, hub_endpoint
from app.core.errors import NotFound, RoundhouseError, Unavailable
from app.gateway.advising.advice import with_verdict_of_engine
from app.gateway.advising.model_facts import FactsReader, format_and_quantization
from app.hardware.description import machine_from
from app.hub.library.library import Library
from app.hub.shapes import shape_facts
from tests.gguf_files import TinyLlama
from tests.range_server import Hub, serve_ranges
from tests.unit.advisor.engines import ENGINES, setting_for

NOBODY = "http://127.0.0.1:1"
"""A port that nothing listens on."""


@pytest.fixture
def facts(tmp_path: Path) -> FactsReader:
    return FactsReader(Library(lambda: [tmp_path], tmp_path / "models.json", tmp_path / "guide.gguf"))


def test_the_hub_is_where_the_environment_says() -> None:
    assert hub_endpoint({}) == HUB
    assert hub_endpoint({"HF_ENDPOINT": " https://hub.example/ "}) == "https://hub.example"


@pytest.mark.parametrize("name", ["someone/model", "someone/Qwen3-8B-GGUF", "hf.co/someone/model"])
async def test_a_repository_is_read_once(facts: FactsReader, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    repository = name.removeprefix("hf.co/")
    with serve_ranges(Hub()) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        hub.files[f"/api/models/{repository}/revision/main"] = json.dumps(
            {"siblings": [{"rfilename": "tiny.gguf"}]}
        ).encode()
        hub.files[f"/{repository}/resolve/main/tiny.gguf"] = TinyLlama().content()
        facts_of_model = await facts.find(name)
        count = len(hub.requests)
        assert facts_of_model.name == "tiny"
        assert await facts.find(name) == facts_of_model
        assert len(hub.requests) == count


@pytest.mark.parametrize(
    ("name", "kind", "quantization"),
    [
        ("Qwen/Qwen3-8B-AWQ", "awq", "4bit"),
        ("Qwen/Qwen3-8B-FP8", "fp8", "FP8"),
        ("mlx-community/Qwen3-8B-4bit", "mlx", "4bit"),
        ("turboderp/Qwen3-8B-exl3", "exl3", "4.0bpw"),
        ("unsloth/Qwen3-8B-GGUF:Q6_K", "gguf", "Q6_K"),
        ("https://huggingface.co/Qwen/Qwen3-8B-AWQ", "awq", "4bit"),
    ],
)
async def test_without_a_hub_a_well_known_name_still_says_what_is_meant(
    facts: FactsReader, monkeypatch: pytest.MonkeyPatch, name: str, kind: str, quantization: str
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", NOBODY)
    facts_of_model = await facts.find(name)
    assert (facts_of_model.format, facts_of_model.quantization) == (kind, quantization)


async def test_a_hub_that_was_out_of_reach_is_not_asked_again_at_once(
    facts: FactsReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", NOBODY)
    await facts.find("Qwen/Qwen3-8B-AWQ")
    with serve_ranges(Hub()) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        await facts.find("Qwen/Qwen3-4B-AWQ")
        assert not hub.requests


async def test_an_unknown_repository_says_that_the_hub_is_out_of_reach(
    facts: FactsReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", NOBODY)
    with pytest.raises(Unavailable) as error:
        await facts.find("nobody/nothing-at-all")
    assert error.value.code == "hub_unreachable"


@pytest.mark.parametrize("name", ["./nothing.gguf", "/no/such/folder", "nothing.gguf", "../x", "C:\\models\\x.gguf"])
async def test_a_file_that_is_not_there_is_called_a_file(facts: FactsReader, name: str) -> None:
    with pytest.raises(NotFound) as error:
        await facts.find(name)
    assert str(error.value) == f"There is no file or folder {name}."


async def test_what_nobody_knows_is_refused(facts: FactsReader) -> None:
    with pytest.raises(RoundhouseError) as error:
        await facts.find("no such model")
    assert error.value.code == "model_not_found"


def test_what_an_engine_takes_does_not_fit_where_it_does_not_run() -> None:
    machine = machine_from(b'{"os": "linux", "cpu": "AMD EPYC 9654", "ram_gb": 384}')
    why_not = explain_lack(machine, ENGINES["vllm"])
    estimate = memory.estimate_memory(
        shape_facts("Qwen3 8B", "BF16", format="safetensors"), machine, setting_for(engine="vllm")
    )
    assert "vLLM needs Linux and an NVIDIA GPU" in why_not
    assert with_verdict_of_engine(estimate, "") == estimate
    elsewhere = with_verdict_of_engine(estimate, why_not)
    assert (elsewhere.fits, elsewhere.largest_context, elsewhere.notes[0]) == (False, 0, why_not)
    assert estimate.weights.arithmetic == "weights / 1"


@pytest.mark.parametrize(
    ("name", "quantization", "expected_form"),
    [
        ("qwen3:8b", "Q4_K_M", ("gguf", "Q4_K_M")),
        ("Qwen3 8B exl2 5.0bpw", "5.0BPW", ("exl2", "5.0bpw")),
        ("Qwen3-8B-MLX-8bit", "8BIT", ("mlx", "8bit")),
        ("Qwen3-8B-GPTQ-Int4", "GPTQ", ("gptq", "4bit")),
        ("OpenVINO/Qwen3-8B-int4-ov", "INT4", ("openvino", "int4")),
        ("nvidia/Some-NVFP4", "NVFP4", ("nvfp4", "NVFP4")),
    ],
)
def test_the_form_a_name_speaks_of(name: str, quantization: str, expected_form: tuple[str, str]) -> None:
    assert format_and_quantization(name, quantization) == expected_form
