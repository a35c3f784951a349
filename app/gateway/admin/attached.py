"""Endpoints of other people's making behind this one: attach, list, detach."""

from app.core.attached import AttachEndpoint, CorrectAttached
from app.core.models import ModelInfo
from app.gateway.admin.calls import Call, Endpoint, NoQuery
from app.gateway.library import attached_endpoints


async def list_attached(call: Call[None, NoQuery]) -> list[ModelInfo]:
    """GET /attached."""
    return await attached_endpoints.attached(call.services)


async def attach(call: Call[AttachEndpoint, NoQuery]) -> list[ModelInfo]:
    """POST /attached."""
    return await attached_endpoints.attach(call.services, call.body)


async def correct(call: Call[CorrectAttached, NoQuery]) -> ModelInfo:
    """PATCH /attached/{name}."""
    return await attached_endpoints.correct(call.services, call.names["name"], call.body)


async def detach(call: Call[None, NoQuery]) -> None:
    """DELETE /attached/{name}."""
    await attached_endpoints.detach(call.services, call.names["name"])


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/attached",
        handler=list_attached,
        summary="List the models of attached endpoints",
        reply=list[ModelInfo],
    ),
    Endpoint(
        method="POST",
        path="/attached",
        handler=attach,
        summary="Put the models of an endpoint that runs elsewhere behind this one",
        body=AttachEndpoint,
        reply=list[ModelInfo],
    ),
    Endpoint(
        method="PATCH",
        path="/attached/{name}",
        handler=correct,
        summary="Say what an attached model can do and how much it takes, and ask its endpoint anew for the rest",
        body=CorrectAttached,
        reply=ModelInfo,
    ),
    Endpoint(
        method="DELETE",
        path="/attached/{name}",
        handler=detach,
        summary="Take an attached model off the list and forget its key",
        status=204,
    ),
)
