"""The hub, as far as this machine is concerned: what is on it, what a repository offers, what the catalogue advises."""

import asyncio

import msgspec

from app.core.hub import (
    CatalogueInfo,
    HubModel,
    HubPick,
    HubQuery,
    HubResults,
    HubTokenState,
    HubUse,
    SetHubToken,
    TokenPlace,
)
from app.gateway.admin.calls import Call, NoQuery
from app.gateway.hub import repositories, searching
from app.gateway.services import Services

_SAID = {
    None: "There is no token for the hub.",
    TokenPlace.ENVIRONMENT: "The token is the one in the environment (HF_TOKEN).",
    TokenPlace.KEYRING: "The token is in this system's keyring.",
    TokenPlace.FILE: "The token is in a file that only you can read: this system has no keyring.",
    TokenPlace.HUGGING_FACE: "The token is the one that `hf auth login` keeps.",
}


class ModelQuery(msgspec.Struct, frozen=True):
    """Which repository: its name or address, as somebody would type it."""

    name: str


class BestQuery(msgspec.Struct, frozen=True):
    """What a model is wanted for."""

    use: HubUse = HubUse.CHAT


async def model(call: Call[None, ModelQuery]) -> HubModel:
    """GET /hub/model."""
    return await repositories.describe(call.services, call.query.name)


async def search(call: Call[None, HubQuery]) -> HubResults:
    """GET /hub/search."""
    return await searching.find(call.services, call.query)


async def best(call: Call[None, BestQuery]) -> list[HubPick]:
    """GET /hub/best."""
    return await searching.best(call.services, call.query.use)


async def refresh_catalogue(call: Call[None, NoQuery]) -> CatalogueInfo:
    """POST /hub/catalogue."""
    content = await searching.refresh(call.services)
    return CatalogueInfo(issued=content.issued, models=len(content.models))


async def token(call: Call[None, NoQuery]) -> HubTokenState:
    """GET /hub/token."""
    return await _token_state(call.services)


async def set_token(call: Call[SetHubToken, NoQuery]) -> HubTokenState:
    """POST /hub/token."""
    await asyncio.to_thread(call.services.hub.token.keep, call.body.token)
    return await _token_state(call.services)


async def forget_token(call: Call[None, NoQuery]) -> None:
    """DELETE /hub/token."""
    await asyncio.to_thread(call.services.hub.token.forget)


async def _token_state(services: Services) -> HubTokenState:
    place = await asyncio.to_thread(services.hub.token.place)
    return HubTokenState(place=place, said=_SAID[place])
