"""Ask the hub about every repository of the catalogue: `python -m app.hub.repositories.catalogue_check [REPORT]`.

What differs from what the catalogue says goes to the report, one line each: a repository that is gone, gated or cannot
be asked about, one without files of its format, weights of a size that is no quantisation of that model, and a branch
that is not there, is named otherwise, or weighs what its bit rate does not. It is run by whoever issues a new catalogue
(`make catalogue-check`), with HF_ENDPOINT and HF_TOKEN as everywhere; nothing is changed by itself.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from app.config.environment import environment_hub_token, hub_endpoint, hugging_face_token
from app.core import words
from app.core.connections import ConnectionReason
from app.core.errors import NotFound, RoundhouseError, Unauthorized
from app.hub.repositories.catalogue import SHIPPED, parse_catalogue
from app.hub.repositories.catalogue_entry import CatalogueEntry
from app.hub.repositories.catalogue_facts import catalogue_facts, download_bytes
from app.hub.repositories.offers import read_offer
from app.hub.repositories.repository import read_repository
from app.hub.repositories.variants import ModelVariant, variants_of

_AT_ONCE = 4
_LEAST_BITS, _MOST_BITS = 0.8, 40.0
"""Bits per parameter that weights have: 1-bit models below, F32 with what is stored beside it above."""
_FEWEST_PARAMETERS = 100_000_000
"""Tiny models have more in tables than in weights, so that their sizes say nothing."""
_OWN_FILES = frozenset({"gguf", "openvino", "onnx-genai"})
"""Formats that files tell by their names; all others are safetensors."""
_SIZE_TOLERANCE = 0.15
"""How far a branch may be from what the catalogue takes it to weigh: heads and towers differ, rates by more."""
_BROWSER_FORMAT = "onnx"
"""Made for browsers: listed as a fact, and never loaded here."""


class CatalogueDifference(NamedTuple):
    """What the hub says of a repository otherwise than the catalogue."""

    title: str
    format: str
    place: str
    sentence: str

    @property
    def line(self) -> str:
        """The line of the report."""
        return f"{self.title} | {self.format} | {self.place} | {self.sentence}"


class _HubPlace(NamedTuple):
    """Where the hub is asked, and with what."""

    endpoint: str
    token: str


def check_entries(entries: Iterable[CatalogueEntry], endpoint: str, token: str = "") -> Iterator[CatalogueDifference]:
    """Yield what differs, in the order of the list. Blocks: it asks about hundreds of repositories, a few at once."""
    hub = _HubPlace(endpoint, token)
    positions = [
        (entry, kind, place) for entry in entries for kind, places in entry.repositories.items() for place in places
    ]

    def compare_place(item: tuple[CatalogueEntry, str, str]) -> list[CatalogueDifference]:
        return list(_list_differences(*item, hub))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for differences in pool.map(compare_place, positions):
            yield from differences


def _list_differences(entry: CatalogueEntry, kind: str, place: str, hub: _HubPlace) -> Iterator[CatalogueDifference]:
    name, _, branch = place.partition("@")
    try:
        repository = read_repository(
            hub.endpoint, name, revision=branch, token=hub.token, why=ConnectionReason.CATALOGUE
        )
        if kind.startswith("exl") and not branch:
            variants = read_offer(
                hub.endpoint, name, token=hub.token, preferred_names=entry.list_branches(name)
            ).list_variants()
        else:
            variants = [] if kind == _BROWSER_FORMAT else variants_of(repository)
    except (NotFound, Unauthorized) as error:
        yield CatalogueDifference(entry.title, kind, place, f"is not there: {error}")
        return
    except RoundhouseError as error:
        yield CatalogueDifference(entry.title, kind, place, f"could not be checked: {error}")
        return
    if repository.gated:
        yield CatalogueDifference(entry.title, kind, place, "is gated: its terms must be accepted first")
        return
    if kind != _BROWSER_FORMAT and (sentence := _compare_files(entry, kind, variants)):
        yield CatalogueDifference(entry.title, kind, place, sentence)
    for rate, known_branch in entry.branches.get(place, {}).items():
        if sentence := _compare_branch(entry, kind, rate, known_branch, variants):
            yield CatalogueDifference(entry.title, kind, f"{name}@{known_branch or rate}", sentence)


def _compare_branch(entry: CatalogueEntry, kind: str, rate: str, branch: str, variants: Sequence[ModelVariant]) -> str:
    """Return what is otherwise of one bit rate: its branch, or what it weighs."""
    there = [variant for variant in variants if (variant.revision or "main") == branch]
    if not branch:
        there = [variant for variant in variants if variant.quantization == rate]
        if there:
            return f"is the branch {there[0].revision}, which the catalogue does not name"
    if not there:
        known_branches = ", ".join(variant.revision for variant in variants if variant.revision)
        return (
            f"is not there; the branches with weights are {known_branches}"
            if known_branches
            else "is not there, nor any other branch"
        )
    facts = catalogue_facts(entry, rate, format=kind)
    if facts is None:
        return ""
    expected_bytes = download_bytes(entry, facts, has_vision=True, has_draft=True)
    weight = there[0].size_bytes
    if abs(weight - expected_bytes) <= _SIZE_TOLERANCE * expected_bytes:
        return ""
    return f"weighs {words.format_bytes(weight)}, where {words.format_bytes(expected_bytes)} are expected of {rate}"


def _compare_files(entry: CatalogueEntry, kind: str, variants: Sequence[ModelVariant]) -> str:
    fitting_files = [
        variant
        for variant in variants
        if variant.format == kind or (variant.format == "safetensors" and kind not in _OWN_FILES)
    ]
    if not fitting_files:
        return f"has nothing in {kind}, but {', '.join(dict.fromkeys(variant.format for variant in variants))}"
    if entry.parameters < _FEWEST_PARAMETERS:
        return ""
    bits = [variant.size_bytes * 8 / entry.parameters for variant in fitting_files]
    if max(bits) < _LEAST_BITS or min(bits) > _MOST_BITS:
        return f"has {max(bits):.2g} bits for each parameter that the catalogue counts"
    return ""


def main(arguments: Sequence[str]) -> int:
    """Write the report, to the terminal or a file; 1 if anything differs."""
    entries = parse_catalogue(SHIPPED.read_bytes()).models
    token = environment_hub_token() or hugging_face_token()
    lines = []
    for difference in check_entries(entries, hub_endpoint(), token):
        lines.append(difference.line)
        sys.stdout.write(f"{difference.line}\n")
        sys.stdout.flush()
    if arguments:
        Path(arguments[0]).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    sys.stderr.write(f"{len(entries)} models; {len(lines)} repositories differ from the catalogue.\n")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
