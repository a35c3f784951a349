"""LM Studio's way of downloading: a job is begun, and asked after. The job is a download of the gateway's own queue."""

from datetime import UTC, datetime

import msgspec
from aiohttp import web

from app.core.downloads import Download as Queued
from app.core.downloads import DownloadState, Pull
from app.core.errors import NotFound, quote_value
from app.gateway.dialects.form import json_reply
from app.gateway.dialects.lmstudio import requests
from app.gateway.entry.access import check_may_change
from app.gateway.entry.bodies import read_json
from app.gateway.hub.downloads import DOWNLOADS
from app.gateway.hub.model_pull import pull
from app.gateway.loading.launch import find_model
from app.gateway.services import SERVICES

_STATES = {
    DownloadState.QUEUED: "downloading",
    DownloadState.RUNNING: "downloading",
    DownloadState.PAUSED: "paused",
    DownloadState.DONE: "completed",
    DownloadState.FAILED: "failed",
}


class LmStudioDownloadJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A download as LM Studio tells it. What is here already has no `job_id`."""

    status: str
    job_id: str | None = None
    total_size_bytes: int | None = None
    downloaded_bytes: int | None = None
    bytes_per_second: float | None = None
    estimated_completion: str | None = None
    started_at: str | None = None
    completed_at: str | None = None


def add_routes(router: web.UrlDispatcher) -> None:
    """Add them."""
    router.add_post("/api/v1/models/download", start_download)
    router.add_get("/api/v1/models/download/status/{job_id}", download_status)


async def start_download(request: web.Request) -> web.Response:
    """POST /api/v1/models/download."""
    services = request.app[SERVICES]
    download_request = await read_json(request, requests.LmStudioDownloadRequest)
    name = requests.require_field(download_request.model, "model")
    try:
        await find_model(services, f"{name}:{download_request.quantization}" if download_request.quantization else name)
    except NotFound:
        check_may_change(request)
        pull_params = Pull(model=name, quantization=download_request.quantization or "")
        return json_reply(job_of(await pull(services, request.app[DOWNLOADS], pull_params)))
    return json_reply(LmStudioDownloadJob(status="already_downloaded"))


async def download_status(request: web.Request) -> web.Response:
    """GET /api/v1/models/download/status/{job_id}."""
    name = request.match_info["job_id"]
    try:
        return json_reply(job_of(request.app[DOWNLOADS].find(name)))
    except NotFound:
        raise NotFound(f"There is no download {quote_value(name)}.", code="job_not_found") from None


def job_of(entry: Queued) -> LmStudioDownloadJob:
    """Return a download of the queue as a job."""
    ends_at = None if entry.eta_s is None else datetime.now(UTC).timestamp() + entry.eta_s
    return LmStudioDownloadJob(
        status=_STATES[entry.state],
        job_id=entry.id,
        total_size_bytes=entry.total_bytes,
        downloaded_bytes=entry.present_bytes,
        bytes_per_second=entry.bytes_per_s,
        estimated_completion=_format_time(ends_at),
        started_at=_format_time(entry.added_at),
        completed_at=_format_time(entry.ended_at if entry.state is DownloadState.DONE else None),
    )


def _format_time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
