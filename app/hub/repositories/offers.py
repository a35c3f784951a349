"""All that a repository offers: the variants of the revision asked for, and those it keeps one branch each.

ExLlama's quantisations are published as branches named after their bit rate; the main branch often holds nothing but a
description. Blocks; call it from a thread.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec

from app.core.errors import NotFound, RoundhouseError
from app.core.model_facts import ModelFacts, bit_rate_name
from app.hub.repositories.repository import Repository, read_branches, read_repository
from app.hub.repositories.variants import ModelVariant, variants_of

USUAL = "Q4_K_M"
"""The balance of size and quality that most people take."""
_BIT_RATE = re.compile(
    r"(?:^|[-_])(\d{1,2}(?:[._]\d{1,2})?)(?:[-_ ]?bpw(?:[-_]?[a-z]+\d{1,2})*|(?:[-_]?h\d{1,2})?)$", re.IGNORECASE
)
"""A rate, and after it what else is quantised and how: "4.65bpw-h6", "SC_4.00bpw_H5_V6", "3.05bpw_h5_ng5",
"3.00bpw_mul1", "6hb-4.0bpw"; also a bare "6_5"."""
_EXL = re.compile(r"(?:^|[-_])(exl[23])(?:$|[-_])", re.IGNORECASE)
_MOST_BRANCHES = 40
"""Qwen3.8-27B has 25 in turboderp's repository."""
_AT_ONCE = 4


class RepositoryOffer(msgspec.Struct, frozen=True, kw_only=True):
    """A repository, and its branches that are variants of the same model. `facts` are those of one variant."""

    repository: Repository
    branches: list[Repository] = []
    read: str = ""
    """`variant_label` of the variant that `facts` were read of."""
    facts: ModelFacts | None = None

    def list_variants(self) -> list[ModelVariant]:
        """Return what can be run. Raises BadRequest (pickle_only) or NotFound (no_model_files)."""
        rates = list(_list_rates(self.branches))
        try:
            return [*variants_of(self.repository), *rates]
        except NotFound:
            if not rates:
                raise
            return rates

    def home_of(self, variant: ModelVariant) -> Repository:
        """Return the revision a variant lies on."""
        return next((branch for branch in self.branches if branch.revision == variant.revision), self.repository)


def read_offer(
    endpoint: str, name: str, *, revision: str = "", token: str = "", preferred_names: Collection[str] = ()
) -> RepositoryOffer:
    """Return what a repository offers; of a revision that was named, that alone. Raises as `read_repository` does.

    Of several branches of one bit rate a `preferred` one comes first, else the one with the shortest name: what is
    named after more than its rate, such as self-calibrated weights or a quantised vision tower, is a speciality.
    """
    repository = read_repository(endpoint, name, revision=revision, token=token)
    if revision or not _exl_format(repository):
        return RepositoryOffer(repository=repository)
    try:
        names = [branch for branch in read_branches(endpoint, name, token=token) if _rate_name(branch)]
    except RoundhouseError:  # what is known already can still be shown
        names = []
    names.sort(key=lambda branch: (branch not in preferred_names, len(branch)))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        read = pool.map(lambda branch: _read_branch(endpoint, name, branch, token), names[:_MOST_BRANCHES])
        return RepositoryOffer(repository=repository, branches=[answer for answer in read if answer is not None])


def facts_of(offer: RepositoryOffer, endpoint: str, token: str = "") -> tuple[RepositoryOffer, dict[str, ModelFacts]]:
    """Return facts by `variant_label`: of one variant as its header says, of the others as far as they follow from it.

    The offer returned has what was read, so that another time nothing need be fetched. Raises as reading does.
    """
    from app.hub.facts.remote import read_remote_facts  # noqa: PLC0415 -- the gateway starts without it

    offered_variants = offer.list_variants()
    read = (
        next((variant for variant in offered_variants if variant_label(variant) == offer.read), None)
        if offer.facts
        else None
    )
    if read is None:
        read = _middle_variant(offered_variants)
        known_facts = read_remote_facts(
            offer.repository.name,
            filename=read.first if read.format == "gguf" else "",
            revision=offer.home_of(read).commit,
            endpoint=endpoint,
            token=token,
        )
        offer = msgspec.structs.replace(offer, read=variant_label(read), facts=known_facts)
    assert offer.facts is not None  # noqa: S101 -- for the type checker: read just now, or before
    return offer, _derive_facts(offer.facts, read, offered_variants)


