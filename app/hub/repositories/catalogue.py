"""Short names that people know ("qwen3:8b") and which models are good for what: a list that ships with Roundhouse.

A newer list can be fetched from an address of the settings. It counts only if the key of the settings signed it and it
is not older than the one that is here: what is downloaded by name is decided by this file. Blocks; use a thread.
"""

import base64
import binascii
import re
import threading
from pathlib import Path

import msgspec

from app.config.paths import RESOURCES
from app.core.connections import Purpose, Why
from app.core.errors import BadRequest, Conflict, StorageFault
from app.core.hub import HubUse
from app.hub.library.registry_file import KeptFile
from app.hub.repositories.ranges import Budget, Remote
from app.hub.repositories.repository import REPOSITORY
from app.hub.repositories.signatures import is_signed
from app.hub.repositories.variants import quantization_of

VERSION = 1
MAX_BYTES = 4 << 20
SHIPPED = RESOURCES / "catalogue.json"
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
_DEFAULT_TAGS = frozenset({"", "latest"})


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One model. `rank` compares entries of one use: the higher, the better its answers."""

    name: str
    tag: str
    repository: str
    uses: list[HubUse] = []
    rank: int = 0
    is_default: bool = False
    """What the name means without a tag."""
    quantization: str = ""
    """Only where a tag named one."""

    @property
    def title(self) -> str:
        """What `roundhouse pull` takes."""
        return f"{self.name}:{self.tag}"


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """The file. `issued` is its date, "2026-11-21": the later is the newer."""

    version: int
    issued: str
    models: list[Entry]


class _Signed(msgspec.Struct, frozen=True, kw_only=True):
    """A fetched list as it is kept: with its signature, so that it is checked again whenever it is read."""

    content: bytes
    signature: bytes


class CatalogueRefused(Conflict):
    """What was fetched is not a list that its owner signed, or an older one."""

    default_code = "catalogue_refused"


class Catalogue:
    """The list in force: the one that was fetched, where there is one whose signature holds, else the shipped one."""

    def __init__(self, file: Path, shipped: Path = SHIPPED) -> None:
        self._kept = KeptFile(file, _Signed, "The catalogue")
        self._shipped = shipped
        self._lock = threading.Lock()
        self._content: Content | None = None
        self._key = ""

    def content(self, key: str = "") -> Content:
        """Return the list in force for the public key of the settings."""
        with self._lock:
            if self._content is None or self._key != key:
                self._content, self._key = self._newest(key), key
            return self._content

    def find(self, name: str, tag: str = "", *, key: str = "") -> Entry | None:
        """Return what a short name means: with a tag such as "8b" or "8b-q8_0", or the usual one without."""
        size, _, rest = tag.casefold().partition("-")
        there = [entry for entry in self.content(key).models if entry.name == name.casefold()]
        if size in _DEFAULT_TAGS:
            return next((entry for entry in there if entry.is_default), None)
        found = next((entry for entry in there if entry.tag == size), None)
        if found is None or not rest:
            return found
        quantization = quantization_of(rest)
        return msgspec.structs.replace(found, quantization=quantization) if quantization else None

    def refresh(self, url: str, key: str) -> Content:
        """Fetch the list anew. Raises CatalogueRefused, BadRequest without address and key, or what fetching does."""
        if not url or not key:
            hint = "Set both: `roundhouse settings catalogue.url ADDRESS` and `catalogue.key KEY`."
            raise BadRequest("The catalogue has no address, or no key to verify it.", hint=hint, code="no_catalogue")
        remote = Remote(url, Purpose(why=Why.CATALOGUE), budget=Budget(max_bytes=2 * MAX_BYTES, max_requests=8))
        content, signature = remote.text(url, MAX_BYTES), remote.text(f"{url}.sig", MAX_BYTES).decode("latin-1")
        signed = _Signed(content=content, signature=_decoded(signature))
        with self._lock:
            fresh, known = _checked(signed, key), self._newest(key)
            if fresh.issued < known.issued:
                said = f"The catalogue from {fresh.issued} is older than the current one, from {known.issued}."
                raise CatalogueRefused(said)
            self._kept.write(signed)
            self._content, self._key = fresh, key
            return fresh

    def _newest(self, key: str) -> Content:
        shipped = read(self._shipped.read_bytes())
        fetched = self._fetched(key) if key else None
        return fetched if fetched is not None and fetched.issued >= shipped.issued else shipped

    def _fetched(self, key: str) -> Content | None:
        signed = self._kept.read()
        try:
            return _checked(signed, key) if signed else None
        except (CatalogueRefused, StorageFault):
            return None


def read(content: bytes) -> Content:
    """Return what a file lists. Raises CatalogueRefused for one that makes no sense."""
    try:
        found = msgspec.json.decode(content, type=Content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise CatalogueRefused("The catalogue cannot be read.") from None
    if found.version != VERSION:
        raise CatalogueRefused("The catalogue has an unsupported version.", hint="Update Roundhouse.")
    for entry in found.models:
        if not (_NAME.fullmatch(entry.name) and _NAME.fullmatch(entry.tag) and REPOSITORY.fullmatch(entry.repository)):
            raise CatalogueRefused(f"The catalogue has an entry without a model: {entry.title[:80]!r}.")
    return found


def _checked(signed: _Signed, key: str) -> Content:
    if not is_signed(signed.content, signed.signature, _decoded(key)):
        raise CatalogueRefused("The catalogue's signature is not valid.", hint="The current one stays in use.")
    return read(signed.content)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return b""
