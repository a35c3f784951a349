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
from app.core.connections import ConnectionReason, Purpose
from app.core.errors import BadRequest, Conflict, StorageFault, quote_value
from app.core.hub import HubUse
from app.hub.library.registry_file import JsonFile
from app.hub.repositories.ranges import ReadBudget, RemoteHost
from app.hub.repositories.repository import REPOSITORY
from app.hub.repositories.signatures import is_signed
from app.hub.repositories.variants import quantization_of

VERSION = 1
MAX_BYTES = 4 << 20
SHIPPED = RESOURCES / "catalogue.json"
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
_DEFAULT_TAGS = frozenset({"", "latest"})


class CatalogueEntry(msgspec.Struct, frozen=True, kw_only=True):
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


class CatalogueContent(msgspec.Struct, frozen=True, kw_only=True):
    """The file. `issued` is its date, "2026-11-21": the later is the newer."""

    version: int
    issued: str
    models: list[CatalogueEntry]


class _SignedCatalogue(msgspec.Struct, frozen=True, kw_only=True):
    """A fetched list as it is kept: with its signature, so that it is checked again whenever it is read."""

    content: bytes
    signature: bytes


class CatalogueRefused(Conflict):
    """What was fetched is not a list that its owner signed, or an older one."""

    default_code = "catalogue_refused"


class ModelCatalogue:
    """The list in force: the one that was fetched, where there is one whose signature holds, else the shipped one."""

    def __init__(self, file: Path, shipped: Path = SHIPPED) -> None:
        self._json_file = JsonFile(file, _SignedCatalogue, "the catalogue")
        self._shipped = shipped
        self._lock = threading.Lock()
        self._content: CatalogueContent | None = None
        self._key = ""

    def read_content(self, key: str = "") -> CatalogueContent:
        """Return the list in force for the public key of the settings."""
        with self._lock:
            if self._content is None or self._key != key:
                self._content, self._key = self._newest_content(key), key
            return self._content

    def find_entry(self, name: str, tag: str = "", *, key: str = "") -> CatalogueEntry | None:
        """Return what a short name means: with a tag such as "8b" or "8b-q8_0", or the usual one without."""
        size, _, rest = tag.casefold().partition("-")
        candidates = [entry for entry in self.read_content(key).models if entry.name == name.casefold()]
        if size in _DEFAULT_TAGS:
            return next((entry for entry in candidates if entry.is_default), None)
        entry_found = next((entry for entry in candidates if entry.tag == size), None)
        if entry_found is None or not rest:
            return entry_found
        quantization = quantization_of(rest)
        return msgspec.structs.replace(entry_found, quantization=quantization) if quantization else None

    def fetch_newest(self, url: str, key: str) -> CatalogueContent:
        """Fetch the list anew. Raises CatalogueRefused, BadRequest without address and key, or what fetching does."""
        if not url or not key:
            hint = "Set both: `roundhouse settings catalogue.url ADDRESS` and `catalogue.key KEY`."
            raise BadRequest("The catalogue has no address, or no key to verify it.", hint=hint, code="no_catalogue")
        remote = RemoteHost(
            url, Purpose(why=ConnectionReason.CATALOGUE), budget=ReadBudget(max_bytes=2 * MAX_BYTES, max_requests=8)
        )
        content, signature = (
            remote.read_small_file(url, MAX_BYTES),
            remote.read_small_file(f"{url}.sig", MAX_BYTES).decode("latin-1"),
        )
        signed = _SignedCatalogue(content=content, signature=_decode_base64(signature))
        with self._lock:
            fresh, known = _check_signature(signed, key), self._newest_content(key)
            if fresh.issued < known.issued:
                sentence = f"The catalogue from {fresh.issued} is older than the current one, from {known.issued}."
                raise CatalogueRefused(sentence)
            self._json_file.write_value(signed)
            self._content, self._key = fresh, key
            return fresh

    def _newest_content(self, key: str) -> CatalogueContent:
        shipped = parse_catalogue(self._shipped.read_bytes())
        fetched = self._read_fetched(key) if key else None
        return fetched if fetched is not None and fetched.issued >= shipped.issued else shipped

    def _read_fetched(self, key: str) -> CatalogueContent | None:
        signed = self._json_file.read_value()
        try:
            return _check_signature(signed, key) if signed else None
        except (CatalogueRefused, StorageFault):
            return None


def parse_catalogue(content: bytes) -> CatalogueContent:
    """Return what a file lists. Raises CatalogueRefused for one that makes no sense."""
    try:
        content_read = msgspec.json.decode(content, type=CatalogueContent)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise CatalogueRefused("The catalogue cannot be read.") from None
    if content_read.version != VERSION:
        raise CatalogueRefused("The catalogue has an unsupported version.", hint="Update Roundhouse.")
    for entry in content_read.models:
        if not (_NAME.fullmatch(entry.name) and _NAME.fullmatch(entry.tag) and REPOSITORY.fullmatch(entry.repository)):
            raise CatalogueRefused(f"The catalogue has an entry without a model: {quote_value(entry.title)}.")
    return content_read


def _check_signature(signed: _SignedCatalogue, key: str) -> CatalogueContent:
    if not is_signed(signed.content, signed.signature, _decode_base64(key)):
        raise CatalogueRefused("The catalogue's signature is not valid.", hint="The current one stays in use.")
    return parse_catalogue(signed.content)


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return b""
