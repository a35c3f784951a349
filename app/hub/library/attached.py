"""Endpoints that somebody else runs, listed as models: one record and one key file for each, in a folder of their own.

The record is what tells the supervisor that something changed, so it is written anew with every new key; the key lies
beside it (mode 0600), never in the settings and never in a value that travels.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from app.config.private_files import save_private
from app.core.capabilities import SINGLE, Capability, add_implied
from app.core.errors import Conflict, StorageFault
from app.core.fleets import LocalReplica
from app.core.models import ModelInfo
from app.hub.library import naming
from app.hub.library.made import check_name
from app.hub.library.registry_file import JsonFile
from engines.api import Route

FORMAT = "remote"
KEY_SUFFIX = ".key"
_RECORD_SUFFIX = ".json"
_DIGITS = 16


class RouteProbe(msgspec.Struct, frozen=True, kw_only=True):
    """What came of asking an endpoint for one of its routes. `at` is Unix seconds."""

    path: str
    """Where the route is, below the endpoint's base; empty if it has none for this model."""
    at: float
    text_field: str = ""
    """Of a tokenizer's: what it calls the text in a request."""


class EndpointKnowledge(msgspec.Struct, frozen=True, kw_only=True):
    """What an endpoint says of a model, and what asking it showed. What nobody said is in none of them."""

    cards: dict[Capability, bool] = {}
    context: int | None = None
    probes: dict[Route, RouteProbe] = {}
    server: str = ""
    """What program answers there, as far as its answers tell."""
    digest: str = ""
    """Of the model's entry in the endpoint's list: with another one all of this is asked for anew."""
    read_at: float = 0.0

    @property
    def answers(self) -> dict[Capability, bool]:
        """What is known; a route that was tried counts more than a card."""
        tried_capabilities = {
            _SHOWS[route]: bool(probe.path) for route, probe in self.probes.items() if route in _SHOWS
        }
        return {**self.cards, **tried_capabilities}


_SHOWS = {
    Route.EMBEDDINGS: Capability.EMBEDDING,
    Route.RERANK: Capability.RERANK,
    Route.INFILL: Capability.INFILL,
    Route.TRANSCRIPTIONS: Capability.TRANSCRIPTION,
}
"""What a route that is there shows a model to do."""


class ReplicaRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One replica of a fleet. `weights` is set for an engine on this computer: the model whose files it reads."""

    name: str
    url: str
    is_drained: bool = False
    weights: str = ""
    local: LocalReplica = LocalReplica()

    @property
    def port(self) -> int:
        """Where a local one listens."""
        return urlsplit(self.url).port or 0


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """One model of an endpoint. `url` is the base its routes are below; `served_as` what the endpoint calls it.

    `can` and `stated_context` are what a person says, who goes before everything; None where nobody does.
    """

    name: str
    url: str
    served_as: str
    can: list[Capability] | None = None
    stated_context: int | None = None
    known: EndpointKnowledge = EndpointKnowledge()
    attached_at: float = 0.0
    machine: str = ""
    """The paired machine it is on, whose name then ends the model's."""
    router: str = ""
    """The engine that shares requests out over `replicas`; empty for a single endpoint."""
    policy: str = ""
    replicas: tuple[str, ...] = ()
    """Addresses among which the router chooses: of `members` those that are not drained."""
    members: tuple[ReplicaRecord, ...] = ()
    """All replicas of a fleet; empty in records of before there were several kinds, whose `replicas` are all."""
    is_stopped: bool = False
    """Whether a person stopped the fleet: its engines are not started."""

    @property
    def all_members(self) -> tuple[ReplicaRecord, ...]:
        """Every replica of a fleet."""
        return self.members or tuple(
            ReplicaRecord(name=str(number), url=url) for number, url in enumerate(self.replicas, 1)
        )

    def with_members(self, members: Sequence[ReplicaRecord]) -> "Attachment":
        """Return it with other replicas; those that are not drained are the router's."""
        active = tuple(member.url for member in members if not member.is_drained)
        return msgspec.structs.replace(self, members=tuple(members), replicas=active)

    @property
    def capabilities(self) -> list[Capability]:
        """What it is taken to do.

        Where nothing is known it chats, as most do, and is given tools: editors leave out a model without, and an
        endpoint that does not take them says so itself.
        """
        if self.can is not None:
            return self.can
        answers = self.known.answers
        present = {capability for capability, is_so in answers.items() if is_so}
        if Capability.CHAT not in answers and present.isdisjoint(SINGLE):
            present.add(Capability.CHAT)
        if Capability.CHAT in present and Capability.TOOLS not in answers:
            present.add(Capability.TOOLS)
        return add_implied(present)

    @property
    def impossible_capabilities(self) -> frozenset[Capability]:
        """What it surely cannot do. The rest is tried."""
        if self.can is not None:
            return frozenset(Capability) - {*self.can}
        return frozenset(capability for capability, is_so in self.known.answers.items() if not is_so)

    @property
    def context(self) -> int | None:
        """Tokens it takes at most, as far as anybody says."""
        return self.stated_context or self.known.context


