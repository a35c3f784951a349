"""Endpoints of other people's making behind this one: attach, list, detach."""

from app.core.attached import AttachEndpoint, CorrectAttached
from app.core.models import ModelInfo
from app.gateway.admin.calls import Call, NoQuery, Routes
from app.gateway.library import attached_endpoints

routes = Routes()


@routes.add("GET", "/attached")
async def list_attached(call: Call[None, NoQuery]) -> list[ModelInfo]:
    """List the models of attached endpoints."""
    return await attached_endpoints.attached(call.services)


@routes.add("POST", "/attached")
async def attach(call: Call[AttachEndpoint, NoQuery]) -> list[ModelInfo]:
    """Put the models of an endpoint that runs elsewhere behind this one."""
    return await attached_endpoints.attach(call.services, call.body)


@routes.add("PATCH", "/attached/{name}")
async def correct(call: Call[CorrectAttached, NoQuery]) -> ModelInfo:
    """Say what an attached model can do and how much it takes, and ask its endpoint anew for the rest."""
    return await attached_endpoints.correct(call.services, call.names["name"], call.body)


@routes.add("DELETE", "/attached/{name}")
async def detach(call: Call[None, NoQuery]) -> None:
    """Take an attached model off the list and forget its key."""
    await attached_endpoints.detach(call.services, call.names["name"])
