"""Paired machines over HTTP: listed, paired by a code, and revoked."""

import msgspec

from app.core.across import MachineMemory
from app.core.machines import ChangeMachine, MachineCode, MachineList, MachineStanding, PairMachine, WakeMachine
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable

routes = RouteTable()


@routes.add("GET", "/machines")
async def list_machines(call: AdminCall[None, NoQuery]) -> MachineList:
    """List the machines paired with this one, and say how this one is known to others."""
    return await call.machines.describe()


@routes.add("POST", "/machines/code")
async def show_code(call: AdminCall[None, NoQuery]) -> MachineCode:
    """Make a code by which one other machine can be paired within a few minutes."""
    return await call.machines.show_code()


@routes.add("DELETE", "/machines/code")
async def hide_code(call: AdminCall[None, NoQuery]) -> None:
    """Let no machine be paired by the code that was shown."""
    await call.machines.hide_code()


@routes.add("POST", "/machines")
async def pair_machine(call: AdminCall[PairMachine, NoQuery]) -> MachineStanding:
    """Pair with the machine that shows a code."""
    return await call.machines.pair(call.body)


@routes.add("POST", "/machines/wake")
async def wake_machine(call: AdminCall[WakeMachine, NoQuery]) -> None:
    """Send a paired machine the packet that wakes it from sleep; nobody can tell whether it came."""
    await call.machines.wake(call.body.name)


class MemoryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`model` is which one would lie there; without it, any GGUF file's layers, with llama.cpp."""

    model: str = ""


@routes.add("GET", "/machines/memory")
async def list_memory(call: AdminCall[None, MemoryQuery]) -> list[MachineMemory]:
    """Ask each paired machine what it lends this one now, and measure the way to it."""
    from app.gateway.across.spreading import list_memory as measure  # noqa: PLC0415 -- start-up must not pay for the advisor

    return await measure(call.services, call.query.model)


@routes.add("PATCH", "/machines/{name}")
async def change_machine(call: AdminCall[ChangeMachine, NoQuery]) -> MachineStanding:
    """Lend a paired machine memory, or no longer: then what it holds here ends at once."""
    return await call.machines.change(call.names["name"], call.body)


@routes.add("DELETE", "/machines/{name}")
async def revoke_machine(call: AdminCall[None, NoQuery]) -> None:
    """Trust a machine no longer; its connections end at once."""
    await call.machines.revoke(call.names["name"])
