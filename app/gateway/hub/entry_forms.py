"""In which formats and quantisations a model of the catalogue can be had, as its repositories say, and its facts."""

import math
import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from app.advisor.plans.quantisations import FULL, USUAL, nominal_rate
from app.core.errors import RoundhouseError
from app.core.identity import IdentityKey
from app.core.model_facts import ModelFacts, bit_rate_name
from app.gateway.advising.advice import DYNAMIC, FORMS, NATIVE_FORMS
from app.gateway.advising.model_facts import find_well_known
from app.gateway.hub.hub_plans import USUAL_QUANTIZATIONS
from app.gateway.hub.named_models import FORMATS
from app.hub.repositories.catalogue_entry import CatalogueEntry
from app.hub.repositories.catalogue_facts import catalogue_facts, download_bytes, with_head

_RATE = re.compile(r"(\d(?:\.\d{1,2})?)[-_ ]?bpw", re.IGNORECASE)
_BITS = re.compile(r"(\d)-?bit", re.IGNORECASE)
_SURELY_LESS = 0.9
"""A form weighs more than this share of what its name says: names leave out scales, and count what lies elsewhere."""
_SURELY_FITS = 2.0
"""With so many times what its name says there is room for scales, a conversation and what an engine takes."""


class FormBounds(NamedTuple):
    """Which forms may be planned on a machine; each takes a while to make, so others are not made.

    Of the `formats` that an engine there reads; none that is larger than all memory, `most_bytes`; and none below the
    usual bits where those are certain to fit the least memory, `least_bytes`.
    """

    formats: Collection[str]
    most_bytes: float
    least_bytes: float


EVERY_FORM = FormBounds(FORMATS, math.inf, 0)


def list_forms(entry: CatalogueEntry, bounds: FormBounds = EVERY_FORM) -> Sequence[ModelFacts]:
    """Return a model in the forms that it can be had in; empty where nobody knows what it is made of."""
    key = IdentityKey(entry)
    forms = (_build_form(key, kind, name) for kind, name in _list_within(entry, bounds))
    return [facts for facts in forms if facts is not None]


def _list_within(entry: CatalogueEntry, bounds: FormBounds) -> Iterator[tuple[str, str]]:
    """Yield formats and quantisations within bounds, and of what is larger than all memory the smallest."""
    elements = entry.parameters - entry.table_parameters - entry.draft_parameters
    least_rate = USUAL if _SURELY_FITS * elements * USUAL / 8 <= bounds.least_bytes else 0.0
    by_format: dict[str, list[tuple[float, str]]] = {}
    for kind, name in _list_quantizations(entry):
        if kind in bounds.formats:
            by_format.setdefault(kind, []).append((nominal_rate(name, USUAL), name))
    for kind, named_repositories in by_format.items():
        least_rate_there = min(least_rate, max(rate for rate, _ in named_repositories))
        smallest = min(named_repositories)
        for rate, name in named_repositories:
            is_too_large = _SURELY_LESS * elements * rate / 8 > bounds.most_bytes
            if (rate >= least_rate_there and not is_too_large) or (is_too_large and (rate, name) == smallest):
                yield kind, name


def estimate_download(entry: CatalogueEntry, facts: ModelFacts) -> int:
    """Return what a form weighs in the preferred repository, with what it carries beside the text model."""
    preferred_repository = entry.repositories.get(facts.format, [""])[0].partition("@")[0]
    return download_bytes(entry, facts, has_vision=True, has_draft=preferred_repository in entry.draft_repositories)


@lru_cache(maxsize=4096)
def _build_form(key: IdentityKey[CatalogueEntry], kind: str, quantization: str) -> ModelFacts | None:
    entry = key.value
    try:
        facts = catalogue_facts(entry, quantization, format=kind)
    except RoundhouseError:  # this quantisation is none of this architecture's
        return None
    return with_head(entry, facts) if facts is not None else None


def _list_quantizations(entry: CatalogueEntry) -> Iterator[tuple[str, str]]:
    well_known = find_well_known(entry.base)
    native = NATIVE_FORMS.get(well_known.native if well_known else "")
    for kind, repositories in entry.repositories.items():
        if kind not in FORMATS:
            continue
        named_rates = entry.list_rates(kind) or _rates_in_names(kind, repositories)
        usual = native.get(kind, ()) if native else _usual_rates(kind, repositories)
        yield from ((kind, quantization) for quantization in named_rates or usual)
    if "safetensors" not in entry.repositories and not native:
        yield "safetensors", "BF16"


def _rates_in_names(kind: str, repositories: Sequence[str]) -> list[str]:
    """Return the rates that branches and names state, the best first."""
    if kind == "exl3":
        rates = {float(match[1]) for name in repositories for match in _RATE.finditer(name)}
        return [bit_rate_name(rate) for rate in sorted(rates, reverse=True)]
    if kind == "mlx":
        bits = {int(match[1]) for name in repositories for match in _BITS.finditer(name)}
        return [f"{count}bit" for count in sorted(bits, reverse=True)]
    return []


def _usual_rates(kind: str, repositories: Sequence[str]) -> Sequence[str]:
    """Return what is usually published: of the rates that lose nothing only the smallest, the only one planned."""
    every = FORMS.get(kind) or (USUAL_QUANTIZATIONS[kind],)
    usual = [name for at, name in enumerate(every) if at == len(every) - 1 or nominal_rate(every[at + 1], 0.0) < FULL]
    is_dynamic = kind == "gguf" and any(name.startswith("unsloth/") for name in repositories)
    return [*usual, *DYNAMIC] if is_dynamic else usual
