"""The access keys: made, listed, revoked and brought back."""

from app.core.keys import KeyInfo, MadeKey, NewKey
from app.gateway.admin.calls import Call, Endpoint, NoQuery


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


ENDPOINTS = (
    Endpoint(method="GET", path="/keys", handler=list_keys, summary="List the access keys", reply=list[KeyInfo]),
    Endpoint(
        method="POST",
        path="/keys",
        handler=make_key,
        summary="Make an access key; this answer alone holds it",
        body=NewKey,
        reply=MadeKey,
    ),
    Endpoint(
        method="DELETE",
        path="/keys/{name}",
        handler=revoke_key,
        summary="Revoke an access key at once",
        status=204,
    ),
    Endpoint(
        method="POST",
        path="/keys/{name}/restore",
        handler=restore_key,
        summary="Bring back a key revoked since the gateway started",
        reply=KeyInfo,
    ),
)
