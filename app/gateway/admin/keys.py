"""The access keys: made, listed, revoked and brought back."""

from app.core.keys import KeyInfo, MadeKey, NewKey
from app.gateway.admin.calls import Call, NoQuery


async def list_keys(call: Call[None, NoQuery]) -> list[KeyInfo]:
    """GET /keys."""
    return call.services.keys.listed()


async def make_key(call: Call[NewKey, NoQuery]) -> MadeKey:
    """POST /keys."""
    return call.services.keys.make(call.body)


async def revoke_key(call: Call[None, NoQuery]) -> None:
    """DELETE /keys/{name}."""
    call.services.keys.revoke(call.names["name"])


async def restore_key(call: Call[None, NoQuery]) -> KeyInfo:
    """POST /keys/{name}/restore."""
    return call.services.keys.restore(call.names["name"])
