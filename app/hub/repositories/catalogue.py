"""Short names that people know ("qwen3:8b") and which models are good for what: a list that ships with Roundhouse.

A newer list can be fetched from an address of the settings. It counts only if the key of the settings signed it and it
is not older than the one that is here: what is downloaded by name is decided by this file. Blocks; use a thread.
"""

import base64
import binascii
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from app.config.paths import RESOURCES
from app.core.connections import ConnectionReason, Purpose
from app.core.errors import BadRequest, Conflict, StorageFault, quote_value
from app.hub.library.registry_file import JsonFile
from app.hub.repositories.catalogue_entry import CatalogueEntry
from app.hub.repositories.ranges import ReadBudget, RemoteHost
from app.hub.repositories.signatures import is_signed

if TYPE_CHECKING:
    from app.hub.repositories.catalogue_names import CatalogueMatch, NameIndex

VERSION = 2
MAX_BYTES = 4 << 20
SHIPPED = RESOURCES / "catalogue.json"


class CatalogueContent(msgspec.Struct, frozen=True, kw_only=True):
    """The file. `issued` is its date, "2026-11-21": the later is the newer."""

    version: int
    issued: str
    source: str = ""
    """Where its facts are from, and how old they are."""
    models: list[CatalogueEntry]


class _FileVersion(msgspec.Struct, frozen=True):
    """What every version of the file says."""

    version: int


class _SignedCatalogue(msgspec.Struct, frozen=True, kw_only=True):
    """A fetched list as it is kept: with its signature, so that it is checked again whenever it is read."""

    content: bytes
    signature: bytes


class CatalogueRefused(Conflict):
    """What was fetched is not a list that its owner signed, or an older one."""

    default_code = "catalogue_refused"


class ModelCatalogue:
    """The list in force: the one that was fetched, where there is one whose signature holds, else the shipped one."""

    def __init__(self, file: Path, shipped_file: Path = SHIPPED) -> None:
        self._json_file = JsonFile(file, _SignedCatalogue, "the catalogue")
        self._shipped_file = shipped_file
        self._lock = threading.Lock()
        self._content: CatalogueContent | None = None
        self._key = ""
        self._names: tuple[CatalogueContent, NameIndex] | None = None
        self._repositories: tuple[CatalogueContent, dict[str, CatalogueEntry]] | None = None

    def read_content(self, key: str = "") -> CatalogueContent:
        """Return the list in force for the public key of the settings."""
        with self._lock:
            if self._content is None or self._key != key:
                self._content, self._key = self._newest_content(key), key
            return self._content

    def find_match(self, typed_name: str, *, key: str = "") -> "CatalogueMatch | None":
        """Return what a short name means: "qwen3:8b", "qwen3-8b", "qwen3:8b-q8_0", or the usual size without a tag."""
        return self._read_names(key).find_match(typed_name)

    def list_pull_names(self, typed_name: str, *, key: str = "") -> list[str]:
        """Return by which names a short one may have been pulled: "owner/name:Q8_0", in every format it can mean."""
        match = self.find_match(typed_name, key=key)
        if match is None:
            return []
        tag = f":{match.quantization}" if match.quantization else ""
        formats = [match.format] if match.format else list(match.entry.repositories)
        return [place + tag for kind in formats for place in match.list_repositories(kind)]

    def find_repository(self, repository: str) -> CatalogueEntry | None:
        """Return the model that a repository holds in some form, by the list that was last in force."""
        content = self._content or self.read_content()
        if self._repositories is None or self._repositories[0] is not content:
            self._repositories = (content, _index_repositories(content.models))
        return self._repositories[1].get(repository.casefold())

    def list_branches(self, repository: str) -> list[str]:
        """Return the branches of a repository that the list in force names, one for each bit rate."""
        entry = self.find_repository(repository)
        return entry.list_branches(repository) if entry is not None else []

    def list_nearest(self, typed_name: str, *, key: str = "") -> list[str]:
        """Return the three names that are written most like one that is unknown."""
        return self._read_names(key).list_nearest(typed_name)

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
        signed_catalogue = _SignedCatalogue(content=content, signature=_decode_base64(signature))
        with self._lock:
            fresh, known_content = _check_signature(signed_catalogue, key), self._newest_content(key)
            if fresh.issued < known_content.issued:
                sentence = (
                    f"The catalogue from {fresh.issued} is older than the current one, from {known_content.issued}."
                )
                raise CatalogueRefused(sentence)
            self._json_file.write_value(signed_catalogue)
            self._content, self._key = fresh, key
            return fresh

    def _read_names(self, key: str) -> "NameIndex":
        from app.hub.repositories.catalogue_names import NameIndex  # noqa: PLC0415 -- the gateway starts without shapes

        content = self.read_content(key)
        if self._names is None or self._names[0] is not content:
            self._names = (content, NameIndex(content.models))
        return self._names[1]

    def _newest_content(self, key: str) -> CatalogueContent:
        shipped_content = parse_catalogue(self._shipped_file.read_bytes())
        fetched_content = self._read_fetched(key) if key else None
        return (
            fetched_content
            if fetched_content is not None and fetched_content.issued >= shipped_content.issued
            else shipped_content
        )

    def _read_fetched(self, key: str) -> CatalogueContent | None:
        signed_catalogue = self._json_file.read_value()
        try:
            return _check_signature(signed_catalogue, key) if signed_catalogue else None
        except (CatalogueRefused, StorageFault):
            return None


def _index_repositories(entries: Iterable[CatalogueEntry]) -> dict[str, CatalogueEntry]:
    return {
        place.partition("@")[0].casefold(): entry
        for entry in entries
        for place in (entry.base, *(place for repository in entry.repositories.values() for place in repository))
    }


def parse_catalogue(content: bytes) -> CatalogueContent:
    """Return what a file lists. Raises CatalogueRefused for one that makes no sense."""
    try:
        version = msgspec.json.decode(content, type=_FileVersion).version
        if version != VERSION:
            raise CatalogueRefused(
                f"The catalogue is of version {version}; this Roundhouse reads version {VERSION}.",
                hint="Ask whoever publishes it for a new one." if version < VERSION else "Update Roundhouse.",
            )
        content_read = msgspec.json.decode(content, type=CatalogueContent)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise CatalogueRefused("The catalogue cannot be read.") from None
    for entry in content_read.models:
        if entry.problem:
            raise CatalogueRefused(f"An entry of the catalogue {entry.problem}: {quote_value(entry.title)}.")
    return content_read


def _check_signature(signed_catalogue: _SignedCatalogue, key: str) -> CatalogueContent:
    if not is_signed(signed_catalogue.content, signed_catalogue.signature, _decode_base64(key)):
        raise CatalogueRefused("The catalogue's signature is not valid.", hint="The current one stays in use.")
    return parse_catalogue(signed_catalogue.content)


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return b""
