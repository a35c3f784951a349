"""Repositories that hold the same model put together: what was quantised from the same base is one model.

A repository says what it was made from, and how. Where a quantised one does not, its name does: publishers add the
format and the quantisation to the name they took. A finetune or a merge is a model of its own.
"""

import re
from collections.abc import Mapping, Sequence

from app.core.hub import HubCard, HubSearchHit
from app.hub.repositories.search import RepositoryHit

_FARTHEST = 5
"""Steps from a quantised model to what it was made from: one, or two where somebody quantised an unpacked copy."""
_FORM = re.compile(
    r"[-_. ](?:i1|gguf|mlx|exl[23]|awq|gptq|fp8|nvfp4|mxfp4|bnb|openvino|ov|onnx|mlc|qat|quantized|dynamic|unsloth"
    r"|imatrix|int[48]|w[48]a(?:16|8)|\d(?:\.\d+)?bpw|h\d|\d-?bit|g\d+|bf16|f16|fp16|dwq|q\d[a-z0-9_]*)$",
    re.IGNORECASE,
)
_ORIGINAL = frozenset({"safetensors"})


def group_cards(hits: Sequence[RepositoryHit]) -> list[HubCard]:
    """Return one card per model, in the order in which the models were found first."""
    by_name = {hit.found.repository: hit for hit in hits}
    bases = {hit.found.repository: _find_origin(hit, by_name) for hit in hits}
    known = {fold_repository(base): base for base in bases.values() if base}
    groups: dict[str, list[HubSearchHit]] = {}
    titles: dict[str, str] = {}
    for hit in hits:
        base = bases[hit.found.repository] or known.get(fold_repository(hit.found.repository), hit.found.repository)
        key = fold_repository(base) if base == hit.found.repository and not _is_original(hit.found) else base.casefold()
        groups.setdefault(key, []).append(hit.found)
        titles.setdefault(key, base)
    return [_build_card(titles[key], repositories) for key, repositories in groups.items()]


def fold_repository(repository: str) -> str:
    """Return what is left of a repository's name without publisher, format and quantisation, for comparing."""
    from app.hub.shapes import split_name  # noqa: PLC0415 -- the gateway starts without it

    name = repository.rpartition("/")[2]
    while (shorter := _FORM.sub("", split_name(name)[0])) != name and shorter:
        name = shorter
    return name.casefold()


def _is_original(repository: HubSearchHit) -> bool:
    return bool(_ORIGINAL & set(repository.formats))


def _find_origin(hit: RepositoryHit, by_name: Mapping[str, RepositoryHit]) -> str:
    """Return the repository a model's weights are from; empty where a quantised one does not say."""
    base, at = "", hit
    for _step in range(_FARTHEST):
        if not at.base or at.base == at.found.repository or not _is_same_model(at):
            break
        base = at.base
        if base not in by_name:
            return base
        at = by_name[base]
    return base or (hit.found.repository if _is_original(hit.found) else "")


def _is_same_model(hit: RepositoryHit) -> bool:
    if hit.relation:
        return hit.relation == "quantized"
    return fold_repository(hit.base) == fold_repository(hit.found.repository)


def _build_card(base: str, repositories: Sequence[HubSearchHit]) -> HubCard:
    ordered = sorted(
        repositories, key=lambda repository: (bool(repository.problem), -repository.downloads, repository.repository)
    )
    original = next((repository for repository in ordered if repository.repository == base), None)
    known = [repository for repository in ([original] if original else []) + ordered if repository.parameters]
    return HubCard(
        base=base,
        title=_card_title(base),
        repositories=ordered,
        parameters=known[0].parameters if known else None,
        downloads=sum(repository.downloads for repository in ordered),
    )


def _card_title(base: str) -> str:
    """Return the model's name as its page has it, without what only says how it is packed."""
    name = base.rpartition("/")[2]
    while (shorter := _FORM.sub("", name)) != name and shorter:
        name = shorter
    return name
