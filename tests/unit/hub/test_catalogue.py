"""The catalogue: what it lists, which model a name means, and that no name means another model than it says."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.core.hub import HubUse
from app.core.models import ModelSampling
from app.hub.repositories.catalogue import SHIPPED, CatalogueRefused, ModelCatalogue, parse_catalogue
from app.hub.repositories.catalogue_entry import CatalogueAttention, CatalogueEntry
from app.hub.repositories.catalogue_names import CatalogueMatch, NameIndex
from app.hub.repositories.model_reference import parse_reference
from app.hub.shapes.shape import name_words
from tests.catalogue_docs import PAGE, as_generated

FAMILIAR = Path(__file__).with_name("familiar_names.txt").read_text(encoding="utf-8").splitlines()
CONTENT = parse_catalogue(SHIPPED.read_bytes())
INDEX = NameIndex(CONTENT.models)


def match_of(typed_name: str) -> CatalogueMatch | None:
    """Return what a name means, read as `pull` reads it."""
    if " " in typed_name:
        return INDEX.find_match(typed_name)
    reference = parse_reference(typed_name)
    assert not reference.repository
    return INDEX.find_match(reference.text)


def test_hundreds_of_models_are_listed_each_with_where_its_weights_are() -> None:
    assert len(CONTENT.models) >= 300
    assert CONTENT.source
    names = [name for entry in CONTENT.models for name in entry.names]
    assert len(names) == len(set(names))
    assert len({entry.title for entry in CONTENT.models}) == len(CONTENT.models)
    formats = {kind for entry in CONTENT.models for kind in entry.repositories}
    assert formats >= {"gguf", "mlx", "exl3", "awq", "fp8", "nvfp4", "openvino", "onnx"}
    assert sum(bool(entry.repositories) for entry in CONTENT.models) > 300
    kinds = {entry.attention for entry in CONTENT.models}
    assert kinds == set(CatalogueAttention)


def test_each_model_is_one_line_of_the_file() -> None:
    lines = [line for line in SHIPPED.read_text(encoding="utf-8").splitlines() if '"title"' in line]
    assert [json.loads(line.strip().removesuffix(","))["title"] for line in lines] == [
        entry.title for entry in CONTENT.models
    ]


def test_figures_that_contradict_each_other_are_none() -> None:
    for entry in CONTENT.models:
        assert entry.active_parameters <= entry.parameters or not entry.parameters, entry.title
        assert entry.table_parameters + entry.draft_parameters <= entry.parameters or not entry.parameters
        assert entry.full_every <= entry.layers or not entry.layers, entry.title
        assert set(entry.ranks) <= {use.value for use in HubUse}


@pytest.mark.slow
def test_the_docs_list_what_the_file_lists() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert as_generated(page) == page, "`make fix` writes it anew"


def test_two_hundred_names_are_known() -> None:
    assert len(FAMILIAR) >= 200


@pytest.mark.slow(cases=203)
@pytest.mark.parametrize("line", FAMILIAR)
def test_a_familiar_name_means_its_model(line: str) -> None:
    typed_name, _, title = line.partition(" | ")
    match = match_of(typed_name)
    assert match is not None
    assert match.entry.title == title


@pytest.mark.parametrize(
    ("typed_name", "model_format", "quantization", "bits"),
    [
        ("qwen3:8b", "", "", ""),
        ("qwen3:8b-q8_0", "gguf", "Q8_0", ""),
        ("qwen3:8b-fp16", "gguf", "F16", ""),
        ("qwen3-8b-gguf", "gguf", "", ""),
        ("qwen3:8b-4.0bpw", "exl3", "4.0bpw", ""),
        ("qwen3-8b-4bit", "mlx", "", "4bit"),
        ("qwen3-8b-awq", "awq", "", ""),
        ("qwen3.8:27b-mlx", "mlx", "", ""),
        ("gemma4:e2b-nvfp4", "nvfp4", "", ""),
    ],
)
def test_what_a_name_says_of_the_weights_is_kept(
    typed_name: str, model_format: str, quantization: str, bits: str
) -> None:
    match = INDEX.find_match(typed_name)
    assert match is not None
    assert (match.format, match.quantization, match.bits) == (model_format, quantization, bits)
    assert all(bits in name.casefold() for name in match.list_repositories("mlx"))


@pytest.mark.parametrize(
    ("typed_name", "near"),
    [
        ("qwen3:7b", "qwen3:8b"),
        ("qwen3:8b-base", "qwen3:8b"),
        ("qwen3:8b-thinking", "qwen3:4b-thinking"),
        ("llama3:8b", "llama3.1:8b"),
        ("gemma3:4b-it-qat", "gemma3:4b"),
        ("gemma3:4b-it-qat-q4_0", "gemma3:4b"),
        ("qwen3.5:cloud", "qwen3.5:9b"),
        ("deepseek-r1:13b", "deepseek-r1:32b"),
        ("mistrall", "mistral:7b"),
        ("phi5", "phi4:14b"),
        ("gpt-oss:20b-9bit", "gpt-oss:20b"),
        ("pixtral-12b-4.0bpw", "pixtral:12b"),
    ],
)
def test_a_name_that_is_not_known_means_nothing_and_has_neighbours(typed_name: str, near: str) -> None:
    assert INDEX.find_match(typed_name) is None
    nearest = INDEX.list_nearest(typed_name)
    assert len(nearest) == 3
    assert near in nearest
    assert all(INDEX.find_match(name) is not None for name in nearest)


def test_every_name_of_the_list_means_its_own_model() -> None:
    for entry in CONTENT.models:
        for name in entry.names:
            match = INDEX.find_match(name)
            assert match is not None, name
            assert match.entry is entry, name


def test_a_title_means_its_model_and_a_repository_no_model_with_another_title() -> None:
    for entry in CONTENT.models:
        match = INDEX.find_match(entry.title)
        assert match is None or match.entry is entry, entry.title
        model_spelling = entry.base.partition("/")[2]
        match = INDEX.find_match(model_spelling)
        is_title = match is not None and name_words(match.entry.title) == name_words(model_spelling)
        assert match is None or match.entry is entry or is_title, model_spelling


def entry_of(**fields: Any) -> CatalogueEntry:  # noqa: ANN401 -- JSON
    return CatalogueEntry(**{"title": "X 1B", "family": "X", "names": ["x:1b"], "base": "org/X-1B"} | fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"names": []},
        {"names": ["X:1b"]},
        {"names": ["org/x"]},
        {"base": "nowhere"},
        {"repositories": {"gguf": ["../up"]}},
        {"repositories": {"exl3": ["org/x@"]}},
        {"repositories": {"exl3": ["org/x@../y"]}},
        {"title": "X\x1b[31m"},
    ],
)
def test_an_entry_without_sense_has_a_problem(fields: dict[str, Any]) -> None:
    assert entry_of(**fields).problem
    assert not entry_of(repositories={"exl3": ["org/x@3.0bpw"]}).problem


def test_a_list_of_another_version_is_refused_with_what_to_do() -> None:
    first = b'{"version": 1, "issued": "2026-11-21", "models": [{"name": "a", "tag": "1b", "repository": "o/a"}]}'
    with pytest.raises(CatalogueRefused, match="version 1; this Roundhouse reads version 2") as refusal:
        parse_catalogue(first)
    assert "publishes" in refusal.value.hint
    with pytest.raises(CatalogueRefused) as refusal:
        parse_catalogue(b'{"version": 3}')
    assert refusal.value.hint == "Update Roundhouse."
    for nonsense in (b"", b"[]", b'{"version": 2}', b'{"version": 2, "issued": "x", "models": [{}]}'):
        with pytest.raises(CatalogueRefused, match="cannot be read"):
            parse_catalogue(nonsense)


def test_a_list_kept_from_the_first_version_does_not_stand_in_the_way(tmp_path: Path) -> None:
    kept_file = tmp_path / "catalogue.json"
    kept_file.write_text('{"content": "e30=", "signature": "AAAA"}')
    assert ModelCatalogue(kept_file).read_content("AAAA").issued == CONTENT.issued


def test_makers_recommendations_are_ones_a_sampler_takes() -> None:
    stated_entries = [entry for entry in CONTENT.models if entry.sampling != ModelSampling()]
    assert len(stated_entries) >= 50
    for entry in stated_entries:
        assert 0 <= (entry.sampling.temperature or 0) <= 1.5, entry.title
        assert {"chat", "coding", "reasoning"} & set(entry.good_for), entry.title
    assert all(entry.maker_note.endswith(".") for entry in CONTENT.models if entry.maker_note)


def test_a_repository_leads_to_its_model_in_whatever_format(tmp_path: Path) -> None:
    catalogue = ModelCatalogue(tmp_path / "catalogue.json")
    for place in ("unsloth/Qwen3.8-27B-GGUF", "Turboderp/qwen3.8-27b-exl3", "Qwen/Qwen3.8-27B"):
        entry = catalogue.find_repository(place)
        assert entry is not None
        assert entry.title == "Qwen3.8 27B"
    assert catalogue.find_repository("org/unheard-of") is None
