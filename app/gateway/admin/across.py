"""Models over several machines: this end of the tunnel, the machines that are known, and how a model would lie."""

import asyncio

from app.core.across import AcrossPlan, AcrossRequest, TunnelMember, TunnelState
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable

routes = RouteTable()


@routes.add("GET", "/tunnel")
async def read_tunnel(call: AdminCall[None, NoQuery]) -> TunnelState:
    """Show this machine's certificate, and what the machines that are known answer now."""
    from app.gateway.across.spreading import describe_tunnel  # noqa: PLC0415 -- start-up must not pay for the advisor

    return await describe_tunnel(call.services)


@routes.add("POST", "/tunnel/members")
async def add_member(call: AdminCall[TunnelMember, NoQuery]) -> TunnelMember:
    """Know another machine by its certificate, in place of the one of that name."""
    await asyncio.to_thread(call.services.spreads.identity.add_member, call.body)
    return call.body


@routes.add("DELETE", "/tunnel/members/{name}")
async def remove_member(call: AdminCall[None, NoQuery]) -> None:
    """Forget a machine: it is not called and not let in any more."""
    await asyncio.to_thread(call.services.spreads.identity.remove_member, call.names["name"])


@routes.add("POST", "/plan/across")
async def plan_across(call: AdminCall[AcrossRequest, NoQuery]) -> AcrossPlan:
    """Say how a model would lie over several machines, with the arithmetic; nothing is changed."""
    from app.gateway.across.spreading import plan_across as make_plan  # noqa: PLC0415 -- as above

    return await make_plan(call.services, call.body)
