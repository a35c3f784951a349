"""Ollama's way of downloading: lines that say how far it is. What is here is pulled already, at once and offline.

A client that goes away pauses the download it began; pulling again goes on with it, as clients of Ollama expect.
"""

from contextlib import aclosing
from hashlib import sha256

from aiohttp import web

from app.core.downloads import Download, DownloadState, Pull
from app.core.errors import Bug, ErrorBody, NotFound, RoundhouseError, Unavailable
from app.gateway.canonical.events import failure_event
from app.gateway.dialects.form import NDJSON_HEADERS, utf8_json_reply
from app.gateway.dialects.ollama.models import find_target, read_document, require_name
from app.gateway.dialects.ollama.stream import encode_line, error_line
from app.gateway.dialects.ollama.wire import OllamaModelRequest, OllamaProgress, OllamaPullProgress
from app.gateway.entry.access import check_may_change
from app.gateway.hub.downloads import DOWNLOADS
from app.gateway.hub.model_pull import pull as begin_pull
from app.gateway.services import SERVICES

_DIGEST_DIGITS = 12
_ACTIVE_STATES = frozenset({DownloadState.QUEUED, DownloadState.RUNNING})


def add_routes(router: web.UrlDispatcher) -> None:
    """Add the route."""
    router.add_post("/api/pull", pull_model)


async def pull_model(request: web.Request) -> web.StreamResponse:
    """POST /api/pull."""
    pull_request = await read_document(request, OllamaModelRequest)
    require_name(pull_request.model_name)
    if await _is_here(request, pull_request.model_name):
        return _reply_present(pull_request)
    check_may_change(request)
    if pull_request.stream is False:
        return await _pull_whole(request, pull_request.model_name)
    return await _pull_stream(request, pull_request.model_name)


async def _is_here(request: web.Request, model_name: str) -> bool:
    try:
        await find_target(request.app[SERVICES], model_name)
    except NotFound:
        return False
    return True


def _reply_present(pull_request: OllamaModelRequest) -> web.Response:
    last_progress = OllamaProgress("success")
    if pull_request.stream is False:
        return utf8_json_reply(last_progress)
    return web.Response(
        body=encode_line(OllamaProgress("pulling manifest")) + encode_line(last_progress), headers=NDJSON_HEADERS
    )


async def _pull_whole(request: web.Request, model_name: str) -> web.Response:
    download = await _begin_download(request, model_name)
    final_state = await _follow_download(request, download, None)
    if final_state.state is not DownloadState.DONE:
        raise _unavailable_error(final_state)
    return utf8_json_reply(OllamaProgress("success"))


async def _pull_stream(request: web.Request, model_name: str) -> web.StreamResponse:
    response = web.StreamResponse(headers=NDJSON_HEADERS)
    await response.prepare(request)
    await response.write(encode_line(OllamaProgress("pulling manifest")))
    try:
        final_state = await _follow_download(request, await _begin_download(request, model_name), response)
        await response.write(_last_lines(final_state))
    except RoundhouseError as error:
        await response.write(error_line(failure_event(error)))
    await response.write_eof()
    return response


async def _begin_download(request: web.Request, model_name: str) -> Download:
    return await begin_pull(request.app[SERVICES], request.app[DOWNLOADS], Pull(model=model_name))


async def _follow_download(request: web.Request, download: Download, response: web.StreamResponse | None) -> Download:
    """Tell how far it is until it is over; pause it if whoever asked for it leaves."""
    downloads, last = request.app[DOWNLOADS], download
    try:
        async with aclosing(downloads.follow(download.id)) as states:
            async for last in states:
                if response is not None and last.state is DownloadState.RUNNING:
                    await response.write(encode_line(_make_progress(last)))
    finally:
        if download.id in {entry.id for entry in downloads.all() if entry.state in _ACTIVE_STATES}:
            downloads.pause(download.id)
    return last


def _make_progress(download: Download) -> OllamaPullProgress:
    """Ollama names layers by their digest: ours is of what is fetched, and stays the same to the end."""
    digest = sha256(f"{download.commit}:{','.join(download.files)}".encode()).hexdigest()
    return OllamaPullProgress(
        status=f"pulling {digest[:_DIGEST_DIGITS]}",
        digest=f"sha256:{digest}",
        total=download.total_bytes,
        completed=download.present_bytes,
    )


def _last_lines(download: Download) -> bytes:
    if download.state is not DownloadState.DONE:
        return error_line(failure_event(_unavailable_error(download)))
    full = encode_line(_make_progress(download))
    return full + b"".join(
        encode_line(OllamaProgress(status)) for status in ("verifying sha256 digest", "writing manifest", "success")
    )


def _unavailable_error(download: Download) -> Unavailable:
    error = explain_end(download)
    return Unavailable(error.sentence, hint=error.hint, code=error.code)


def explain_end(download: Download) -> ErrorBody:
    """Return why a download is over without being done."""
    if download.error is not None:
        return download.error
    if download.state is DownloadState.PAUSED:
        return ErrorBody(code="download_paused", sentence="The download was paused in Roundhouse.", hint="Pull again.")
    return Bug("The download ended for no reason.").body
