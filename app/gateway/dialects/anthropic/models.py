"""Models as Anthropic lists them, page by page."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from app.core.errors import BadRequest, quote_value
from app.core.models import ModelInfo
from app.gateway.loading.requested_model import PICKER_PREFIX

_CLAUDE_CODE = ("claude-cli/", "claude-code/")
_PAGE, _LARGEST_PAGE = 20, 1000
"""Anthropic's own page sizes."""


class AnthropicModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """One model. `created_at` is RFC 3339; `max_input_tokens` is the context it was trained for."""

    id: str
    display_name: str
    created_at: str
    max_input_tokens: int | None = None
    max_tokens: int | None = None
    capabilities: None = None
    lifecycle: str = "active"
    type: str = "model"


class AnthropicModelPage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the list."""

    data: list[AnthropicModelCard]
    has_more: bool
    first_id: str | None
    last_id: str | None


class AnthropicPageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which part: `limit` models, after or before the one of that name."""

    limit: int = _PAGE
    after_id: str | None = None
    before_id: str | None = None


def model_card(model: ModelInfo) -> AnthropicModelCard:
    """Return a model as Anthropic's clients read it."""
    return AnthropicModelCard(
        id=model.name,
        display_name=model.title,
        created_at=datetime.fromtimestamp(int(model.modified_at), tz=UTC).isoformat().replace("+00:00", "Z"),
        max_input_tokens=model.trained_context,
        max_tokens=model.trained_context,
    )


def with_picker_names(models: Sequence[ModelInfo], user_agent: str) -> list[ModelInfo]:
    """Return the models, for Claude Code each that chats under a name of Anthropic's kind: its picker takes no other.

    It asks for the list at its start where `CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY` is set.
    """
    if not user_agent.startswith(_CLAUDE_CODE):
        return list(models)
    return [
        msgspec.structs.replace(model, name=f"{PICKER_PREFIX}{model.name}")
        if model.chats and not model.name.startswith(PICKER_PREFIX)
        else model
        for model in models
    ]


def model_page(models: Sequence[ModelInfo], query: AnthropicPageQuery) -> AnthropicModelPage:
    """Return the part of the list that was asked for. Raises BadRequest for a size Anthropic refuses, or no model."""
    if not 1 <= query.limit <= _LARGEST_PAGE:
        raise BadRequest(f"limit: must be between 1 and {_LARGEST_PAGE}", code="invalid_value")
    cards = [model_card(model) for model in models]
    names = [entry.id for entry in cards]
    for field, name in (("before_id", query.before_id), ("after_id", query.after_id)):
        if name and name not in names:
            raise BadRequest(f"{field}: there is no model {quote_value(name)}", code="invalid_value")
    if query.before_id in names:
        rest = cards[: names.index(query.before_id)]
        selection, has_more = rest[-query.limit :], len(rest) > query.limit
    else:
        rest = cards[names.index(query.after_id) + 1 :] if query.after_id in names else cards
        selection, has_more = rest[: query.limit], len(rest) > query.limit
    return AnthropicModelPage(
        data=selection,
        has_more=has_more,
        first_id=selection[0].id if selection else None,
        last_id=selection[-1].id if selection else None,
    )
