"""Ollama's way of downloading: lines that say how far it is. What is here is pulled already, at once and offline.

A client that goes away pauses the download it began; pulling again goes on with it, as clients of Ollama expect.
"""

from contextlib import aclosing
from hashlib import sha256

from aiohttp import web

from app.core.downloads import Download, DownloadState, Pull
from app.core.errors import Bug, ErrorBody, NotFound, RoundhouseError, Unavailable
from app.gateway.canonical.events import failed
from app.gateway.dialects.ollama.models import find, read_document, required
from app.gateway.dialects.ollama.stream import error_line, line
from app.gateway.dialects.ollama.wire import NamedRequest, Progress, PullProgress
from app.gateway.dialects.replies import NDJSON_HEADERS, utf8_json_reply
from app.gateway.entry.access import check_may_change
from app.gateway.hub.downloads import DOWNLOADS
from app.gateway.hub.pulling import pull as begin_pull
from app.gateway.services import SERVICES

_SHOWN_DIGITS = 12
_UNDER_WAY = frozenset({DownloadState.QUEUED, DownloadState.RUNNING})


def add_routes(app: web.Application) -> None:
    """Add the route."""
    app.router.add_post("/api/pull", pull)


async def pull(request: web.Request) -> web.StreamResponse:
    """POST /api/pull."""
    sent = await read_document(request, NamedRequest)
    required(sent.named)
    if await _is_here(request, sent.named):
        return _already(sent)
    check_may_change(request)
    if sent.stream is False:
        return await _whole(request, sent.named)
    return await _streamed(request, sent.named)


async def _is_here(request: web.Request, named: str) -> bool:
    try:
        await find(request.app[SERVICES], named)
    except NotFound:
        return False
    return True


def _already(sent: NamedRequest) -> web.Response:
    done = Progress("success")
    if sent.stream is False:
        return utf8_json_reply(done)
    return web.Response(body=line(Progress("pulling manifest")) + line(done), headers=NDJSON_HEADERS)


async def _whole(request: web.Request, named: str) -> web.Response:
    begun = await _begun(request, named)
    ended = await _followed(request, begun, None)
    if ended.state is not DownloadState.DONE:
        raise _unavailable(ended)
    return utf8_json_reply(Progress("success"))


async def _streamed(request: web.Request, named: str) -> web.StreamResponse:
    response = web.StreamResponse(headers=NDJSON_HEADERS)
    await response.prepare(request)
    await response.write(line(Progress("pulling manifest")))
    try:
        ended = await _followed(request, await _begun(request, named), response)
        await response.write(_last_lines(ended))
    except RoundhouseError as error:
        await response.write(error_line(failed(error)))
    await response.write_eof()
    return response


async def _begun(request: web.Request, named: str) -> Download:
    return await begin_pull(request.app[SERVICES], request.app[DOWNLOADS], Pull(model=named))


async def _followed(request: web.Request, begun: Download, response: web.StreamResponse | None) -> Download:
    """Tell how far it is until it is over; pause it if whoever asked for it leaves."""
    downloads, last = request.app[DOWNLOADS], begun
    try:
        async with aclosing(downloads.follow(begun.id)) as states:
            async for last in states:
                if response is not None and last.state is DownloadState.RUNNING:
                    await response.write(line(_progress(last)))
    finally:
        if begun.id in {one.id for one in downloads.all() if one.state in _UNDER_WAY}:
            downloads.pause(begun.id)
    return last


def _progress(shown: Download) -> PullProgress:
    """Ollama names layers by their digest: ours is of what is fetched, and stays the same to the end."""
    digest = sha256(f"{shown.commit}:{','.join(shown.files)}".encode()).hexdigest()
    return PullProgress(
        status=f"pulling {digest[:_SHOWN_DIGITS]}",
        digest=f"sha256:{digest}",
        total=shown.total_bytes,
        completed=shown.present_bytes,
    )


def _last_lines(ended: Download) -> bytes:
    if ended.state is not DownloadState.DONE:
        return error_line(failed(_unavailable(ended)))
    full = line(_progress(ended))
    return full + b"".join(line(Progress(said)) for said in ("verifying sha256 digest", "writing manifest", "success"))


def _unavailable(ended: Download) -> Unavailable:
    error = why(ended)
    return Unavailable(error.sentence, hint=error.hint, code=error.code)


def why(ended: Download) -> ErrorBody:
    """Return why a download is over without being done."""
    if ended.error is not None:
        return ended.error
    if ended.state is DownloadState.PAUSED:
        return ErrorBody(code="download_paused", sentence="The download was paused in Roundhouse.", hint="Pull again.")
    return Bug("The download ended for no reason.").body
