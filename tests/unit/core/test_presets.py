"""Presets: their variables, and files of them."""

import json
from pathlib import Path

import msgspec
import pytest

from app.core.chats import Sampling
from app.core.errors import BadRequest
from app.core.presets import MOST_PRESETS, ChatPreset, read_presets, write_presets
from app.core.thinking import ThinkingLevel

FIXTURES = Path(__file__).parents[2] / "fixtures" / "presets"
TRIP = ChatPreset(name="Trip", system_prompt="{{ city }} {{x y}} {{1a}}", prompt="{{days}} in {{city}}, {city}")


def test_variables_come_once_and_in_order() -> None:
    assert TRIP.variables == ["city", "days"]
    filled_preset = TRIP.fill_in({"city": "{{days}}"})
    assert (filled_preset.system_prompt, filled_preset.prompt) == (
        "{{days}} {{x y}} {{1a}}",
        "{{days}} in {{days}}, {city}",
    )


def test_a_file_of_presets_is_read_as_it_was_written() -> None:
    presets = [TRIP, ChatPreset(name="Ü", sampling=Sampling(thinking=ThinkingLevel.OFF, stops=["x"]))]
    assert read_presets(write_presets(presets)) == (presets, ())
    assert read_presets(b'{"name": "One", "prompt": "Hi"}').presets == [ChatPreset(name="One", prompt="Hi")]


def test_a_preset_of_lm_studio_is_what_it_means_here() -> None:
    (preset,), left_out = read_presets((FIXTURES / "boilers.preset.json").read_bytes())
    assert (preset.name, preset.system_prompt) == ("Boiler inspector", "You inspect boilers.\nAnswer in bar.")
    assert json.loads(preset.sampling.json_schema)["required"] == ["bar"]
    assert msgspec.structs.replace(preset.sampling, json_schema="") == Sampling(
        temperature=0.2, top_k=20, top_p=0.9, repeat_penalty=1.05, max_tokens=400, stops=["END"]
    )
    assert left_out == ("contextOverflowPolicy", "llama.cpuThreads", "llm.load.contextLength")


def test_a_preset_of_an_early_lm_studio_is_read_too() -> None:
    (preset,), left_out = read_presets((FIXTURES / "old.preset.json").read_bytes())
    assert preset == ChatPreset(
        name="Shunter",
        system_prompt="You shunt wagons.",
        sampling=Sampling(
            temperature=0.8, top_k=40, top_p=0.95, min_p=0.05, repeat_penalty=1.1, stops=["### Instruction:"]
        ),
    )
    assert left_out == ("n_threads", "input_prefix", "input_suffix")


def test_what_is_odd_in_a_preset_of_lm_studio_is_left_out() -> None:
    settings = {
        "temperature": "hot",
        "topKSampling": True,
        "minPSampling": {"checked": True, "value": None},
        "maxPredictedTokens": -1,
        "stopStrings": ["x" * 300, "", 7, *"abcdefghijklmnopqrst"],
        "structured": {"type": "json", "jsonSchema": {"type": "no such type"}},
        "systemPrompt": ["not", "a", "text"],
    }
    fields = [{"key": f"llm.prediction.{key}", "value": value} for key, value in settings.items()]
    odd = {"operation": {"fields": [*fields, 3, {"key": 4}, {}]}, "load": 5, "name": f" {'x' * 200}\n "}
    (preset,), left_out = read_presets(json.dumps(odd).encode())
    assert preset == ChatPreset(name="x" * 80, sampling=Sampling(stops=list("abcdefghijklmnop")))
    assert set(left_out) == {"temperature", "topKSampling", "stopStrings", "structured", "systemPrompt"}
    (nameless,), _ = read_presets(b'{"operation": {"fields": []}, "identifier": "@local:boilers"}')
    assert nameless.name == "boilers"
    with pytest.raises(BadRequest, match="too long"):
        read_presets(json.dumps({"inference_params": {"pre_prompt": "x" * 300_000}}).encode())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"inference_params": {"temp": 1e999}}', "not JSON"),
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
    merged_sampling = Sampling(temperature=0.9, json_schema="{}").fill_gaps_from(base)
    assert merged_sampling == Sampling(temperature=0.9, top_k=5, json_schema="{}", thinking=ThinkingLevel.HIGH)
