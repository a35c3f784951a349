"""Models over several machines: how a model would lie."""

from app.core.across import AcrossPlan, AcrossRequest
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable

routes = RouteTable()


@routes.add("POST", "/plan/across")
async def plan_across(call: AdminCall[AcrossRequest, NoQuery]) -> AcrossPlan:
    """Say how a model would lie over several machines, with the arithmetic; nothing is changed."""
    from app.gateway.across.spreading import plan_across as make_plan  # noqa: PLC0415 -- start-up must not pay for the advisor

    return await make_plan(call.services, call.body)
