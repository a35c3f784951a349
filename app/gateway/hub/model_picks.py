"""Which models of the catalogue to run here: the best that people can talk to, and one beside it that is fast.

Quality comes first, as published indices rank it (docs/reference/models.md); one counts that fits, leaves room for a
conversation and writes fast enough. The sentence beside the best says what stands against the next better one.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from app.core import words
from app.core.hub import HubCard, HubPick, HubSearchHit, HubUse
from app.gateway.hub.named_models import FORMATS
from app.gateway.hub.repositories import FitContext
from app.hub.repositories.catalogue_entry import CatalogueEntry

_LEAST_CONTEXT = 4096
WRITING_USES = frozenset({HubUse.CHAT, HubUse.CODING, HubUse.VISION, HubUse.REASONING})
"""Uses for which it matters how fast tokens are written."""
_MUCH_FASTER = 1.5
"""So many times the best model's speed make a fast one worth naming."""
_GOOD_ENOUGH = 0.5
"""The share of the best model's rank below which speed is no consolation."""

_UNKNOWN_SPEED = (
    "How fast this computer's memory is, is not known, so none is recommended: what fits may be too slow to talk to. "
    "`roundhouse calibrate` measures it."
)


class _PickCandidate(NamedTuple):
    """An entry and what it takes here."""

    entry: CatalogueEntry
    card: HubCard
    rank: int

    @property
    def speed(self) -> float:
        """Tokens per second; 0 where nobody can tell."""
        return self.card.decode.tokens_per_second if self.card.decode else 0.0


def pick_models(
    entries: Sequence[CatalogueEntry], use: HubUse, ground: FitContext, least_speed: float
) -> list[HubPick]:
    """Return the models whose quality for a use is known: the best first, a fast one beside it, then by quality.

    A derived rank is recommended only where no model with a published one runs well.
    """
    from app.gateway.hub.card_fits import with_fit  # noqa: PLC0415 -- the gateway starts without the advisor

    least = least_speed if use in WRITING_USES else 0.0
    ranked = sorted(
        (entry for entry in entries if use.value in entry.ranks),
        key=lambda entry: (-entry.ranks[use.value], entry.active_parameters or entry.parameters),
    )
    judged = [
        _PickCandidate(entry, with_fit(catalogue_card(entry), ground), entry.ranks[use.value]) for entry in ranked
    ]
    good = [model for model in judged if _runs_well(model, least)]
    good.sort(key=lambda model: use.value in model.entry.derived)  # stable: a published rank comes first
    usable = [model for model in judged if model.card.fits and model not in good]
    rest = [model for model in judged if not model.card.fits]
    usable.sort(key=lambda model: -model.speed)
    fast = _find_fast(good, use) if least else None
    order = [*good[:1], *([fast] if fast else []), *(model for model in good[1:] if model is not fast), *usable, *rest]
    return list(_list_picks(order, use, _reasons(judged, good, usable, use, least), fast))


def _list_picks(
    order: Sequence[_PickCandidate], use: HubUse, reasons: tuple[str, str], fast: _PickCandidate | None
) -> Iterator[HubPick]:
    for place, model in enumerate(order):
        is_first = place == 0 and bool(reasons[0])
        yield HubPick(
            name=model.entry.name,
            title=model.entry.title,
            repository=model.card.repositories[0].repository,
            use=use,
            card=model.card if use in WRITING_USES else replace(model.card, decode=None),
            quality=model.rank,
            is_quality_derived=use.value in model.entry.derived,
            is_best=is_first and (use not in WRITING_USES or model.speed > 0),
            is_fast=model is fast,
            reason=reasons[0] if is_first else reasons[1] if model is fast else "",
        )


def catalogue_card(entry: CatalogueEntry) -> HubCard:
    """Return a card with the preferred repository of each format."""
    repositories = [
        HubSearchHit(repository=listed[0].partition("@")[0], formats=[kind], licence=entry.licence)
        for kind, listed in entry.repositories.items()
        if kind in FORMATS
    ]
    own = HubSearchHit(repository=entry.base, formats=["safetensors"], licence=entry.licence)
    return HubCard(
        base=entry.base,
        title=entry.title,
        repositories=repositories or [own],
        parameters=entry.parameters or None,
        active_parameters=entry.active_parameters or None,
        unchecked=entry.unchecked,
    )


def _runs_well(model: _PickCandidate, least: float) -> bool:
    card = model.card
    is_roomy = card.largest_context is None or card.largest_context >= _LEAST_CONTEXT
    return bool(card.fits) and is_roomy and model.speed >= least


def _find_fast(good: Sequence[_PickCandidate], use: HubUse) -> _PickCandidate | None:
    """Return the best of those that write much faster than the best of all; None where none is good enough."""
    if not good:
        return None
    best = good[0]
    return next(
        (
            model
            for model in good[1:]
            if model.speed >= _MUCH_FASTER * best.speed
            and model.rank >= _GOOD_ENOUGH * best.rank
            and use.value not in model.entry.derived
        ),
        None,
    )


def _reasons(
    judged: Sequence[_PickCandidate],
    good: Sequence[_PickCandidate],
    usable: Sequence[_PickCandidate],
    use: HubUse,
    least: float,
) -> tuple[str, str]:
    """Return the sentences beside the best and beside the fast one."""
    if not good:
        if usable and usable[0].speed:
            return f"The fastest for {use.value} that fits this machine.", ""
        return (_UNKNOWN_SPEED if usable else ""), ""
    speed = f", at about {words.format_rate(good[0].speed)}" if least else ""
    better = [model for model in judged if model.rank > good[0].rank and use.value not in model.entry.derived]
    sentence = f"The best for {use.value} in the catalogue that runs well on this machine{speed}."
    if use.value in good[0].entry.derived:
        sentence += " Its quality is derived from another size of it."
    fast = f"Writes faster, and is the best for {use.value} of those that write {_MUCH_FASTER} times as fast."
    return f"{sentence} {_explain_next(better[-1], least)}".strip() if better else sentence, fast


def _explain_next(model: _PickCandidate, least: float) -> str:
    """Return why the next better model is not the one to take."""
    card, title = model.card, model.entry.title
    if card.fits is False and card.memory_bytes:
        return f"The next better, {title}, needs {words.format_bytes(card.memory_bytes)}, more than there is."
    if card.fits and model.speed and model.speed < least:
        return f"The next better, {title}, would write {words.format_rate(model.speed)}."
    if card.fits and not model.speed:
        return f"How fast the next better, {title}, would be is not known."
    return f"The next better, {title}, leaves no room for a conversation." if card.fits else ""
