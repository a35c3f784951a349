"""The hub, as far as this machine is concerned."""

import msgspec

from app.core.hub import HubModel
from app.gateway import hub_models
from app.gateway.admin.calls import Call


class ModelQuery(msgspec.Struct, frozen=True):
    """Which repository: its name or address, as somebody would type it."""

    name: str


async def model(call: Call[None, ModelQuery]) -> HubModel:
    """GET /hub/model."""
    return await hub_models.describe(call.services, call.query.name)
