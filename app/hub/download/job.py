"""What one download process is told, and what it says. Both are one JSON object per line."""

import msgspec

from app.core.connections import Connection
from app.core.errors import ErrorBody
from app.hub.repositories.repository import RepoFile


class MachineSource(msgspec.Struct, frozen=True, kw_only=True):
    """A paired machine that gives files out: what it is called, where it is, and its certificate (DER, in base64)."""

    name: str
    address: str
    port: int
    certificate: str


class MachineSources(msgspec.Struct, frozen=True, kw_only=True):
    """Paired machines to fetch from before the hub, and what shows them who this one is."""

    identity_file: str
    passphrase: str
    machines: list[MachineSource]


class DownloadJob(msgspec.Struct, frozen=True, kw_only=True):
    """Files of one commit, to be brought into the cache at `cache`. The first line on standard input."""

    endpoint: str
    repository: str
    revision: str
    commit: str
    files: list[RepoFile]
    cache: str
    token: str = ""
    streams: int = 4
    bytes_per_s: float = 0.0
    """No faster than this; 0 is as fast as it goes."""
    xet: bool = False
    """Whether files may come from Xet storage."""
    reserved_bytes: int = 0
    """Room on the disk that other downloads are about to take."""
    sources: MachineSources | None = None


class SpeedLimit(msgspec.Struct, frozen=True, kw_only=True, tag="limit"):
    """Change the limit: any later line on standard input. Its end means that the process should end."""

    bytes_per_s: float


class DownloadStarted(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """How much there is, and how much of it was there already."""

    total_bytes: int
    present_bytes: int


class DownloadProgress(msgspec.Struct, frozen=True, kw_only=True, tag="moved"):
    """How much is there now."""

    present_bytes: int
    file: str
    machine: str = ""
    """The paired machine that it comes from; empty: the hub."""


class ConnectionsMade(msgspec.Struct, frozen=True, kw_only=True, tag="connected"):
    """Which connections were made since the last time."""

    connections: list[Connection]


class DownloadNote(msgspec.Struct, frozen=True, kw_only=True, tag="noted"):
    """Something a person may want to know, and need not do anything about."""

    sentence: str


class DownloadFailed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """Why it ended. What came so far stays for another try."""

    error: ErrorBody


class DownloadDone(msgspec.Struct, frozen=True, kw_only=True, tag="done"):
    """Every file is there, whole and right. `folder` is the snapshot."""

    folder: str


DownloadMessage = DownloadStarted | DownloadProgress | ConnectionsMade | DownloadNote | DownloadFailed | DownloadDone
