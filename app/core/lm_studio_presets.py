"""Presets of LM Studio, `NAME.preset.json`: its present form, a list of settings by their keys, and that of 0.2.

What means the same here is taken over. The rest (load settings, tools, processor threads) is named.
"""

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import NamedTuple

import msgspec

from app.core.chats import LONGEST_STOP, MOST_STOPS, Sampling
from app.core.errors import BadRequest

_PREFIX = "llm.prediction."
_NUMBERS: Mapping[str, tuple[str, type]] = {
    "temperature": ("temperature", float),
    "topKSampling": ("top_k", int),
    "topPSampling": ("top_p", float),
    "minPSampling": ("min_p", float),
    "repeatPenalty": ("repeat_penalty", float),
    "maxPredictedTokens": ("max_tokens", int),
    "seed": ("seed", int),
}
"""By the ends of its keys: the field of `Sampling`."""
_OLD_NUMBERS: Mapping[str, tuple[str, type]] = {
    "temp": ("temperature", float),
    "top_k": ("top_k", int),
    "top_p": ("top_p", float),
    "min_p": ("min_p", float),
    "repeat_penalty": ("repeat_penalty", float),
    "n_predict": ("max_tokens", int),
    "seed": ("seed", int),
}
_NO_LIMIT = -1
"""Of tokens, and of seeds: none is chosen."""


class ForeignPreset(NamedTuple):
    """What a preset of another program says, and the names of its settings that mean nothing here."""

    name: str
    system_prompt: str
    sampling: Sampling
    left_out: tuple[str, ...]


def read_lm_studio_preset(fields: Mapping[str, object]) -> ForeignPreset | None:
    """Return the preset; None for what is none of LM Studio's."""
    operation, old = fields.get("operation"), fields.get("inference_params")
    if isinstance(operation, dict) and isinstance(operation.get("fields"), list):
        name = fields.get("name") or str(fields.get("identifier") or "").rpartition(":")[2]
        reader = _PresetReader()
        for key, value in (*_settings_of(operation), *_settings_of(fields.get("load"))):
            reader.take_setting(key, value)
    elif isinstance(old, dict):
        name = fields.get("name")
        reader = _PresetReader()
        for key, value in old.items():
            reader.take_old_setting(key, value)
    else:
        return None
    return ForeignPreset(name if isinstance(name, str) else "", *reader.finish())


def _settings_of(section: object) -> Iterator[tuple[str, object]]:
    """Yield the keys and values of a section, those that are switched off left out."""
    entries = section.get("fields") if isinstance(section, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or not isinstance(entry.get("key"), str):
            continue
        value = entry.get("value")
        if isinstance(value, dict) and isinstance(value.get("checked"), bool):
            if not value["checked"]:
                continue
            value = value.get("value")
        yield entry["key"], value


class _PresetReader:
    """Gathers what settings come to."""

    def __init__(self) -> None:
        self._system_prompt = ""
        self._sampling: dict[str, object] = {}
        self._left_out: list[str] = []

    def take_setting(self, key: str, value: object) -> None:
        """Take a setting of the present form."""
        name = key.removeprefix(_PREFIX)
        if name == "systemPrompt" and isinstance(value, str):
            self._system_prompt = value
        elif name == "stopStrings" and isinstance(value, list):
            self._take_stops(name, value)
        elif name == "structured" and isinstance(value, dict):
            self._take_schema(name, value)
        elif name in _NUMBERS:
            self._take_number(name, *_NUMBERS[name], value)
        else:
            self._left_out.append(name)

    def take_old_setting(self, key: str, value: object) -> None:
        """Take a setting of the form of 0.2, which also says how a model's prompts begin and end."""
        if key == "pre_prompt" and isinstance(value, str):
            self._system_prompt = value
        elif key == "antiprompt" and isinstance(value, list):
            self._take_stops(key, value)
        elif key in _OLD_NUMBERS:
            self._take_number(key, *_OLD_NUMBERS[key], value)
        else:
            self._left_out.append(key)

    def finish(self) -> tuple[str, Sampling, tuple[str, ...]]:
        """Return system prompt, sampling, and what was left out."""
        return self._system_prompt, msgspec.convert(self._sampling, Sampling), tuple(dict.fromkeys(self._left_out))

    def _take_number(self, name: str, field: str, kind: type, value: object) -> None:
        if value is None or (field in {"max_tokens", "seed"} and value == _NO_LIMIT):
            return
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            self._left_out.append(name)
            return
        self._sampling[field] = kind(value)

    def _take_stops(self, name: str, values: list[object]) -> None:
        stops = [stop for stop in values if isinstance(stop, str) and 0 < len(stop) <= LONGEST_STOP][:MOST_STOPS]
        if len(stops) < len(values):
            self._left_out.append(name)
        self._sampling["stops"] = stops

    def _take_schema(self, name: str, value: Mapping[str, object]) -> None:
        """Take the form of answers, if it is one that answers can be held to here."""
        schema = value.get("jsonSchema")
        if value.get("type") in {None, "none"}:
            return
        text = schema if isinstance(schema, str) else json.dumps(schema, ensure_ascii=False, indent=2)
        try:
            Sampling(json_schema=text).check_forms()
        except BadRequest:
            self._left_out.append(name)
            return
        self._sampling["json_schema"] = text
