"""LM Studio's way of downloading: a job is begun, and asked after. The job is a download of the gateway's own queue."""

from datetime import UTC, datetime

import msgspec
from aiohttp import web

from app.core.downloads import Download as Queued
from app.core.downloads import DownloadState, Pull
from app.core.errors import NotFound
from app.gateway.dialects.lmstudio import requests
from app.gateway.dialects.replies import json_reply
from app.gateway.entry.access import check_may_change
from app.gateway.entry.bodies import read_json
from app.gateway.hub.downloads import DOWNLOADS
from app.gateway.hub.pulling import pull
from app.gateway.loading.launch import find_model
from app.gateway.services import SERVICES

_STATES = {
    DownloadState.QUEUED: "downloading",
    DownloadState.RUNNING: "downloading",
    DownloadState.PAUSED: "paused",
    DownloadState.DONE: "completed",
    DownloadState.FAILED: "failed",
}


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A download as LM Studio tells it. What is here already has no `job_id`."""

    status: str
    job_id: str | None = None
    total_size_bytes: int | None = None
    downloaded_bytes: int | None = None
    bytes_per_second: float | None = None
    estimated_completion: str | None = None
    started_at: str | None = None
    completed_at: str | None = None


def add_routes(app: web.Application) -> None:
    """Add them."""
    app.router.add_post("/api/v1/models/download", download)
    app.router.add_get("/api/v1/models/download/status/{job_id}", download_status)


async def download(request: web.Request) -> web.Response:
    """POST /api/v1/models/download."""
    services = request.app[SERVICES]
    asked = await read_json(request, requests.DownloadRequest)
    name = requests.required(asked.model, "model")
    try:
        await find_model(services, f"{name}:{asked.quantization}" if asked.quantization else name)
    except NotFound:
        check_may_change(request)
        wanted = Pull(model=name, quantization=asked.quantization or "")
        return json_reply(job_of(await pull(services, request.app[DOWNLOADS], wanted)))
    return json_reply(Job(status="already_downloaded"))


async def download_status(request: web.Request) -> web.Response:
    """GET /api/v1/models/download/status/{job_id}."""
    name = request.match_info["job_id"]
    try:
        return json_reply(job_of(request.app[DOWNLOADS].find(name)))
    except NotFound:
        raise NotFound(f"There is no download {name!r}.", code="job_not_found") from None


def job_of(shown: Queued) -> Job:
    """Return a download of the queue as a job."""
    ends_at = None if shown.eta_s is None else datetime.now(UTC).timestamp() + shown.eta_s
    return Job(
        status=_STATES[shown.state],
        job_id=shown.id,
        total_size_bytes=shown.total_bytes,
        downloaded_bytes=shown.present_bytes,
        bytes_per_second=shown.bytes_per_s,
        estimated_completion=_moment(ends_at),
        started_at=_moment(shown.added_at),
        completed_at=_moment(shown.ended_at if shown.state is DownloadState.DONE else None),
    )


def _moment(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
