"""Searching a hub: what is asked of it, and what its listing is taken to mean. Its own client reads the same hub."""

from collections.abc import Iterator
from typing import Any

import pytest
from huggingface_hub import HfApi

from app.core.errors import RoundhouseError, Unavailable
from app.core.hub import HubQuery, HubSearchHit, HubSort, HubTask
from app.hub.repositories import search as searching
from app.hub.repositories.search import search_hub
from tests.fake_hub.hub import FakeHub
from tests.fake_hub.server import serve_hub

GGUF = {"model-Q4_K_M.gguf": b"g", "model-Q8_0.gguf": b"g", "mmproj-F16.gguf": b"p"}
PLAIN = {"model.safetensors": b"s", "config.json": b"{}"}


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with serve_hub(FakeHub()) as served_hub:
        yield served_hub


def add(hub: FakeHub, name: str, files: dict[str, bytes], *, gated: str = "", **about: Any) -> None:  # noqa: ANN401 -- JSON
    hub.add(name, files, gated=gated, about=about)


def search_hits(hub: FakeHub, **query: Any) -> list[HubSearchHit]:  # noqa: ANN401 -- any field
    return [entry.found for entry in search_hub(hub.url, HubQuery(**query)).listed]


def names(hub: FakeHub, **query: Any) -> list[str]:  # noqa: ANN401 -- any field
    return [hit.repository for hit in search_hits(hub, **query)]


def test_a_listing_tells_formats_sizes_and_terms(hub: FakeHub) -> None:
    add(
        hub,
        "unsloth/Qwen3-8B-GGUF",
        GGUF,
        gated="manual",
        tags=["gguf", "license:apache-2.0", "base_model:Qwen/Qwen3-8B", "base_model:quantized:Qwen/Qwen3-8B"],
        pipeline_tag="text-generation",
        gguf={"total": 8_190_735_360, "architecture": "qwen3", "context_length": 40960},
        likes=7,
    )
    (entry,) = search_hub(hub.url, HubQuery(text="qwen3 8b")).listed
    assert (entry.base, entry.relation) == ("Qwen/Qwen3-8B", "quantized")
    assert entry.found == HubSearchHit(
        repository="unsloth/Qwen3-8B-GGUF",
        formats=["gguf"],
        quantizations=["Q4_K_M", "Q8_0"],
        parameters=8_000_000_000,
        trained_context=40960,
        architecture="qwen3",
        task="chat",
        licence="apache-2.0",
        gated=True,
        downloads=1000,
        likes=7,
        modified="2026-11-01T00:00:00.000Z",
    )


FORMATS: list[tuple[str, dict[str, bytes], dict[str, Any], list[str]]] = [
    ("org/plain", PLAIN, {}, ["safetensors"]),
    ("org/some-4bit", PLAIN, {"library_name": "mlx"}, ["mlx"]),
    ("org/some-AWQ", PLAIN, {}, ["awq"]),
    ("org/some", PLAIN, {"tags": ["gptq"]}, ["gptq"]),
    ("org/some-FP8", PLAIN, {}, ["fp8"]),
    ("org/some-NVFP4", PLAIN, {"tags": ["compressed-tensors"]}, ["nvfp4"]),
    ("org/some-exl3", {"README.md": b"#"}, {"tags": ["exl3"]}, ["exl3"]),
    ("org/some-ov", {"openvino_model.xml": b"", "openvino_model.bin": b""}, {}, ["openvino"]),
    ("org/some-onnx", {"cpu/genai_config.json": b"{}", "cpu/model.onnx": b""}, {}, ["onnx-genai"]),
    ("org/both", {**GGUF, **PLAIN}, {}, ["gguf", "safetensors"]),
]


@pytest.mark.parametrize(("name", "files", "about", "formats"), FORMATS)
def test_formats_follow_from_files_first(
    hub: FakeHub, name: str, files: dict[str, bytes], about: dict[str, Any], formats: list[str]
) -> None:
    add(hub, name, files, **about)
    assert [hit.formats for hit in search_hits(hub)] == [formats]


