"""The sampling that a model's makers recommend, from `generation_config.json` and what other formats have in its place.

Only what says how tokens are chosen is read, as vLLM reads it: where generation ends is the engines' own matter.
Figures that no sampler takes are passed over, so that a careless file cannot keep a model from answering.
"""

import contextlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

import msgspec

from app.core.connections import ConnectionReason, Purpose
from app.core.errors import NotFound, RoundhouseError
from app.core.hub import origin_of
from app.core.models import ModelSampling
from app.hub.gguf.header import read_header
from app.hub.library.naming import GENERATION_CONFIG
from app.hub.repositories.ranges import ReadBudget, RemoteHost
from app.hub.repositories.repository import REPOSITORY
from app.hub.sources import open_file

_MAX_BYTES = 1 << 20
"""Such files have a few hundred bytes."""
_GENAI = "genai_config.json"
_HF = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "repeat_penalty",
}
_GGUF = {
    "general.sampling.temp": "temperature",
    "general.sampling.top_p": "top_p",
    "general.sampling.top_k": "top_k",
    "general.sampling.min_p": "min_p",
    "general.sampling.penalty_repeat": "repeat_penalty",
}
_DIGITS = 6
"""GGUF keeps 32-bit numbers: 0.95 is read as 0.949999988."""


class SamplingRecommendation(msgspec.Struct, frozen=True, kw_only=True):
    """What a model recommends, and where that is written."""

    sampling: ModelSampling = ModelSampling()
    source: str = ""
    is_unchecked: bool = False
    """Whether it is the catalogue's, and nobody compared it with what the makers publish."""


NOTHING = SamplingRecommendation()


def read_recommendation(path: Path) -> SamplingRecommendation:
    """Return what the files of a model recommend; nothing where they cannot be read. Blocks."""
    try:
        return _of_folder(path) if path.is_dir() else _of_file(path)
    except (RoundhouseError, OSError):  # whoever loads it says what is wrong
        return NOTHING


def sampling_in(values: Mapping[str, object], names: Mapping[str, str]) -> ModelSampling:
    """Return the sampling among values, `names` being theirs and ours. What is out of bounds is left out."""
    values_by_name: dict[str, object] = {}
    for theirs, ours in names.items():
        value = values.get(theirs)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        number = int(value) if ours == "top_k" else round(float(value), _DIGITS)
        if _is_possible(ours, number):
            values_by_name[ours] = number
    return msgspec.convert(values_by_name, ModelSampling)


def fetch_recommendation(endpoint: str, repository: str, *, token: str = "") -> SamplingRecommendation:
    """Return what a repository of a hub recommends. Blocks. Raises what the network raises, NotFound without a file."""
    if not REPOSITORY.fullmatch(repository):
        return NOTHING
    remote = RemoteHost(
        endpoint, Purpose(why=ConnectionReason.MODEL, about=repository), token=token, budget=ReadBudget()
    )
    text = remote.read_small_file(f"{remote.endpoint}/{quote(repository)}/resolve/main/{GENERATION_CONFIG}", _MAX_BYTES)
    return _build_recommendation(sampling_in(_parse_object(text), _HF), repository)


def _is_possible(name: str, value: float) -> bool:
    try:
        msgspec.convert({name: value}, ModelSampling)
    except (msgspec.ValidationError, OverflowError):
        return False
    return True


def _of_folder(folder: Path) -> SamplingRecommendation:
    sampling = sampling_in(_object_in(folder / GENERATION_CONFIG), _HF)
    if sampling != ModelSampling():
        return _build_recommendation(sampling, GENERATION_CONFIG)
    search = _object_in(folder / _GENAI).get("search")
    # Its figures are those of the exporter, and count only where it chooses among words at all.
    if not isinstance(search, dict) or search.get("do_sample") is not True:
        return NOTHING
    return _build_recommendation(sampling_in(search, _HF), _GENAI)


def _of_file(path: Path) -> SamplingRecommendation:
    status = path.stat()
    recommendation = _of_header(path, (status.st_size, status.st_mtime_ns))
    if recommendation != NOTHING or origin_of(path) is None:
        return recommendation
    return _build_recommendation(sampling_in(_object_in(path.parent / GENERATION_CONFIG), _HF), GENERATION_CONFIG)


def _object_in(file: Path) -> Mapping[str, object]:
    """Return the object in a small file; an empty one for anything else."""
    with contextlib.suppress(NotFound), open_file(file) as source:
        return _parse_object(source.read_at(0, min(source.size, _MAX_BYTES)))
    return {}


def _parse_object(text: bytes) -> Mapping[str, object]:
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


@lru_cache(maxsize=64)
def _of_header(path: Path, _stamp: tuple[int, int]) -> SamplingRecommendation:
    with open_file(path) as source:
        values = read_header(source, with_tensors=False).values
    return _build_recommendation(sampling_in(values, _GGUF), path.name)


def _build_recommendation(sampling: ModelSampling, source: str) -> SamplingRecommendation:
    return NOTHING if sampling == ModelSampling() else SamplingRecommendation(sampling=sampling, source=source)
