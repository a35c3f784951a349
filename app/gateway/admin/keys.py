"""The access keys: made, listed, revoked and brought back."""

from app.core.keys import KeyInfo, MadeKey, NewKey
from app.gateway.admin.calls import Call, NoQuery, Routes

routes = Routes()


@routes.add("GET", "/keys")
async def list_keys(call: Call[None, NoQuery]) -> list[KeyInfo]:
    """List the access keys."""
    return call.services.keys.listed()


@routes.add("POST", "/keys")
async def make_key(call: Call[NewKey, NoQuery]) -> MadeKey:
    """Make an access key; this answer alone holds it."""
    return call.services.keys.make(call.body)


@routes.add("DELETE", "/keys/{name}")
async def revoke_key(call: Call[None, NoQuery]) -> None:
    """Revoke an access key at once."""
    call.services.keys.revoke(call.names["name"])


@routes.add("POST", "/keys/{name}/restore")
async def restore_key(call: Call[None, NoQuery]) -> KeyInfo:
    """Bring back a key revoked since the gateway started."""
    return call.services.keys.restore(call.names["name"])
