"""Models as Anthropic lists them, page by page."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from app.core.errors import BadRequest
from app.core.models import ModelInfo

_PAGE, _LARGEST_PAGE = 20, 1000
"""Anthropic's own page sizes."""


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """One model. `created_at` is RFC 3339; `max_input_tokens` is the context it was trained for."""

    id: str
    display_name: str
    created_at: str
    max_input_tokens: int | None = None
    max_tokens: int | None = None
    capabilities: None = None
    lifecycle: str = "active"
    type: str = "model"


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the list."""

    data: list[ModelCard]
    has_more: bool
    first_id: str | None
    last_id: str | None


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which part: `limit` models, after or before the one of that name."""

    limit: int = _PAGE
    after_id: str | None = None
    before_id: str | None = None


def card(model: ModelInfo) -> ModelCard:
    """Return a model as Anthropic's clients read it."""
    return ModelCard(
        id=model.name,
        display_name=model.title,
        created_at=datetime.fromtimestamp(int(model.modified_at), tz=UTC).isoformat().replace("+00:00", "Z"),
        max_input_tokens=model.trained_context,
        max_tokens=model.trained_context,
    )


def page(models: Sequence[ModelInfo], wanted: Wanted) -> Page:
    """Return the part of the list that was asked for. Raises BadRequest for a size Anthropic refuses, or no model."""
    if not 1 <= wanted.limit <= _LARGEST_PAGE:
        raise BadRequest(f"limit: must be between 1 and {_LARGEST_PAGE}", code="invalid_value")
    cards = [card(model) for model in models]
    names = [one.id for one in cards]
    for field, name in (("before_id", wanted.before_id), ("after_id", wanted.after_id)):
        if name and name not in names:
            raise BadRequest(f"{field}: there is no model {name!r}", code="invalid_value")
    if wanted.before_id in names:
        rest = cards[: names.index(wanted.before_id)]
        shown, has_more = rest[-wanted.limit :], len(rest) > wanted.limit
    else:
        rest = cards[names.index(wanted.after_id) + 1 :] if wanted.after_id in names else cards
        shown, has_more = rest[: wanted.limit], len(rest) > wanted.limit
    return Page(
        data=shown,
        has_more=has_more,
        first_id=shown[0].id if shown else None,
        last_id=shown[-1].id if shown else None,
    )