def variant_label(variant: ModelVariant) -> str:
    """Return what tells a variant from the others of its repository."""
    return f"{variant.format}:{variant.quantization}:{variant.first}:{variant.revision}"


def _derive_facts(
    known_facts: ModelFacts, read: ModelVariant, offered_variants: list[ModelVariant]
) -> dict[str, ModelFacts]:
    from app.hub.shapes import requantize  # noqa: PLC0415 -- as above

    by_label = {variant_label(read): msgspec.structs.replace(known_facts, file_bytes=read.size_bytes)}
    if read.revision:
        by_label[variant_label(read)] = msgspec.structs.replace(
            by_label[variant_label(read)], quantization=read.quantization
        )
    for other in offered_variants:
        if other is read or not other.quantization or other.format != read.format:
            continue
        try:
            changed_facts = requantize(known_facts, _plain_quantization(other))
        except RoundhouseError:  # a mixture nobody wrote down: it can still be named
            continue
        by_label[variant_label(other)] = msgspec.structs.replace(
            changed_facts, quantization=other.quantization, file_bytes=other.size_bytes
        )
    return by_label


def _middle_variant(offered_variants: list[ModelVariant]) -> ModelVariant:
    """Return the variant to read: the usual one, or one that every reader knows."""
    ggufs = [variant for variant in offered_variants if variant.format == "gguf"]
    return next(
        (variant for variant in ggufs if variant.quantization == USUAL), ggufs[-1] if ggufs else offered_variants[0]
    )


def _exl_format(repository: Repository) -> str:
    match = _EXL.search(repository.name)
    return match[1].lower() if match else next((tag for tag in ("exl3", "exl2") if tag in repository.tags), "")


def _read_branch(endpoint: str, name: str, branch: str, token: str) -> Repository | None:
    try:
        return read_repository(endpoint, name, revision=branch, token=token)
    except RoundhouseError:  # one that cannot be read is not offered
        return None


def _list_rates(branches: Iterable[Repository]) -> Iterator[ModelVariant]:
    """Yield what branches hold, the most bits first; of one rate the first is called by it, others by their branch."""
    by_rate: dict[str, list[ModelVariant]] = defaultdict(list)
    for branch in branches:
        for variant in _branch_variants(branch):
            by_rate[_rate_name(branch.revision)].append(variant)
    for rate in sorted(by_rate, key=lambda name: -float(name.removesuffix("bpw"))):
        first, *others = by_rate[rate]
        yield msgspec.structs.replace(first, quantization=rate)
        yield from (msgspec.structs.replace(other, quantization=other.revision) for other in others)


def _branch_variants(branch: Repository) -> Iterator[ModelVariant]:
    try:
        variants = variants_of(branch)
    except RoundhouseError:
        return
    for variant in variants:
        yield msgspec.structs.replace(variant, format=_exl_format(branch) or "exl2", revision=branch.revision)


def _rate_name(branch: str) -> str:
    """Return the bit rate that a branch is named after, "4.0bpw"; empty where it is named after none."""
    match = _BIT_RATE.search(branch)
    return bit_rate_name(float(match[1].replace("_", "."))) if match else ""


def _plain_quantization(variant: ModelVariant) -> str:
    """Return what its weights are stored in where the publisher's name for it says more."""
    return _rate_name(variant.revision) or variant.quantization.removeprefix("UD-")
