"""A projector goes with the models it is named for, else with the only one there is; nobody's is nobody's."""

import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from app.hub.library.companions import models_with, projector_beside, projector_folders, projectors_beside

Put = Callable[..., Path]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Makes empty files in a folder, and returns the first: names are all that counts."""

    def put(*names: str, at: Path = tmp_path) -> Path:
        for name in names:
            (at / name).parent.mkdir(parents=True, exist_ok=True)
            (at / name).touch()
        return at / names[0]

    return put


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    return tmp_path / "hub" / "models--org--tiny-GGUF" / "snapshots" / ("0" * 40)


def test_of_several_projectors_half_precision_is_taken(put: Put) -> None:
    model = put("tiny-Q4_K_M.gguf")
    assert projector_beside(model) is None
    put("mmproj-f32.gguf", "mmproj-bf16.gguf", "mmproj-Q8_0.gguf")
    assert [file.name for file in projectors_beside(model)] == [
        "mmproj-bf16.gguf",
        "mmproj-Q8_0.gguf",
        "mmproj-f32.gguf",
    ]


def test_a_projector_among_several_models_is_the_one_that_is_named_for_it(put: Put, tmp_path: Path) -> None:
    model = put("tiny-Q4_K_M.gguf", "tiny-Q8_0.gguf", "mmproj-f16.gguf", "imatrix.gguf")
    assert projector_beside(model) == tmp_path / "mmproj-f16.gguf", "two quantisations are one model"
    assert models_with(tmp_path / "mmproj-f16.gguf") == {model, tmp_path / "tiny-Q8_0.gguf"}
    put("other-Q8_0.gguf")
    assert projector_beside(model) is None, "nobody knows whose it is"
    assert models_with(tmp_path / "mmproj-f16.gguf") == set()
    own = put("tiny-mmproj-f16.gguf")
    assert projector_beside(model) == own


@pytest.mark.parametrize("path", ["folder", "gone/x.gguf", "x.safetensors"])
def test_what_is_no_gguf_file_has_none(put: Put, tmp_path: Path, path: str) -> None:
    put("mmproj-f16.gguf")
    assert projectors_beside(tmp_path / path) == []


def test_the_longest_name_a_projector_bears_is_whose_it_is(put: Put, tmp_path: Path) -> None:
    short = put("qwen2-Q4_0.gguf", "qwen2-vl-Q4_0.gguf", "qwen2-vl-mmproj.gguf", "m-Q4_0.gguf")
    assert projector_beside(short) is None
    assert projector_beside(tmp_path / "m-Q4_0.gguf") is None, "every projector has an m in its name"
    assert models_with(tmp_path / "qwen2-vl-mmproj.gguf") == {tmp_path / "qwen2-vl-Q4_0.gguf"}


def test_drafts_and_adapters_beside_a_model_need_no_projector(put: Put, tmp_path: Path) -> None:
    model = put("tiny-Q4_0.gguf", "tiny-draft-Q8_0.gguf", "style-lora-f16.gguf", "mmproj.gguf")
    assert models_with(tmp_path / "mmproj.gguf") == {model}
    assert projector_beside(tmp_path / "style-lora-f16.gguf") is None


def test_a_split_model_is_one_model(put: Put, tmp_path: Path) -> None:
    first = put("big-Q4_0-00001-of-00002.gguf", "big-Q4_0-00002-of-00002.gguf", "mmproj.gguf")
    assert projector_beside(first) == tmp_path / "mmproj.gguf"
    assert models_with(tmp_path / "mmproj.gguf") == {first}


def test_in_the_hubs_cache_a_projector_goes_with_what_lies_below_it(put: Put, snapshot: Path) -> None:
    split = put("Q4_K_M/tiny-Q4_K_M-00001-of-00002.gguf", "Q4_K_M/tiny-Q4_K_M-00002-of-00002.gguf", at=snapshot)
    large = put("BF16/tiny-BF16.gguf", "mmproj-F16.gguf", at=snapshot)
    assert list(projector_folders(split)) == [split.parent, snapshot]
    assert [projector_beside(model) for model in (split, large)] == [snapshot / "mmproj-F16.gguf"] * 2
    assert models_with(snapshot / "mmproj-F16.gguf") == {split, large}
    nearer = put("BF16/mmproj-F32.gguf", at=snapshot)
    assert projector_beside(large) == nearer


def test_elsewhere_what_lies_above_or_below_is_of_no_concern(put: Put, tmp_path: Path) -> None:
    model = put("deep/tiny-Q4_0.gguf", "mmproj.gguf")
    assert list(projector_folders(model)) == [model.parent]
    assert projector_beside(model) is None
    assert models_with(tmp_path / "mmproj.gguf") == set()


def test_a_folder_is_looked_at_once_until_it_changes(put: Put, tmp_path: Path) -> None:
    models = [put(f"model{number}-Q4_0.gguf") for number in range(3)]
    long_ago = (1.0, 1.0)
    os.utime(tmp_path, long_ago)
    with patch.object(Path, "iterdir", autospec=True, side_effect=Path.iterdir) as look:
        assert [projector_beside(model) for model in models] == [None] * 3
        assert look.call_count == 1
        own = put("mmproj-model1.gguf")
        assert [projector_beside(model) for model in models] == [None, own, None]
