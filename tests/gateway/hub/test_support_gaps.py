"""Before a download: a model that no engine here loads is refused with the update that helps, or fetched anyway."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.api.support import EngineSupport
from tests.fake_hub.hub import FakeHub
from tests.fake_hub.server import serve_hub
from tests.gateway.hub.test_downloads import call_admin
from tests.gateway.played import Gateway
from tests.gguf_files import TinyLlama

OLD = EngineSupport(version="b1", gguf=frozenset({"llama", "qwen2"}))


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    with serve_hub(FakeHub()) as served_hub:
        monkeypatch.setenv("HF_ENDPOINT", served_hub.url)
        monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "no-token"))
        yield served_hub


@pytest.fixture(autouse=True)
def _old_engine(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(gateway.services.support), "read_all", lambda _self: {"llama.cpp": OLD})


def add_model(hub: FakeHub, name: str, **values: object) -> None:
    hub.add(f"org/{name}", {f"{name}-Q4_K_M.gguf": TinyLlama(values=values).content()})  # type: ignore[arg-type] # metadata


async def test_a_model_that_is_too_new_is_refused_before_a_byte_of_it_comes(gateway: Gateway, hub: FakeHub) -> None:
    add_model(hub, "new", **{"general.architecture": "qwen35moe"})
    status, refusal = await call_admin(gateway, "POST", "/downloads", {"model": "org/new"})
    assert (status, refusal["code"]) == (409, "engine_too_old")
    assert "does not know the architecture qwen35moe" in refusal["sentence"]
    assert "llama.cpp b" in refusal["sentence"], "the version that does is named"
    assert "roundhouse engines update llama.cpp" in refusal["hint"]
    assert (await call_admin(gateway, "GET", "/downloads"))[1] == []
    for quantization in ("", "Q4_K_M"):
        body = {"model": "org/new", "quantization": quantization}
        assert (await call_admin(gateway, "POST", "/downloads", body))[0] == 409


async def test_a_tokenizer_that_is_too_new_is_refused_too(gateway: Gateway, hub: FakeHub) -> None:
    add_model(hub, "words", **{"tokenizer.ggml.pre": "superbpe"})
    _, refusal = await call_admin(gateway, "POST", "/downloads", {"model": "org/words"})
    assert refusal["sentence"].endswith(" does not know the tokenizer superbpe.")


async def test_what_is_known_and_what_is_wanted_anyway_is_fetched(gateway: Gateway, hub: FakeHub) -> None:
    add_model(hub, "known")
    add_model(hub, "new", **{"general.architecture": "qwen35moe"})
    for body in ({"model": "org/known"}, {"model": "org/new", "anyway": True}):
        status, download = await call_admin(gateway, "POST", "/downloads", body)
        assert status == 200, (body, download)
        await call_admin(gateway, "DELETE", f"/downloads/{download['id']}")


async def test_what_no_engine_here_reads_is_nobodys_fault(gateway: Gateway, hub: FakeHub) -> None:
    config = {"architectures": ["NobodyForCausalLM"], "quantization_config": {"quant_method": "exl3"}}
    hub.add("org/other-exl3", {"model.safetensors": b"w" * 100, "config.json": json.dumps(config).encode()})
    status, download = await call_admin(gateway, "POST", "/downloads", {"model": "org/other-exl3"})
    assert status == 200, download
    await call_admin(gateway, "DELETE", f"/downloads/{download['id']}")


async def test_the_catalogue_says_what_has_to_be_updated(gateway: Gateway) -> None:
    _, picks = await call_admin(gateway, "GET", "/hub/catalogue?text=qwen3:30b")
    needs = {pick["pull"]: pick["needs"] for pick in picks}
    assert needs["qwen3:30b"].startswith("Needs a newer llama.cpp: update it")
    _, picks = await call_admin(gateway, "GET", "/hub/catalogue?text=llama3.2:3b")
    assert {pick["needs"] for pick in picks} == {""}
