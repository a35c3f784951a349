"""A name of the catalogue pulled in each format, from the hub to the list of models: chosen, fetched, sized."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from app.config.paths import Paths
from app.core.models import ModelInfo
from app.hub.facts import read_facts
from app.hub.library.library import Library
from tests.fake_hub.hub import FakeHub
from tests.fake_hub.published import GENAI, PARAMETERS, publish_all
from tests.fake_hub.server import serve_hub
from tests.gateway.hub.test_downloads import call_admin, over
from tests.gateway.played import Gateway


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    with serve_hub(FakeHub()) as served_hub:
        monkeypatch.setenv("HF_ENDPOINT", served_hub.url)
        monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        publish_all(served_hub)
        yield served_hub


class FormatCase(NamedTuple):
    """What is typed, and what it comes to."""

    name: str
    format: str
    repository: str
    quantization: str


FOLDERS = [
    FormatCase("qwen3:8b", "mlx", "lmstudio-community/Qwen3-8B-MLX-4bit", "4bit"),
    FormatCase("qwen3:8b", "exl3", "turboderp/Qwen3-8B-exl3", "4.0bpw"),
    FormatCase("qwen3:8b", "awq", "Qwen/Qwen3-8B-AWQ", "4bit"),
    FormatCase("qwen3:30b", "gptq", "Qwen/Qwen3-30B-A3B-GPTQ-Int4", "4bit"),
    FormatCase("qwen3:30b", "nvfp4", "nvidia/Qwen3-30B-A3B-NVFP4", "NVFP4"),
]


async def pull(gateway: Gateway, **body: Any) -> dict[str, Any]:  # noqa: ANN401 -- JSON
    """Return a download once it is over."""
    status, download = await call_admin(gateway, "POST", "/downloads", body)
    assert status == 200, download
    ended_download = await over(gateway, download["id"])
    assert ended_download["state"] == "done", ended_download
    return ended_download


def list_library(paths: Paths) -> list[ModelInfo]:
    """Return the models that were downloaded, as the list of models has them."""
    library = Library(lambda: [paths.hub_cache], paths.data / "models.json", paths.data / "none.gguf")
    return [model for model in library.list_models() if model.name != "guide"]


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("case", FOLDERS, ids=lambda case: case.format)
async def test_a_model_comes_in_the_format_that_is_asked_for(
    gateway: Gateway, hub: FakeHub, paths: Paths, case: FormatCase
) -> None:
    ended_download = await pull(gateway, model=case.name, format=case.format)
    stored_branches = hub.repositories[case.repository].branches
    assert ended_download["repository"] == case.repository
    chosen_branch = stored_branches[ended_download["revision"]]
    assert {"config.json", "model-00001-of-00002.safetensors", "model.safetensors.index.json"} <= {
        *ended_download["files"]
    }
    assert ended_download["total_bytes"] == sum(len(chosen_branch[name]) for name in ended_download["files"])
    (model,) = list_library(paths)
    assert (model.format, model.problem) == (case.format, "")
    weights = sum(len(content) for name, content in chosen_branch.items() if name.endswith(".safetensors"))
    assert model.size_bytes == pytest.approx(weights, rel=0.05)
    facts = read_facts(Path(model.path))
    assert (facts.format, facts.class_names) == (case.format, ["Qwen3ForCausalLM"])
    assert facts.quantization == (ended_download["revision"] if case.format == "exl3" else case.quantization)
    assert facts.parameters == pytest.approx(PARAMETERS, rel=0.02)


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("case", FOLDERS, ids=lambda case: case.format)
async def test_what_is_offered_is_told_apart_and_counted(gateway: Gateway, case: FormatCase) -> None:
    status, listing = await call_admin(gateway, "GET", f"/hub/model?name={case.repository}")
    assert status == 200
    variants = {variant["quantization"]: variant for variant in listing["variants"]}
    assert case.quantization in variants, variants.keys()
    assert {variant["format"] for variant in variants.values()} == {case.format}
    assert listing["parameters"] == pytest.approx(PARAMETERS, rel=0.02)
    assert listing["architecture"] == "qwen3"
    assert variants[case.quantization]["memory_bytes"], "it can be planned before a byte of it is here"


@pytest.mark.slow
async def test_of_several_bit_rates_one_branch_comes_and_nothing_of_the_others(
    gateway: Gateway, hub: FakeHub, paths: Paths
) -> None:
    ended_download = await pull(gateway, model="turboderp/Qwen3-8B-exl3:6.0bpw")
    assert (ended_download["revision"], ended_download["quantization"]) == ("6.0bpw", "6.0bpw")
    stored_repository = hub.repositories["turboderp/Qwen3-8B-exl3"]
    snapshots = list(paths.hub_cache.glob("models--turboderp--Qwen3-8B-exl3/snapshots/*"))
    assert [snapshot.name for snapshot in snapshots] == [stored_repository.commit("6.0bpw")]
    others = {stored_repository.commit(branch) for branch in ("3.0bpw", "4.0bpw")}
    of_others = [
        part for _, path, part in hub.requests for commit in others if commit in path and path.endswith(".safetensors")
    ]
    assert all(of_others), "of another branch at most a header was read, to judge by"
    assert ended_download["total_bytes"] == sum(
        len(stored_repository.branches["6.0bpw"][name]) for name in ended_download["files"]
    )


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    ("name", "branch"),
    [
        ("qwen3.8:27b-4.0bpw", "4.00bpw"),
        ("qwen3.8:27b-2.2bpw", "SC_2.20bpw_H3_V3"),
        ("turboderp/Qwen3.8-27B-exl3:SC_4.00bpw_H5_V6", "SC_4.00bpw_H5_V6"),
        ("turboderp/Qwen3.8-27B-exl3@SC_2.20bpw_H3", "SC_2.20bpw_H3"),
    ],
)
async def test_of_several_branches_of_a_bit_rate_that_of_the_catalogue_comes(
    gateway: Gateway, paths: Paths, name: str, branch: str
) -> None:
    ended_download = await pull(gateway, model=name)
    assert ended_download["revision"] == branch
    (model,) = list_library(paths)
    assert model.quantization == f"{float(branch.removeprefix('SC_')[:4])}bpw"


CONVERTED = [
    FormatCase("qwen3:8b", "openvino", "OpenVINO/Qwen3-8B-int4-ov", "F32"),
    FormatCase(GENAI, "onnx-genai", GENAI, "INT4"),
]


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("case", CONVERTED, ids=lambda case: case.format)
async def test_folders_that_were_converted_come_whole_and_are_recognised(
    gateway: Gateway, hub: FakeHub, paths: Paths, case: FormatCase
) -> None:
    ended_download = await pull(gateway, model=case.name, **({} if case.name == GENAI else {"format": case.format}))
    assert ended_download["repository"] == case.repository
    stored_branch = hub.repositories[ended_download["repository"]].branches["main"]
    weights = {name for name in stored_branch if name.endswith((".bin", ".xml", ".onnx", ".onnx.data", "_config.json"))}
    assert weights <= {*ended_download["files"]}
    assert ended_download["total_bytes"] == sum(len(stored_branch[name]) for name in ended_download["files"])
    (model,) = list_library(paths)
    assert (model.format, model.problem, model.quantization) == (case.format, "", case.quantization)
    facts = read_facts(Path(model.path))
    assert (facts.format, facts.architecture) == (case.format, "qwen2")


@pytest.mark.slow
async def test_two_bit_rates_of_a_model_are_told_apart_by_name(gateway: Gateway, paths: Paths) -> None:
    for rate in ("3.0bpw", "4.0bpw", "6.0bpw"):
        await pull(gateway, model=f"turboderp/Qwen3-8B-exl3:{rate}")
    plain, *others = sorted(list_library(paths), key=lambda model: len(model.name))
    assert plain.name == "Qwen3-8B-exl3"
    assert [model.name for model in others] == [f"Qwen3-8B-exl3-{model.quantization}" for model in others]
    assert len({model.quantization for model in (plain, *others)}) == 3


async def test_a_bit_rate_is_chosen_where_none_is_named(gateway: Gateway, hub: FakeHub) -> None:
    status, download = await call_admin(gateway, "POST", "/downloads", {"model": "qwen3:8b", "format": "exl3"})
    assert status == 200, download
    assert download["revision"] in hub.repositories["turboderp/Qwen3-8B-exl3"].branches
    assert download["revision"] != "main", "it holds no weights"
    assert download["reason"]
    await call_admin(gateway, "DELETE", f"/downloads/{download['id']}")


@pytest.mark.slow
async def test_all_parts_of_a_file_come_with_its_projector_and_its_draft_on_request(
    gateway: Gateway, hub: FakeHub, paths: Paths
) -> None:
    ended_download = await pull(
        gateway, model="qwen3:8b", format="gguf", quantization="Q8_0", companions=["Qwen3-0.6B-draft-Q8_0.gguf"]
    )
    assert ended_download["files"] == [
        "Q8_0/Qwen3-8B-Q8_0-00001-of-00002.gguf",
        "Q8_0/Qwen3-8B-Q8_0-00002-of-00002.gguf",
        "Qwen3-0.6B-draft-Q8_0.gguf",
        "mmproj-F16.gguf",
    ]
    stored_branch = hub.repositories["Qwen/Qwen3-8B-GGUF"].branches["main"]
    assert ended_download["total_bytes"] == sum(len(stored_branch[name]) for name in ended_download["files"])
    whole = next(model for model in list_library(paths) if "Q8_0-00001" in model.path)
    assert whole.size_bytes == sum(len(stored_branch[name]) for name in stored_branch if name.startswith("Q8_0/"))
    assert whole.problem == ""
