"""Endpoints of other people's making behind this one: attach, list, detach."""

from app.core.attached import AttachEndpoint
from app.core.models import ModelInfo
from app.gateway import attaching
from app.gateway.admin.calls import Call, NoQuery


async def list_attached(call: Call[None, NoQuery]) -> list[ModelInfo]:
    """GET /attached."""
    return await attaching.attached(call.services)


async def attach(call: Call[AttachEndpoint, NoQuery]) -> list[ModelInfo]:
    """POST /attached."""
    return await attaching.attach(call.services, call.body)


async def detach(call: Call[None, NoQuery]) -> None:
    """DELETE /attached/{name}."""
    await attaching.detach(call.services, call.names["name"])