class AttachmentStore:
    """The attached models. Reads and writes disks; its library holds a lock around what reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._records: dict[Path, Attachment] = {}
        """What the records say: requests must not wait for a disk."""

    def list_models(self) -> list[ModelInfo]:
        """Return them as the library lists models, by name."""
        records = sorted(self.folder.glob("*" + _RECORD_SUFFIX)) if self.folder.is_dir() else []
        read = ((path, _record_file(path).read_value()) for path in records)
        self._records = {path: attachment for path, attachment in read if attachment is not None}
        return sorted((_model_info(path, entry) for path, entry in self._records.items()), key=lambda model: model.name)

    def put_attachment(self, attachment: Attachment, key: str) -> None:
        """Keep one, in place of the one that had its name; what was said of that one stays. Raises StorageFault."""
        record = self._record_path(attachment.name)
        # First: an endpoint whose record has no key would be asked without one.
        save_private(record.with_suffix(KEY_SUFFIX), key.encode(), "the endpoint's key")
        before = _record_file(record).read_value()
        if before is not None and (before.url, before.served_as) == (attachment.url, attachment.served_as):
            can = before.can if attachment.can is None else attachment.can
            context = attachment.stated_context or before.stated_context
            attachment = msgspec.structs.replace(attachment, can=can, stated_context=context)
        self.rewrite_attachment(attachment)

    def rewrite_attachment(self, attachment: Attachment) -> None:
        """Keep what is known now of one that is attached; its key stays. Raises StorageFault."""
        record = self._record_path(attachment.name)
        _record_file(record).write_value(attachment)
        self._records[record] = attachment

    def attachment_at(self, record: Path) -> Attachment | None:
        """Return one by its record, as it was read last; None if it is gone. May be asked from any thread."""
        known_record = self._records.get(record)
        return known_record if known_record is not None else _record_file(record).read_value()

    def read_key(self, name: str) -> str:
        """Return the key of one; empty where it has none."""
        file = self._record_path(name).with_suffix(KEY_SUFFIX)
        return file.read_text("utf-8") if file.is_file() else ""

    def remove_attachment(self, record: Path) -> None:
        """Forget one, and its key. Raises StorageFault."""
        try:
            self._records.pop(record, None)
            record.unlink(missing_ok=True)
            record.with_suffix(KEY_SUFFIX).unlink(missing_ok=True)
        except OSError as error:
            raise StorageFault(f"The attached model could not be removed from the list: {error}") from error

    def _record_path(self, name: str) -> Path:
        digest = hashlib.sha256(name.casefold().encode()).hexdigest()[:_DIGITS]
        return self.folder / (digest + _RECORD_SUFFIX)


def with_free_name(attachment: Attachment, others: Mapping[str, ModelInfo]) -> Attachment:
    """Return it under a name that no other model has; attached anew it keeps its own. `others` by folded name.

    Raises BadRequest for a name no client could ask for.
    """
    name = check_name(attachment.name)
    for candidate_name in (
        *([f"{name}@{attachment.machine}"] if attachment.machine else [name]),
        f"{name}@{urlsplit(attachment.url).hostname}",
        f"{name}@{urlsplit(attachment.url).netloc.replace(':', '-')}",
    ):
        other_model = others.get(naming.fold_name(candidate_name))
        if other_model is None or (other_model.preset is None and _is_same(other_model, attachment)):
            return msgspec.structs.replace(attachment, name=candidate_name)
    raise Conflict(f"There is a model called {name} already.", hint="Attach it under another name.")


def _is_same(other_model: ModelInfo, attachment: Attachment) -> bool:
    """Tell whether a model is attached anew: of the same endpoint, or a fleet whose replicas may be others."""
    if other_model.router or attachment.router:
        return bool(other_model.router and attachment.router)
    return (other_model.attached, other_model.served_as) == (attachment.url, attachment.served_as)


def _record_file(path: Path) -> JsonFile[Attachment]:
    return JsonFile(path, Attachment, "the attached model")


def _model_info(record: Path, attachment: Attachment) -> ModelInfo:
    return ModelInfo(
        name=attachment.name,
        title=attachment.name,
        path=str(record),
        format=FORMAT,
        size_bytes=0,
        trained_context=attachment.context,
        chats=Capability.CHAT in attachment.capabilities,
        embeds=Capability.EMBEDDING in attachment.capabilities,
        capabilities=attachment.capabilities,
        modified_at=attachment.attached_at,
        attached=attachment.url,
        served_as=attachment.served_as,
        served_by=attachment.known.server,
        router=attachment.router,
        machine=attachment.machine,
    )
