"""The sampling that models recommend: from every form that carries it, and never more than a sampler takes."""

import json
from pathlib import Path

import pytest

from app.core.models import ModelSampling
from app.hub.library.naming import GENERATION_CONFIG as CONFIG
from app.hub.repositories import generation
from app.hub.repositories.generation import NOTHING, read_recommendation
from tests.gguf_files import TinyLlama

QWEN = {
    "do_sample": True,
    "eos_token_id": [151645, 151643],
    "temperature": 0.6,
    "top_k": 20,
    "top_p": 0.95,
    "repetition_penalty": 1.05,
}
SAID = ModelSampling(temperature=0.6, top_k=20, top_p=0.95, repeat_penalty=1.05)


def write_file(folder: Path, name: str, content: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


def test_a_folder_recommends_what_its_generation_config_says(tmp_path: Path) -> None:
    recommendation = read_recommendation(write_file(tmp_path, CONFIG, QWEN))
    assert recommendation.sampling == SAID
    assert recommendation.source == CONFIG


def test_a_change_of_the_file_counts_at_once(tmp_path: Path) -> None:
    read_recommendation(write_file(tmp_path, CONFIG, QWEN))
    assert read_recommendation(write_file(tmp_path, CONFIG, {"temperature": 1})).sampling == ModelSampling(
        temperature=1.0
    )


@pytest.mark.parametrize(
    "careless",
    [
        {"temperature": -1, "top_p": 0, "top_k": -5, "min_p": 7, "repetition_penalty": 0},
        {"temperature": True, "top_p": "0.9", "top_k": None, "min_p": [], "repetition_penalty": {}},
        {"top_k": 1e300, "temperature": 1e300},
        {},
    ],
    ids=["out of bounds", "no numbers", "too large", "empty"],
)
def test_figures_that_no_sampler_takes_are_passed_over(tmp_path: Path, careless: dict[str, object]) -> None:
    assert read_recommendation(write_file(tmp_path, CONFIG, careless)) == NOTHING


@pytest.mark.parametrize("text", ["", "[1]", "{", "nonsense", '{"temperature": NaN}'])
def test_a_damaged_file_recommends_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / CONFIG).write_text(text, encoding="utf-8")
    assert read_recommendation(tmp_path) == NOTHING


def test_an_exporters_own_search_counts_where_it_samples(tmp_path: Path) -> None:
    search = {"do_sample": True, "temperature": 0.7, "top_k": 40}
    write_file(tmp_path, "genai_config.json", {"search": search})
    assert read_recommendation(tmp_path).sampling == ModelSampling(temperature=0.7, top_k=40)
    write_file(tmp_path, "genai_config.json", {"search": {**search, "do_sample": False}})
    assert read_recommendation(tmp_path) == NOTHING


def test_a_gguf_file_says_it_in_its_header(tmp_path: Path) -> None:
    values = {
        "general.sampling.temp": 0.6,
        "general.sampling.top_k": 20,
        "general.sampling.top_p": 0.95,
        "general.sampling.penalty_repeat": 1.05,
    }
    file = TinyLlama(values=values).write(tmp_path / "told.gguf")
    assert read_recommendation(file).sampling == SAID  # 0.95 is 0.949999988 in the file
    assert read_recommendation(file).source == "told.gguf"
    assert read_recommendation(TinyLlama().write(tmp_path / "silent.gguf")) == NOTHING


def test_a_gguf_file_of_the_hub_has_its_generation_config_beside_it(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--someone--Some-GGUF" / "snapshots" / ("0" * 40)
    write_file(snapshot, CONFIG, QWEN)
    assert read_recommendation(TinyLlama().write(snapshot / "some.gguf")).sampling == SAID
    # Elsewhere a folder holds many models, and nobody knows whose it is.
    write_file(tmp_path, CONFIG, QWEN)
    assert read_recommendation(TinyLlama().write(tmp_path / "some.gguf")) == NOTHING


def test_what_is_not_there_recommends_nothing(tmp_path: Path) -> None:
    assert read_recommendation(tmp_path / "gone.gguf") == NOTHING


def test_a_name_that_is_no_repository_is_never_asked_for() -> None:
    assert generation.fetch_recommendation("http://127.0.0.1:1", "../../etc/passwd") == NOTHING


def test_one_sampling_goes_over_another() -> None:
    over = ModelSampling(temperature=0.0).fill_gaps_from(SAID)
    assert over == ModelSampling(temperature=0.0, top_k=20, top_p=0.95, repeat_penalty=1.05)
