"""Fleets over HTTP: started and stopped, and their replicas added, drained, put back, removed and started anew."""

from app.core.fleets import AddReplica, Fleet, RollFleet, StartFleet
from app.core.models import ModelInfo
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable

routes = RouteTable()


@routes.add("GET", "/fleets")
async def list_fleets(call: AdminCall[None, NoQuery]) -> list[Fleet]:
    """List the models that several replicas serve alike, and say how each of these stands."""
    return await call.fleets.list_fleets()


@routes.add("POST", "/fleets")
async def start_fleet(call: AdminCall[StartFleet, NoQuery]) -> ModelInfo:
    """Serve one model over the replicas of a fleet file, with a router in front of them.

    Engines on this computer are started in the background; `GET /fleets` says how far they are.
    """
    return await call.fleets.start_fleet(call.body)


@routes.add("POST", "/fleets/{name}/start")
async def start_fleet_again(call: AdminCall[None, NoQuery]) -> Fleet:
    """Start a fleet that was stopped."""
    return await call.fleets.start_again(call.names["name"])


@routes.add("POST", "/fleets/{name}/stop")
async def stop_fleet(call: AdminCall[None, NoQuery]) -> Fleet:
    """Stop a fleet's router and engines once the answers in progress are done."""
    return await call.fleets.stop_fleet(call.names["name"])


@routes.add("POST", "/fleets/{name}/roll")
async def roll_fleet(call: AdminCall[RollFleet, NoQuery]) -> Fleet:
    """Start a fleet's engines anew one after the other, with other weights if some are named."""
    return await call.fleets.roll_fleet(call.names["name"], call.body)


@routes.add("POST", "/fleets/{name}/replicas")
async def add_replica(call: AdminCall[AddReplica, NoQuery]) -> Fleet:
    """Add a replica at an address, or an engine on this computer."""
    return await call.fleets.add_replica(call.names["name"], call.body)


@routes.add("POST", "/fleets/{name}/replicas/{replica}/drain")
async def drain_replica(call: AdminCall[None, NoQuery]) -> Fleet:
    """Give a replica no new requests; an engine on this computer ends once its answers are done."""
    return await call.fleets.drain_replica(call.names["name"], call.names["replica"])


@routes.add("POST", "/fleets/{name}/replicas/{replica}/resume")
async def resume_replica(call: AdminCall[None, NoQuery]) -> Fleet:
    """Give a replica that was drained requests again."""
    return await call.fleets.put_back(call.names["name"], call.names["replica"])


@routes.add("DELETE", "/fleets/{name}/replicas/{replica}")
async def remove_replica(call: AdminCall[None, NoQuery]) -> Fleet:
    """Take a replica out of its fleet for good."""
    return await call.fleets.remove_replica(call.names["name"], call.names["replica"])
