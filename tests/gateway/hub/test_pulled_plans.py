"""A downloaded model of each format is planned, and started, from its own files as a GGUF is."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

from app.config.paths import Paths
from app.core.advice import Parallelism, Plan
from app.core.engines import EngineInfo
from app.core.model_facts import ModelFacts
from app.gateway.hub import named_models
from app.gateway.hub.named_models import prefer_drafts
from app.gateway.services import Services
from app.hub.facts import read_facts
from app.hub.repositories.model_reference import ModelReference
from engines.api import EngineInstallation, LaunchOptions, ListenOptions, ModelFormat, ModelSource
from engines.registry import ADAPTERS
from tests.catalogue_docs import shipped_entries
from tests.fake_hub.hub import FakeHub
from tests.fake_hub.published import publish_all
from tests.fake_hub.server import serve_hub
from tests.gateway.hub.test_downloads import call_admin
from tests.gateway.hub.test_formats import FOLDERS, FormatCase, list_library, pull
from tests.gateway.played import Gateway

CARD = {"os": "linux", "cpu": "AMD Ryzen 9 7950X", "ram_gb": 64, "gpus": ["RTX 5090"]}
LLAMA = EngineInfo(
    id="llama.cpp", name="llama.cpp", licence="MIT", homepage="", installed=True, formats=["gguf"], backend="cuda"
)
LLAMA_PLAN = Plan(
    engine="llama.cpp",
    name="llama.cpp",
    backend="cuda",
    format="gguf",
    quantization="Q4_K_M",
    context=8192,
    kv_type="f16",
    parallelism=Parallelism(),
    reasons=[],
    obtainable=True,
)
MAC = {"os": "macos", "cpu": "Apple M4 Max", "ram_gb": 64}


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    with serve_hub(FakeHub()) as served_hub:
        monkeypatch.setenv("HF_ENDPOINT", served_hub.url)
        monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        publish_all(served_hub)
        yield served_hub


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("case", FOLDERS, ids=lambda case: case.format)
async def test_a_downloaded_model_is_planned_in_the_format_it_has(
    gateway: Gateway, paths: Paths, case: FormatCase
) -> None:
    await pull(gateway, model=case.name, format=case.format)
    (model,) = list_library(paths)
    facts = read_facts(Path(model.path))
    machine = MAC if case.format == "mlx" else CARD
    status, advice = await call_admin(gateway, "POST", "/plan", {"model": model.path, "machine": machine})
    assert status == 200, advice
    plan = next(plan for plan in advice["plans"] if plan["format"] == case.format)
    assert plan["estimate"]["fits"]
    assert plan["quantization"] == facts.quantization
    request = {"model": model.path, "machine": machine, "engine": plan["engine"]}
    status, estimate = await call_admin(gateway, "POST", "/estimate", request)
    assert status == 200, estimate
    assert estimate["fits"]
    assert estimate["total"]["bytes"] > facts.file_bytes, "its own weights are in it"
    assert case.format in {kind.value for kind in ADAPTERS[plan["engine"]].descriptor.formats}


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("case", FOLDERS, ids=lambda case: case.format)
async def test_the_engine_gets_the_folder_that_was_downloaded(gateway: Gateway, paths: Paths, case: FormatCase) -> None:
    await pull(gateway, model=case.name, format=case.format)
    (model,) = list_library(paths)
    source = ModelSource(name=model.name, path=Path(model.path), format=ModelFormat(model.format))
    readers = [adapter for adapter in ADAPTERS.values() if source.format in adapter.descriptor.formats]
    assert readers
    for adapter in readers:
        engine = adapter.descriptor.id
        if not adapter.descriptor.features:
            continue
        installation = EngineInstallation(
            engine=engine, version="1", backend="cuda", python=Path(sys.executable), executable=Path(sys.executable)
        )
        net = ListenOptions(host="127.0.0.1", port=1, key="k")
        launch = adapter.plan(source, LaunchOptions(context=4096, slots=1), net, installation)
        assert model.path in repr(launch), engine


@pytest.mark.parametrize(
    ("title", "kind", "first"),
    [
        ("Qwen3.5 9B", "gguf", "unsloth/Qwen3.5-9B-MTP-GGUF"),
        ("Qwen3.5 35B-A3B", "gguf", "unsloth/Qwen3.5-35B-A3B-MTP-GGUF"),
        ("Qwen3.8 27B", "mlx", "mlx-community/Qwen3.8-27B-4bit"),
    ],
)
def test_a_repository_with_the_head_that_drafts_comes_first_in_as_many_bits(title: str, kind: str, first: str) -> None:
    entry = next(entry for entry in shipped_entries() if entry.title == title)
    assert prefer_drafts(entry, entry.repositories[kind])[0] == first


@pytest.mark.parametrize("asked_format", ["", "gguf"])
@pytest.mark.parametrize(("draft", "first"), [("mtp", "unsloth/Qwen3.5-9B-MTP-GGUF"), ("", "unsloth/Qwen3.5-9B-GGUF")])
async def test_the_plan_decides_whether_the_weights_with_the_head_are_fetched(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, draft: str, first: str, asked_format: str
) -> None:
    async def plan_formats(_services: Services, facts: Mapping[str, ModelFacts]) -> list[Plan]:
        assert facts["gguf"].has_draft_head, "it is planned with the head that is published"
        return [msgspec.structs.replace(LLAMA_PLAN, draft=draft)]

    monkeypatch.setattr(named_models, "plans_for", plan_formats)
    monkeypatch.setattr(gateway.services.catalogue, "list_engines", lambda: [LLAMA])
    resolved_name = await named_models.find_named(
        gateway.services, ModelReference(catalogue="qwen3.5:9b"), asked_format
    )
    assert resolved_name.references[0].repository == first
