"""The fake storage over HTTP: grants at the hub, reconstructions and xorbs at the storage, and uploads to fill it.

https://huggingface.co/docs/xet/api. It speaks the first version of each; the client asks for the second and goes back.
"""

import json
import re
from email.message import Message
from typing import Any, Protocol

from tests.fake_hub.cas import FakeCas
from tests.fake_hub.hub import StoredFile

_GRANT = re.compile(r"/api/models/[^/]+/[^/]+/xet-read-token/[^/]+$")
_ASKED = re.compile(r"/cas/(?:v1/)?(?P<kind>reconstruction|xorb)s?/(?P<hash>[0-9a-f]{64})$")
_XORB = re.compile(r"/cas/v1/xorbs/default/(?P<hash>[0-9a-f]{64})$")
_RANGE = re.compile(r"bytes=(\d+)-(\d+)$")
_FAR_OFF = 4_000_000_000


class Answering(Protocol):
    """What a request's handler offers."""

    @property
    def headers(self) -> Message: ...
    def reply(self, status: int, body: bytes, headers: dict[str, str]) -> None: ...
    def reply_json(self, value: object) -> None: ...
    def refuse(self, status: int, code: str, message: str) -> None: ...
    def serve_as(self, file: StoredFile, fault: Any, headers: dict[str, str] | None = None) -> None: ...  # noqa: ANN401


def answer_storage(request: Answering, cas: FakeCas, path: str) -> bool:
    """Answer what is asked of the storage; tell whether it was."""
    match = _ASKED.match(path)
    if _GRANT.match(path):
        _grant(request, cas)
    elif match is not None:
        _content(request, cas, match["kind"], match["hash"])
    else:
        return False
    return True


def take_upload(request: Answering, cas: FakeCas, path: str, body: bytes) -> None:
    """Take what is uploaded."""
    xorb = _XORB.match(path)
    if xorb is not None:
        cas.take_xorb(xorb["hash"], body)
        request.reply_json({"was_inserted": True})
    elif path == "/cas/v1/shards":
        cas.take_shard(body)
        request.reply_json({"result": 1})
    else:
        request.refuse(404, "NotFound", "Not found")


def _grant(request: Answering, cas: FakeCas) -> None:
    cas.requests.append(("grant", "", request.headers.get("Authorization")))
    body = {"accessToken": cas.grant(), "exp": _FAR_OFF, "casUrl": cas.address}
    headers = {
        "X-Xet-Access-Token": cas.tokens[-1],
        "X-Xet-Token-Expiration": str(_FAR_OFF),
        "X-Xet-Cas-Url": cas.address,
    }
    request.serve_as(StoredFile("grant", json.dumps(body).encode()), cas.faults.get("grant"), headers)


def _content(request: Answering, cas: FakeCas, kind: str, name: str) -> None:
    asked_range, authorization = request.headers.get("Range", ""), request.headers.get("Authorization")
    cas.requests.append((kind, asked_range, authorization))
    if kind == "xorb":
        request.serve_as(StoredFile(name, cas.xorbs[name]), cas.faults.get("xorb"))
    elif not cas.is_good(authorization):
        request.refuse(401, "Unauthorized", "Token expired")
    else:
        _reconstruct(request, cas, name, asked_range)


def _reconstruct(request: Answering, cas: FakeCas, name: str, range_header: str) -> None:
    match = _RANGE.match(range_header)
    span = range(int(match[1]), int(match[2]) + 1) if match else range(1 << 50)
    reconstruction = cas.reconstruction(name, span, cas.address) if name in cas.files else None
    fault = cas.faults.get("reconstruction")
    content = StoredFile(name, json.dumps(reconstruction).encode())
    if fault is not None and fault(request, content):
        return
    if reconstruction is None:
        request.refuse(416 if name in cas.files else 404, "NotThere", "Nothing there")
    else:
        request.reply(200, content.content, {"Content-Type": "application/json"})
