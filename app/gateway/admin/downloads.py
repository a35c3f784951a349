"""Downloads: asked for, paused, gone on with, moved in the queue, taken off the list."""

from app.core.downloads import Download, MoveDownload, Pull
from app.gateway.admin.calls import Call, NoQuery
from app.gateway.hub import pulling


async def list_downloads(call: Call[None, NoQuery]) -> list[Download]:
    """GET /downloads."""
    return call.downloads.all()


async def pull(call: Call[Pull, NoQuery]) -> Download:
    """POST /downloads."""
    return await pulling.pull(call.services, call.downloads, call.body)


async def pause(call: Call[None, NoQuery]) -> Download:
    """POST /downloads/{id}/pause."""
    return call.downloads.pause(call.names["id"])


async def resume(call: Call[None, NoQuery]) -> Download:
    """POST /downloads/{id}/resume."""
    return call.downloads.resume(call.names["id"])


async def move(call: Call[MoveDownload, NoQuery]) -> list[Download]:
    """POST /downloads/{id}/move."""
    return call.downloads.move(call.names["id"], call.body.position)


async def remove(call: Call[None, NoQuery]) -> None:
    """DELETE /downloads/{id}."""
    await call.downloads.remove(call.names["id"])
