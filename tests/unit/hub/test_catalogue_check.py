"""The catalogue compared with a hub: what is there, what is gone, gated, or something else than was said."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.hub.repositories.catalogue_check import check_entries
from app.hub.repositories.catalogue_entry import CatalogueEntry
from app.hub.repositories.catalogue_facts import catalogue_facts
from tests.fake_hub.hub import FakeHub
from tests.fake_hub.server import serve_hub

PARAMETERS = 100_000_000
WEIGHTS = b"w" * (PARAMETERS // 8)
"""One bit for each."""
ENTRY = CatalogueEntry(
    title="Tiny 0.1B",
    family="Tiny",
    names=["tiny:0.1b"],
    base="org/Tiny",
    parameters=PARAMETERS,
    repositories={
        "gguf": ["org/Tiny-GGUF", "org/Gone-GGUF", "org/Gated-GGUF", "org/Plain-GGUF", "org/Small-GGUF"],
        "exl3": ["org/Tiny-exl3", "org/Tiny-exl3@3.0bpw", "org/Tiny-exl3@9.0bpw"],
        "mlx": ["org/Tiny-4bit"],
        "onnx": ["org/Tiny-ONNX"],
    },
)


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with serve_hub(FakeHub()) as served_hub:
        plain = {"model.safetensors": WEIGHTS, "config.json": b"{}"}
        served_hub.add("org/Tiny-GGUF", {"t-Q4_K_M.gguf": WEIGHTS})
        served_hub.add("org/Gated-GGUF", {"t-Q4_K_M.gguf": WEIGHTS}, gated="manual")
        served_hub.add("org/Plain-GGUF", plain)
        served_hub.add("org/Small-GGUF", {"t-Q4_K_M.gguf": b"w"})
        served_hub.add("org/Tiny-4bit", plain)
        served_hub.add("org/Tiny-ONNX", {"onnx/model.onnx": b"o"})
        stored_repository = served_hub.add("org/Tiny-exl3", {"README.md": b"#"}, about={"tags": ["exl3"]})
        stored_repository.branches["3.0bpw"] = plain
        yield served_hub


def test_what_differs_is_said_of_each_repository_and_nothing_else(hub: FakeHub) -> None:
    sentences = {difference.place: difference.sentence for difference in check_entries([ENTRY], hub.url)}
    assert set(sentences) == {
        "org/Gone-GGUF",
        "org/Gated-GGUF",
        "org/Plain-GGUF",
        "org/Small-GGUF",
        "org/Tiny-exl3@9.0bpw",
    }
    assert sentences["org/Gone-GGUF"].startswith("is not there")
    assert sentences["org/Gated-GGUF"].startswith("is gated")
    assert sentences["org/Plain-GGUF"] == "has nothing in gguf, but safetensors"
    assert "bits for each parameter" in sentences["org/Small-GGUF"]
    assert sentences["org/Tiny-exl3@9.0bpw"].startswith("is not there")


def test_branches_are_compared_by_name_and_weight(hub: FakeHub) -> None:
    place, plain = "org/Rates-exl3", {"config.json": b"{}"}
    entry = CatalogueEntry(
        title="Rates 8M",
        family="Rates",
        names=["rates"],
        base="org/Rates",
        parameters=8_000_000,
        layers=2,
        hidden=256,
        kv_heads=2,
        head_dim=64,
        repositories={"exl3": [place]},
        branches={
            place: {
                "6.0bpw": "SC_6.00bpw_H6_V6",
                "5.0bpw": "5.00bpw",
                "4.0bpw": "4.00bpw",
                "3.0bpw": "",
                "2.05bpw": "2.05bpw_h4_ng4",
            }
        },
    )
    stored_repository = hub.add(place, {"README.md": b"#"}, about={"tags": ["exl3"]})
    rates = {"SC_6.00bpw_H6_V6": "6.0bpw", "5.00bpw": "3.0bpw", "3.00bpw_mul1": "3.0bpw", "2.05bpw_h4_ng4": "2.05bpw"}
    for branch, rate in rates.items():
        facts = catalogue_facts(entry, rate, format="exl3")
        assert facts is not None
        stored_repository.branches[branch] = {**plain, "model.safetensors": b"w" * facts.file_bytes}
    sentences = {difference.place: difference.sentence for difference in check_entries([entry], hub.url)}
    assert sentences.keys() == {f"{place}@5.00bpw", f"{place}@4.00bpw", f"{place}@3.0bpw"}
    assert "where" in sentences[f"{place}@5.00bpw"], "it has the weights of three bits"
    assert sentences[f"{place}@4.00bpw"].startswith("is not there; the branches with weights are SC_6.00bpw_H6_V6,")
    assert sentences[f"{place}@3.0bpw"] == "is the branch 3.00bpw_mul1, which the catalogue does not name"


def test_a_hub_that_does_not_answer_is_no_proof_that_something_is_gone() -> None:
    differences = list(check_entries([ENTRY], "http://127.0.0.1:9"))
    assert len(differences) == 10
    assert all(difference.sentence.startswith("could not be checked") for difference in differences)


@pytest.mark.slow
def test_the_program_writes_a_report(hub: FakeHub, tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    environ = os.environ | {"HF_ENDPOINT": hub.url, "HF_TOKEN_PATH": str(tmp_path / "none")}
    process = subprocess.run(
        [sys.executable, "-P", "-m", "app.hub.repositories.catalogue_check", str(report)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert process.returncode == 1
    lines = report.read_text(encoding="utf-8").splitlines()
    assert len(lines) > 500
    assert all(len(line.split(" | ")) == 4 for line in lines)
    assert f"{len(lines)} repositories differ" in process.stderr
