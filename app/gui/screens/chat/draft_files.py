"""Files of questions that are not sent yet, for each chat: read from the disk, uploaded, and what came of it.

No widget in it. A file is uploaded as soon as it is chosen, so that its cost is known before it is sent, and
what cannot be read is said then.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from urllib.parse import quote

from PySide6.QtCore import QObject, Signal

from app.client.http import quote_segment
from app.core.attachments import MOST_ATTACHMENTS, SENSES, Attachment, AttachmentKind
from app.core.capabilities import Capability
from app.core.errors import ErrorBody
from app.core.translation import tr
from app.core.words import format_bytes, format_duration, format_tokens
from app.gui.net.api import GatewayApi, GatewayCall

_MIB = 1 << 20


@dataclass(slots=True, eq=False)
class DraftFile:
    """One file. It is being read until it has an `attachment` or an `error`."""

    name: str
    size_bytes: int
    number: int
    attachment: Attachment | None = None
    error: ErrorBody | None = None
    is_sent: bool = False
    """Whether it belongs to a question that was sent: one that is edited."""
    call: GatewayCall | None = field(default=None, repr=False)

    @property
    def is_reading(self) -> bool:
        """Whether the service has not read it yet."""
        return self.attachment is None and self.error is None

    @property
    def facts(self) -> str:
        """What is known of it, in one line."""
        if self.error is not None:
            return f"{self.error.sentence} {self.error.hint}".strip()
        if self.attachment is None:
            return tr("Reading…")
        return attachment_facts(self.attachment)


def attachment_facts(attachment: Attachment) -> str:
    """Return size and cost of a file in one line."""
    parts = [
        format_bytes(attachment.size_bytes),
        format_duration(attachment.seconds) if attachment.seconds else "",
        tr("pages as pictures") if attachment.kind is AttachmentKind.PAGES else "",
        tr("≈ {tokens} tokens", tokens=format_tokens(attachment.tokens)),
        tr("its end is left out") if attachment.is_cut else "",
    ]
    return " · ".join(part for part in parts if part)


class DraftFiles(QObject):
    """The files that go with the next question. `key` says of which chat, or of which question that is edited."""

    changed = Signal()

    def __init__(self, api: GatewayApi, parent: QObject, key: Callable[[], str], limit_mib: Callable[[], int]) -> None:
        super().__init__(parent)
        self._api, self._key, self._limit_mib = api, key, limit_mib
        self._files: dict[str, list[DraftFile]] = {}
        self._numbers = count()

    @property
    def items(self) -> list[DraftFile]:
        """The files of this draft, in the order in which they were added."""
        return self._files.get(self._key(), [])

    @property
    def attachments(self) -> list[Attachment]:
        """Those that can be sent."""
        return [file.attachment for file in self.items if file.attachment is not None]

    @property
    def tokens(self) -> int:
        """About what they take of the context."""
        return sum(attachment.tokens for attachment in self.attachments)

    @property
    def needs(self) -> set[Capability]:
        """What the model needs for them beside reading: to see, to hear."""
        return {SENSES[attachment.kind] for attachment in self.attachments if attachment.kind in SENSES}

    @property
    def is_ready(self) -> bool:
        """Whether all of them can be sent."""
        return all(file.attachment is not None for file in self.items)

    def add_paths(self, paths: Sequence[Path]) -> None:
        """Attach files of this computer."""
        for path in paths:
            self._add_path(path)

    def add_content(self, name: str, content: bytes) -> None:
        """Attach what has no file: a picture from the clipboard."""
        self._upload(self._new_file(name, len(content)), content)

    def put_attachments(self, attachments: Sequence[Attachment], *, is_sent: bool) -> None:
        """Show these as the files of the draft: those of a question that is edited, or was not taken."""
        self._files[self._key()] = [
            DraftFile(item.name, item.size_bytes, next(self._numbers), attachment=item, is_sent=is_sent)
            for item in attachments
        ]
        self.changed.emit()

    def take_attachments(self) -> list[Attachment]:
        """Return those that can be sent, and have none any more."""
        attachments = self.attachments
        self._files.pop(self._key(), None)
        self.changed.emit()
        return attachments

    def remove(self, file: DraftFile) -> None:
        """Let go of a file."""
        items = self.items
        if file in items:
            items.remove(file)
            self._forget(file)
            self.changed.emit()

    def clear(self) -> None:
        """Let go of all files of this draft."""
        for file in self._files.pop(self._key(), []):
            self._forget(file)
        self.changed.emit()

    def _add_path(self, path: Path) -> None:
        try:
            size_bytes = path.stat().st_size
            if size_bytes > self._limit_mib() * _MIB:
                self._refuse(path.name, size_bytes, _too_large(self._limit_mib()))
                return
            content = path.read_bytes()
        except OSError as error:
            sentence = tr("It cannot be read: {reason}.", reason=error.strerror or str(error))
            self._refuse(path.name, 0, ErrorBody(code="file_unreadable", sentence=sentence))
            return
        self._upload(self._new_file(path.name, size_bytes), content)

    def _new_file(self, name: str, size_bytes: int) -> DraftFile:
        file = DraftFile(name, size_bytes, next(self._numbers))
        self._files.setdefault(self._key(), []).append(file)
        return file

    def _refuse(self, name: str, size_bytes: int, error: ErrorBody) -> None:
        self._new_file(name, size_bytes).error = error
        self.changed.emit()

    def _upload(self, file: DraftFile, content: bytes) -> None:
        if len(self.items) > MOST_ATTACHMENTS:
            sentence = tr("A question takes {count} files at most.", count=MOST_ATTACHMENTS)
            file.error = ErrorBody(code="too_many_files", sentence=sentence)
            self.changed.emit()
            return

        def keep(attachment: Attachment) -> None:
            file.attachment, file.call = attachment, None
            self.changed.emit()

        def refuse(error: ErrorBody) -> None:
            file.error, file.call = error, None
            self.changed.emit()

        path = f"/attachments?name={quote(file.name, safe='')}"
        file.call = self._api.post(path, content, kind=Attachment, then=keep, on_error=refuse)
        self.changed.emit()

    def _forget(self, file: DraftFile) -> None:
        if file.call is not None:
            file.call.cancel()
        if file.attachment is not None and not file.is_sent:
            # What cannot be deleted is forgotten after a day, or was sent from another window.
            path = f"/attachments/{quote_segment(file.attachment.id)}"
            self._api.delete(path, lambda: None, lambda _error: None)


def _too_large(limit_mib: int) -> ErrorBody:
    return ErrorBody(
        code="too_large",
        sentence=tr("It has more than {limit} MiB.", limit=limit_mib),
        hint=tr("Largest request in the settings says how much a file may have."),
    )
