"""Models as Google lists them, page by page."""

from collections.abc import Sequence

import msgspec
from aiohttp import web

from app.core.capabilities import Capability
from app.core.errors import BadRequest
from app.core.models import ModelInfo
from app.gateway.dialects.form import utf8_json_reply
from app.gateway.dialects.google.wire import ModelPageQuery
from app.gateway.dialects.raw_fields import decode_query
from app.gateway.loading.capabilities import with_capabilities
from app.gateway.loading.launch import context_of, find_model, read_models
from app.gateway.services import SERVICES, Services

NAME = "models/"
"""Before every name."""
_LARGEST_PAGE = 1000
"""Google's own. A larger one is taken as this."""


class GoogleModelCard(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One model. Limits in tokens: what it keeps as it is loaded, or would be by the settings."""

    name: str
    display_name: str
    version: str
    supported_generation_methods: list[str]
    input_token_limit: int | None = None
    output_token_limit: int | None = None
    thinking: bool = False


class GoogleModelPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A part of the list, and what asks for the next."""

    models: list[GoogleModelCard]
    next_page_token: str = ""


async def list_models(request: web.Request) -> web.Response:
    """GET /v1beta/models."""
    services = request.app[SERVICES]
    usable = [model for model in await read_models(services) if not model.problem]
    return utf8_json_reply(model_page(await _cards(services, usable), decode_query(request.query, ModelPageQuery)))


async def show_model(request: web.Request) -> web.Response:
    """GET /v1beta/models/{id}."""
    services = request.app[SERVICES]
    return utf8_json_reply((await _cards(services, [await find_model(services, request.match_info["id"])]))[0])


async def _cards(services: Services, models: Sequence[ModelInfo]) -> list[GoogleModelCard]:
    statuses = {status.model: status for status in services.supervisor.list_statuses()}
    return [
        model_card(model, context_of(services.settings, services.model_settings, model, statuses.get(model.runs_as)))
        for model in await with_capabilities(services, models)
    ]


def model_card(model: ModelInfo, context: int | None) -> GoogleModelCard:
    """Return a model as Google's clients read it; `context` is what it keeps, in tokens."""
    writes, embeds = ["generateContent", "streamGenerateContent", "countTokens"], ["embedContent", "batchEmbedContents"]
    methods = (writes if Capability.CHAT in model.capabilities else []) + (
        embeds if Capability.EMBEDDING in model.capabilities else []
    )
    return GoogleModelCard(
        name=NAME + model.name,
        display_name=model.title,
        version="001",
        supported_generation_methods=methods,
        input_token_limit=context,
        output_token_limit=context,
        thinking=Capability.THINKING in model.capabilities,
    )


def model_page(cards: Sequence[GoogleModelCard], query: ModelPageQuery) -> GoogleModelPage:
    """Return the part of the list that was asked for. Raises BadRequest for a size or a token that is none."""
    if query.page_size < 1:
        raise BadRequest("`pageSize` is at least 1.", code="invalid_value")
    names = [card.name for card in cards]
    if query.page_token and query.page_token not in names:
        raise BadRequest("`pageToken` is not one of this list.", code="invalid_value")
    first = names.index(query.page_token) + 1 if query.page_token else 0
    page = cards[first : first + min(query.page_size, _LARGEST_PAGE)]
    is_last = first + len(page) >= len(cards)
    return GoogleModelPage(models=list(page), next_page_token="" if is_last or not page else page[-1].name)
