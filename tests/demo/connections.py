"""Connections as the demo gateway lists them: one of each kind. Invented, and only shown in screenshots."""

import time
from collections.abc import Mapping

from app.core.connections import Connection, ConnectionList, ConnectionReason, Program

_NOON = time.mktime((*time.localtime()[:3], 12, 0, 0, 0, 0, -1))
_MIB, _GIB = 1 << 20, 1 << 30


def _make_connection(number: int, host: str, why: ConnectionReason, minutes: float, **more: object) -> Connection:
    last = _NOON - minutes * 60
    usual: dict[str, object] = {"id": f"cn_{number:012x}", "port": 443, "count": 1, "first_at": last, "last_at": last}
    return Connection(**{**usual, **more, "host": host, "why": why})  # type: ignore[arg-type]


CONNECTIONS = [
    _make_connection(
        1,
        "cdn-lfs.huggingface.co",
        ConnectionReason.DOWNLOAD,
        2,
        about="unsloth/Qwen3-8B-GGUF",
        by=Program.DOWNLOADER,
        count=1204,
        received_bytes=int(4.7 * _GIB),
        first_at=_NOON - 540,
    ),
    _make_connection(
        2, "huggingface.co", ConnectionReason.MODEL, 10, about="unsloth/Qwen3-8B-GGUF", count=3, received_bytes=2 * _MIB
    ),
    _make_connection(
        3, "huggingface.co", ConnectionReason.SEARCH, 11, count=4, received_bytes=318_000, first_at=_NOON - 900
    ),
    _make_connection(
        4, "gpu-box.lan", ConnectionReason.ATTACHED, 31, port=8000, count=48, failed=2, first_at=_NOON - 3 * 3600
    ),
    _make_connection(5, "models.example.org", ConnectionReason.CATALOGUE, 64, failed=1),
    _make_connection(
        6,
        "files.pythonhosted.org",
        ConnectionReason.ENGINE,
        26 * 60,
        about="vllm",
        by=Program.INSTALLER,
        count=142,
        received_bytes=int(3.1 * _GIB),
        first_at=_NOON - 26.2 * 3600,
    ),
    _make_connection(
        7,
        "pypi.org",
        ConnectionReason.ENGINE,
        26.1 * 60,
        about="vllm",
        by=Program.INSTALLER,
        count=9,
        received_bytes=5 * _MIB,
    ),
    _make_connection(
        8,
        "huggingface.co",
        ConnectionReason.MODEL_UPDATES,
        27 * 60,
        about="unsloth/Qwen3-8B-GGUF",
        refused=True,
        count=2,
    ),
]
LIST = ConnectionList(offline=False, connections=CONNECTIONS)


def connection_replies() -> Mapping[str, object]:
    """Return what the demo gateway answers about connections."""
    return {"GET /connections": LIST, "DELETE /connections": None}
