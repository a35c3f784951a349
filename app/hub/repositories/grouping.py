"""Repositories that hold the same model put together: what was quantised from the same base is one model.

A repository says what it was made from, and how. Where a quantised one does not, its name does: publishers add the
format and the quantisation to the name they took. A finetune or a merge is a model of its own.
"""

import re
from collections.abc import Mapping, Sequence

from app.core.hub import HubCard, HubFound
from app.hub.repositories.search import Listed

_FARTHEST = 5
"""Steps from a quantised model to what it was made from: one, or two where somebody quantised an unpacked copy."""
_FORM = re.compile(
    r"[-_. ](?:i1|gguf|mlx|exl[23]|awq|gptq|fp8|nvfp4|mxfp4|bnb|openvino|ov|onnx|mlc|qat|quantized|dynamic|unsloth"
    r"|imatrix|int[48]|w[48]a(?:16|8)|\d(?:\.\d+)?bpw|h\d|\d-?bit|g\d+|bf16|f16|fp16|dwq|q\d[a-z0-9_]*)$",
    re.IGNORECASE,
)
_ORIGINAL = frozenset({"safetensors"})


def cards(listed: Sequence[Listed]) -> list[HubCard]:
    """Return one card per model, in the order in which the models were found first."""
    by_name = {one.found.repository: one for one in listed}
    bases = {one.found.repository: _origin(one, by_name) for one in listed}
    known = {folded(base): base for base in bases.values() if base}
    groups: dict[str, list[HubFound]] = {}
    titles: dict[str, str] = {}
    for one in listed:
        base = bases[one.found.repository] or known.get(folded(one.found.repository), one.found.repository)
        key = folded(base) if base == one.found.repository and not _is_original(one.found) else base.casefold()
        groups.setdefault(key, []).append(one.found)
        titles.setdefault(key, base)
    return [_card(titles[key], found) for key, found in groups.items()]


def folded(repository: str) -> str:
    """Return what is left of a repository's name without publisher, format and quantisation, for comparing."""
    from app.hub.shapes import split_name  # noqa: PLC0415 -- the gateway starts without it

    name = repository.rpartition("/")[2]
    while (shorter := _FORM.sub("", split_name(name)[0])) != name and shorter:
        name = shorter
    return name.casefold()


def _is_original(found: HubFound) -> bool:
    return bool(_ORIGINAL & set(found.formats))


def _origin(one: Listed, by_name: Mapping[str, Listed]) -> str:
    """Return the repository a model's weights are from; empty where a quantised one does not say."""
    base, at = "", one
    for _step in range(_FARTHEST):
        if not at.base or at.base == at.found.repository or not _is_same_model(at):
            break
        base = at.base
        if base not in by_name:
            return base
        at = by_name[base]
    return base or (one.found.repository if _is_original(one.found) else "")


def _is_same_model(one: Listed) -> bool:
    if one.relation:
        return one.relation == "quantized"
    return folded(one.base) == folded(one.found.repository)


def _card(base: str, found: Sequence[HubFound]) -> HubCard:
    ordered = sorted(found, key=lambda one: (bool(one.problem), -one.downloads, one.repository))
    original = next((one for one in ordered if one.repository == base), None)
    known = [one for one in ([original] if original else []) + ordered if one.parameters]
    return HubCard(
        base=base,
        title=_title(base),
        repositories=ordered,
        parameters=known[0].parameters if known else None,
        downloads=sum(one.downloads for one in ordered),
    )


def _title(base: str) -> str:
    """Return the model's name as its page has it, without what only says how it is packed."""
    name = base.rpartition("/")[2]
    while (shorter := _FORM.sub("", name)) != name and shorter:
        name = shorter
    return name
