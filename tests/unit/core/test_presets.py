"""Presets: their variables, and files of them."""

import json

import pytest

from app.core.chats import Sampling
from app.core.errors import BadRequest
from app.core.presets import MOST_PRESETS, ChatPreset, read_presets, write_presets
from app.core.thinking import ThinkingLevel

TRIP = ChatPreset(name="Trip", system_prompt="{{ city }} {{x y}} {{1a}}", prompt="{{days}} in {{city}}, {city}")


def test_variables_come_once_and_in_order() -> None:
    assert TRIP.variables == ["city", "days"]
    filled = TRIP.fill_in({"city": "{{days}}"})
    assert (filled.system_prompt, filled.prompt) == ("{{days}} {{x y}} {{1a}}", "{{days}} in {{days}}, {city}")


def test_a_file_of_presets_is_read_as_it_was_written() -> None:
    presets = [TRIP, ChatPreset(name="Ü", sampling=Sampling(thinking=ThinkingLevel.OFF, stops=["x"]))]
    assert read_presets(write_presets(presets)) == presets
    assert read_presets(b'{"name": "One", "prompt": "Hi"}') == [ChatPreset(name="One", prompt="Hi")]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "no presets"),
        (b'{"presets": []}', "another format"),
        (b'{"format": "roundhouse-presets", "presets": {}}', "up to 1,000 presets"),
        (json.dumps({"format": "roundhouse-presets", "presets": [{}] * (MOST_PRESETS + 1)}).encode(), "up to 1,000"),
        (b'{"format": "roundhouse-presets", "presets": [1]}', "Preset 1 is wrong"),
        (b'{"name": "x", "extra": 1}', "Preset 1 ('x') is wrong: Object contains unknown field `extra`"),
        (b'{"name": ""}', "Preset 1 ('') is wrong"),
        (b'{"name": "a\\nb"}', "is wrong"),
        (b'{"name": "x", "sampling": {"grammar": "root ::= y"}}', "line 1: there is no rule 'y'"),
    ],
)
def test_what_is_no_file_of_presets_is_told(content: bytes, words: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        read_presets(content)
    assert words in str(refusal.value)


def test_own_sampling_goes_before_that_of_a_preset() -> None:
    base = Sampling(temperature=0.1, top_k=5, grammar="g", thinking=ThinkingLevel.HIGH)
    merged = Sampling(temperature=0.9, json_schema="{}").fill_gaps_from(base)
    assert merged == Sampling(temperature=0.9, top_k=5, json_schema="{}", thinking=ThinkingLevel.HIGH)
