"""The input of a kept response, page by page, and what is said of one that was deleted."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec

from app.core.errors import BadRequest
from app.gateway.dialects.responses.input_items import Item

_PAGE, _LARGEST_PAGE = 20, 100
"""OpenAI's own page sizes."""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the list."""

    data: list[msgspec.Raw]
    first_id: str | None
    last_id: str | None
    has_more: bool
    object: str = "list"


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """A response that is kept no more."""

    id: str
    object: str = "response"
    deleted: bool = True


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """How many tokens a request would have an engine read."""

    input_tokens: int
    object: str = "response.input_tokens"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a list."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=_LARGEST_PAGE)] = _PAGE
    order: Literal["asc", "desc"] = "desc"
    after: str | None = None


def wanted(query: Mapping[str, str]) -> Wanted:
    """Return what a query asks for. Raises BadRequest."""
    try:
        return msgspec.convert(dict(query), Wanted, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest(f"The query is not as expected: {error}.", code="invalid_value") from None


def page(items: Sequence[Item], part: Wanted) -> Page:
    """Return a part of the items. Raises BadRequest for an `after` that is not among them."""
    ordered = list(items if part.order == "asc" else reversed(items))
    begin = 0
    if part.after is not None:
        at = next((at for at, item in enumerate(ordered) if item.id == part.after), None)
        if at is None:
            raise BadRequest(f"There is no item {part.after[:80]!r} in this list.", code="item_not_found")
        begin = at + 1
    shown = ordered[begin : begin + part.limit]
    return Page(
        data=[item.value for item in shown],
        first_id=shown[0].id if shown else None,
        last_id=shown[-1].id if shown else None,
        has_more=begin + part.limit < len(ordered),
    )
