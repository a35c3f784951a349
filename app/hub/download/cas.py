"""What the hub and its Xet storage say of a file: leave to read it, and from where its bytes are fetched.

`hf_xet` asks all this too, and keeps to itself what it hears, and whom it calls. So it is asked by us before: what is
refused is known by its status, no address is taken that is not safe, and every host passes the door.
https://huggingface.co/docs/xet/auth and /api
"""

import contextlib
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import msgspec

from app.core.errors import NotFound, RoundhouseError, Unauthorized, Unavailable
from app.hub.download.wire import StreamInterrupted
from app.hub.repositories.ranges import HubBusy, RemoteHost
from app.network.egress import EgressCall, egress_gate

_HASH = re.compile(r"[0-9a-f]{64}")
_MAX_ANSWER_BYTES = 1 << 20
"""A token and an address have at most 64,000 characters each."""
_PORTS = {"http": 80, "https": 443}


class XetFailed(Unavailable):
    """Nothing comes from Xet just now; plain HTTP may."""

    default_code = "xet_failed"


class ReadGrant(msgspec.Struct, frozen=True, rename="camel"):
    """What the hub gives to whoever may read a repository: where its content is, and a token for there."""

    access_token: str
    cas_url: str
    exp: int
    """Unix seconds."""


class _FetchPlace(msgspec.Struct, frozen=True):
    url: str


class _FetchPlan(msgspec.Struct, frozen=True):
    """From where bytes are fetched, by xorb: in the first version's words, or in the second's."""

    fetch_info: dict[str, list[_FetchPlace]] = {}
    xorbs: dict[str, list[_FetchPlace]] = {}

    @property
    def urls(self) -> list[str]:
        """Every address. They are signed: whoever has one may read."""
        return [place.url for places in (*self.fetch_info.values(), *self.xorbs.values()) for place in places]


class XetFile(NamedTuple):
    """A file as Xet has it, and where the hub gives leave to read it."""

    hash: str
    size: int
    address: str


def xet_hash(remote: RemoteHost, url: str) -> str:
    """Return the name that Xet has for what the hub serves at `url`; empty where it is kept otherwise."""
    try:
        header = remote.read_headers(url).get("X-Xet-Hash", "")
    except RoundhouseError:  # plain HTTP will say it
        return ""
    return header if _HASH.fullmatch(header) else ""


def grant_address(endpoint: str, repository: str, commit: str) -> str:
    """Return where the hub gives a token for reading a commit's content."""
    return f"{endpoint.rstrip('/')}/api/models/{repository}/xet-read-token/{quote(commit, safe='')}"


def request_grant(remote: RemoteHost, xet_file: XetFile) -> ReadGrant:
    """Return leave to read a file. Raises Interrupted, or XetFailed when it is no use."""
    with _translate_refusals():
        grant = msgspec.json.decode(remote.read_small_file(xet_file.address, _MAX_ANSWER_BYTES), type=ReadGrant)
        remote.check_address(grant.cas_url)
        return grant


def note_calls(remote: RemoteHost, xet_file: XetFile, grant: ReadGrant, start: int) -> list[EgressCall]:
    """Note whom `hf_xet` will call for the bytes from `start` on; the last of them sends the bytes.

    Raises Interrupted, or XetFailed when it is no use.
    """
    with _translate_refusals():
        urls = _read_fetch_plan(remote, xet_file, grant, start).urls
        for url in urls:
            remote.check_address(url)
    parts = [urlsplit(url) for url in (grant.cas_url, *urls)]
    places = dict.fromkeys((part.hostname or "", part.port or _PORTS.get(part.scheme, 0)) for part in parts)
    return [egress_gate.note_call(host, port, remote.purpose) for host, port in places]


def _read_fetch_plan(remote: RemoteHost, xet_file: XetFile, grant: ReadGrant, start: int) -> _FetchPlan:
    headers = {"Authorization": f"Bearer {grant.access_token}", "Range": f"bytes={start}-{start}"}
    base = grant.cas_url.rstrip("/")
    urls = [f"{base}/{version}/reconstructions/{xet_file.hash}" for version in ("v2", "v1")]
    try:
        answer = remote.read_small_file(urls[0], _MAX_ANSWER_BYTES, headers)
    except NotFound:  # `hf_xet` goes back to the first version too
        answer = remote.read_small_file(urls[1], _MAX_ANSWER_BYTES, headers)
    return msgspec.json.decode(answer, type=_FetchPlan)


@contextlib.contextmanager
def _translate_refusals() -> Iterator[None]:
    """Sort what goes wrong into what another try may mend, and what none does."""
    try:
        yield
    except msgspec.DecodeError:
        raise XetFailed("The answer of the hub or its storage about Xet could not be understood.") from None
    except HubBusy as busy:  # plain HTTP may go on meanwhile
        raise XetFailed(str(busy)) from busy
    except (Unavailable, Unauthorized) as error:  # a token ends; another may do
        raise StreamInterrupted(XetFailed(f"Xet storage cannot be read. {error}")) from error
    except RoundhouseError as error:
        raise XetFailed("Xet storage refuses the download.") from error
