"""What a model's files say of where texts begin and end, which ExLlama does not read, or not all of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from engines.exllama.vocabulary import read_end_tokens, reads_begin_token


@pytest.mark.parametrize(
    ("config", "generation", "ends"),
    [
        ({"eos_token_id": [128001, 128008, 128009]}, {}, {128001, 128008, 128009}),
        ({"eos_token_id": 1}, {"eos_token_id": [1, 106]}, {1, 106}),
        ({}, {}, set()),
        ({"eos_token_id": None}, {"eos_token_id": 0}, {0}),
    ],
)
def test_ends_are_read_from_both_files(
    config: dict[str, Any], generation: dict[str, Any], ends: set[int], tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")
    assert read_end_tokens(tmp_path) == ends


BEGINS = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]}
PLAIN = {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}]}
BYTES = {"type": "ByteLevel"}


@pytest.mark.parametrize(
    ("config_json", "processor", "begins"),
    [
        ({"add_bos_token": True}, None, True),
        ({"add_bos_token": False}, BEGINS, False),
        ({}, BEGINS, True),
        ({"add_bos_token": None}, {"type": "Sequence", "processors": [BYTES, BEGINS]}, True),
        ({}, PLAIN, False),
        ({}, BYTES, False),
        ({}, None, False),
    ],
)
def test_a_text_begins_as_the_model_was_trained(
    config_json: dict[str, Any], processor: dict[str, Any] | None, begins: object, tmp_path: Path
) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config_json), encoding="utf-8")
    (tmp_path / "tokenizer.json").write_text(json.dumps({"post_processor": processor}), encoding="utf-8")
    assert reads_begin_token(tmp_path) is begins
