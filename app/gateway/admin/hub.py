"""The hub, as far as this machine is concerned: what is on it, what a repository offers, what is fetched from it."""

import asyncio

import msgspec

from app.core.downloads import Download, MoveDownload, Pull
from app.core.hub import (
    CatalogueInfo,
    CatalogueQuery,
    HubModel,
    HubPick,
    HubQuery,
    HubResults,
    HubTokenState,
    HubUse,
    SetHubToken,
    TokenPlace,
)
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable
from app.gateway.hub import catalogue_listing, model_pull, model_search, repositories
from app.hub.repositories.answers import HubMemory

routes = RouteTable()

_TOKEN_SENTENCES = {
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


@routes.add("GET", "/hub/model")
async def model(call: AdminCall[None, ModelQuery]) -> HubModel:
    """Say what a repository of the hub offers to this machine."""
    return await repositories.describe(call.services, call.query.name)


@routes.add("GET", "/hub/search")
async def search(call: AdminCall[None, HubQuery]) -> HubResults:
    """Look for models on the hub, one card per model."""
    return await model_search.find(call.services, call.query)


@routes.add("GET", "/hub/best")
async def best(call: AdminCall[None, BestQuery]) -> list[HubPick]:
    """Say which models of the catalogue suit this machine, the best first."""
    return await catalogue_listing.list_best(call.services, call.query.use)


@routes.add("GET", "/hub/catalogue")
async def catalogue(call: AdminCall[None, CatalogueQuery]) -> list[HubPick]:
    """List the catalogue's models for a use, or by words of their names, with what each takes on this machine."""
    return await catalogue_listing.list_catalogue(call.services, call.query)


@routes.add("POST", "/hub/catalogue")
async def refresh_catalogue(call: AdminCall[None, NoQuery]) -> CatalogueInfo:
    """Fetch the catalogue anew, if its signature holds."""
    content = await model_search.refresh(call.services.settings, call.services.hub)
    return CatalogueInfo(issued=content.issued, models=len(content.models))


@routes.add("POST", "/hub/catalogue/look")
async def look_at_catalogue(call: AdminCall[None, NoQuery]) -> None:
    """Remember that somebody looked at the catalogue: what it has now is no longer new."""
    await catalogue_listing.note_look(call.services.hub, call.services.settings)


@routes.add("GET", "/hub/token")
async def token(call: AdminCall[None, NoQuery]) -> HubTokenState:
    """Say whether there is a token for the hub."""
    return await _token_state(call.services.hub)


@routes.add("POST", "/hub/token")
async def set_token(call: AdminCall[SetHubToken, NoQuery]) -> HubTokenState:
    """Keep a token for the hub in the system's keyring."""
    await asyncio.to_thread(call.services.hub.token.store_token, call.body.token)
    return await _token_state(call.services.hub)


@routes.add("DELETE", "/hub/token")
async def forget_token(call: AdminCall[None, NoQuery]) -> None:
    """Forget the token for the hub that was kept."""
    await asyncio.to_thread(call.services.hub.token.forget_token)


async def _token_state(hub: HubMemory) -> HubTokenState:
    place = await asyncio.to_thread(hub.token.token_place)
    return HubTokenState(place=place, said=_TOKEN_SENTENCES[place])


@routes.add("GET", "/downloads")
async def list_downloads(call: AdminCall[None, NoQuery]) -> list[Download]:
    """List the downloads, in the order of the queue."""
    return call.downloads.all()


@routes.add("POST", "/downloads")
async def pull(call: AdminCall[Pull, NoQuery]) -> Download:
    """Download a model from the hub, or go on with it."""
    return await model_pull.pull(call.services, call.downloads, call.body)


@routes.add("POST", "/downloads/{id}/pause")
async def pause(call: AdminCall[None, NoQuery]) -> Download:
    """Stop a download and keep what came."""
    return call.downloads.pause(call.names["id"])


@routes.add("POST", "/downloads/{id}/resume")
async def resume(call: AdminCall[None, NoQuery]) -> Download:
    """Go on with a download."""
    return call.downloads.resume(call.names["id"])


@routes.add("POST", "/downloads/{id}/move")
async def move(call: AdminCall[MoveDownload, NoQuery]) -> list[Download]:
    """Give a download another place in the queue."""
    return call.downloads.move(call.names["id"], call.body.position)


@routes.add("DELETE", "/downloads/{id}")
async def remove(call: AdminCall[None, NoQuery]) -> None:
    """Take a download off the list, and delete what came of one that is not done."""
    await call.downloads.remove(call.names["id"])
