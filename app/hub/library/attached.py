"""Endpoints that somebody else runs, listed as models: one record and one key file for each, in a folder of their own.

The record is what tells the supervisor that something changed, so it is written anew with every new key; the key lies
beside it (mode 0600), never in the settings and never in a value that travels.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from app.core.errors import Conflict, StorageFault
from app.core.models import ModelInfo
from app.hub.library import naming
from app.hub.library.made import checked_name
from app.hub.library.registry_file import KeptFile, write_whole

FORMAT = "remote"
KEY_SUFFIX = ".key"
_RECORD_SUFFIX = ".json"
_DIGITS = 16


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """One model of an endpoint. `url` is the base its routes are below; `served_as` what the endpoint calls it."""

    name: str
    url: str
    served_as: str
    context: int | None = None
    chats: bool = True
    embeds: bool = False
    attached_at: float = 0.0


class Attachments:
    """The attached models. Reads and writes disks; its library holds a lock around what reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def models(self) -> list[ModelInfo]:
        """Return them as the library lists models, by name."""
        records = sorted(self.folder.glob("*" + _RECORD_SUFFIX)) if self.folder.is_dir() else []
        read = [(path, _file(path).read()) for path in records]
        return sorted((_listed(path, one) for path, one in read if one), key=lambda model: model.name)

    def put(self, attachment: Attachment, key: str) -> None:
        """Keep one, in place of the one that had its name. Raises StorageFault."""
        record = self._record(attachment.name)
        # First: an endpoint whose record has no key would be asked without one.
        write_whole(record.with_suffix(KEY_SUFFIX), key.encode(), "The endpoint's key")
        _file(record).write(attachment)

    def remove(self, record: Path) -> None:
        """Forget one, and its key. Raises StorageFault."""
        try:
            record.unlink(missing_ok=True)
            record.with_suffix(KEY_SUFFIX).unlink(missing_ok=True)
        except OSError as error:
            raise StorageFault(f"The attached model could not be forgotten: {error}") from error

    def _record(self, name: str) -> Path:
        digest = hashlib.sha256(name.casefold().encode()).hexdigest()[:_DIGITS]
        return self.folder / (digest + _RECORD_SUFFIX)


def with_free_name(one: Attachment, others: Mapping[str, ModelInfo]) -> Attachment:
    """Return it under a name that no other model has; attached anew it keeps its own. `others` by folded name.

    Raises BadRequest for a name no client could ask for.
    """
    name = checked_name(one.name)
    for tried in (name, f"{name}@{urlsplit(one.url).hostname}", f"{name}@{urlsplit(one.url).netloc.replace(':', '-')}"):
        taken = others.get(naming.folded(tried))
        if taken is None or (taken.preset is None and (taken.attached, taken.served_as) == (one.url, one.served_as)):
            return msgspec.structs.replace(one, name=tried)
    raise Conflict(f"There is a model called {name} already.", hint="Attach it under another name.")


def _file(path: Path) -> KeptFile[Attachment]:
    return KeptFile(path, Attachment, "The attached model")


def _listed(record: Path, one: Attachment) -> ModelInfo:
    return ModelInfo(
        name=one.name,
        title=one.name,
        path=str(record),
        format=FORMAT,
        size_bytes=0,
        trained_context=one.context,
        chats=one.chats,
        embeds=one.embeds,
        modified_at=one.attached_at,
        attached=one.url,
        served_as=one.served_as,
    )
