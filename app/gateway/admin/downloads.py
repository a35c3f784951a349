"""Downloads: asked for, paused, gone on with, moved in the queue, taken off the list."""

from app.core.downloads import Download, MoveDownload, Pull
from app.gateway.admin.calls import Call, NoQuery, Routes
from app.gateway.hub import pulling

routes = Routes()


@routes.add("GET", "/downloads")
async def list_downloads(call: Call[None, NoQuery]) -> list[Download]:
    """List the downloads, in the order of the queue."""
    return call.downloads.all()


@routes.add("POST", "/downloads")
async def pull(call: Call[Pull, NoQuery]) -> Download:
    """Download a model from the hub, or go on with it."""
    return await pulling.pull(call.services, call.downloads, call.body)


@routes.add("POST", "/downloads/{id}/pause")
async def pause(call: Call[None, NoQuery]) -> Download:
    """Stop a download and keep what came."""
    return call.downloads.pause(call.names["id"])


@routes.add("POST", "/downloads/{id}/resume")
async def resume(call: Call[None, NoQuery]) -> Download:
    """Go on with a download."""
    return call.downloads.resume(call.names["id"])


@routes.add("POST", "/downloads/{id}/move")
async def move(call: Call[MoveDownload, NoQuery]) -> list[Download]:
    """Give a download another place in the queue."""
    return call.downloads.move(call.names["id"], call.body.position)


@routes.add("DELETE", "/downloads/{id}")
async def remove(call: Call[None, NoQuery]) -> None:
    """Take a download off the list, and delete what came of one that is not done."""
    await call.downloads.remove(call.names["id"])