def test_pickles_are_shown_as_refused_and_what_no_engine_reads_is_left_out(hub: FakeHub) -> None:
    add(hub, "org/pickles", {"pytorch_model.bin": b"x", "config.json": b"{}"})
    add(hub, "org/pictures", {"unet/model.onnx": b"x"})
    (hit,) = search_hits(hub)
    assert hit.repository == "org/pickles"
    assert "pickle" in hit.problem


def test_code_of_its_own_is_named(hub: FakeHub) -> None:
    add(hub, "org/strange", PLAIN, tags=["custom_code"])
    assert search_hits(hub)[0].needs_remote_code


def test_every_filter_holds(hub: FakeHub) -> None:
    add(
        hub, "a/Small-3B-GGUF", GGUF, tags=["gguf", "license:mit"], pipeline_tag="text-generation", downloads=1, likes=9
    )
    add(
        hub,
        "b/Large-70B",
        PLAIN,
        tags=["safetensors"],
        gated="auto",
        downloads=5,
        likes=3,
        lastModified="2020-01-01T00:00:00.000Z",
    )
    assert names(hub, format="gguf") == ["a/Small-3B-GGUF"]
    assert names(hub, publisher="b") == ["b/Large-70B"]
    assert names(hub, licence="mit") == ["a/Small-3B-GGUF"]
    assert names(hub, task=HubTask.CHAT) == ["a/Small-3B-GGUF"]
    assert names(hub, max_parameters=8_000_000_000) == ["a/Small-3B-GGUF"]
    assert names(hub, min_parameters=8_000_000_000) == ["b/Large-70B"]
    assert names(hub, gated=True) == ["b/Large-70B"]
    assert names(hub, gated=False) == ["a/Small-3B-GGUF"]
    assert names(hub, days=365 * 3) == ["a/Small-3B-GGUF"]
    assert names(hub, text="nothing of the kind") == []


def test_the_order_is_the_one_asked_for(hub: FakeHub) -> None:
    add(hub, "a/Old", PLAIN, downloads=5, likes=1, lastModified="2025-01-01T00:00:00.000Z")
    add(hub, "b/New", PLAIN, downloads=1, likes=2, lastModified="2026-01-01T00:00:00.000Z")
    assert names(hub, sort=HubSort.DOWNLOADS) == ["a/Old", "b/New"]
    assert names(hub, sort=HubSort.LIKES) == ["b/New", "a/Old"]
    assert names(hub, sort=HubSort.RECENT) == ["b/New", "a/Old"]


def test_pages_follow_each_other_to_the_end(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "PAGE", 2)
    for number in range(5):
        add(hub, f"org/m{number}", PLAIN, downloads=number)
    seen_names, page = [], ""
    for _ in range(3):
        listing = search_hub(hub.url, HubQuery(page=page))
        seen_names += [entry.found.repository for entry in listing.listed]
        page = listing.next
    assert seen_names == [f"org/m{number}" for number in (4, 3, 2, 1, 0)]
    assert page == ""


def test_a_page_that_is_none_is_an_error_and_no_crash(hub: FakeHub) -> None:
    with pytest.raises(RoundhouseError):
        search_hub(hub.url, HubQuery(page="nowhere"))


def test_an_answer_that_makes_no_sense_is_said_to_make_none(hub: FakeHub) -> None:
    add(hub, "org/odd", PLAIN, tags="no list")
    with pytest.raises(Unavailable):
        search_hub(hub.url, HubQuery())


def test_the_hub_s_own_client_finds_the_same(hub: FakeHub) -> None:
    add(hub, "a/One-GGUF", GGUF, tags=["gguf"], downloads=2, gguf={"total": 5}, pipeline_tag="text-generation")
    add(hub, "b/Two", PLAIN, tags=["safetensors"], downloads=9)
    api = HfApi(endpoint=hub.url, token=False)
    assert [model.id for model in api.list_models(sort="downloads")] == names(hub) == ["b/Two", "a/One-GGUF"]
    (model,) = api.list_models(filter="gguf", pipeline_tag="text-generation", expand=["gguf", "siblings", "downloads"])
    assert (model.gguf, model.downloads, len(model.siblings or [])) == ({"total": 5}, 2, 3)
    assert [len(list(api.list_models(author="a", limit=1))), len(list(api.list_models(search="none")))] == [1, 0]
