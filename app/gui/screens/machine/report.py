"""State of the report: what the doctor wrote, shown before it is kept, and whether keeping it worked."""

from pathlib import Path

import msgspec
from PySide6.QtCore import QDate, QObject, Qt, Signal

from app.core.errors import ErrorBody
from app.gui.net.api import GatewayApi
from app.gui.shell.contract import Shell


class Report(QObject):
    """`text` is empty until the report is there. `said` is a sentence in passing."""

    changed = Signal()
    said = Signal(str)

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(shell)
        self._api = api
        self.text = ""
        self.is_open = self.is_reading = False
        self.error: ErrorBody | None = None

    @property
    def file_name(self) -> str:
        """A name to keep it under."""
        return f"roundhouse-report-{QDate.currentDate().toString(Qt.DateFormat.ISODate)}.json"

    @property
    def parts(self) -> list[str]:
        """What it contains: the names of its parts."""
        try:
            found = msgspec.json.decode(self.text)
        except msgspec.DecodeError:
            return []
        return [name.replace("_", " ") for name in found] if isinstance(found, dict) else []

    def open(self) -> None:
        """Have it written, and show it."""
        self.is_open = self.is_reading = True
        self.error = None
        self.changed.emit()
        self._api.get("/doctor", msgspec.Raw, self._took, self._failed)

    def close(self) -> None:
        """Put it away."""
        self.is_open, self.text = False, ""
        self.changed.emit()

    def save(self, file: Path) -> None:
        """Keep the report in a file."""
        try:
            file.write_text(self.text + "\n", encoding="utf-8")
        except OSError as problem:
            self._failed(
                ErrorBody(
                    code="storage",
                    sentence=f"The report could not be saved in {file.parent}.",
                    hint="Choose another folder.",
                    detail=str(problem),
                )
            )
            return
        self.error = None
        self.said.emit(f"{file.name} was saved.")
        self.changed.emit()

    def _took(self, raw: msgspec.Raw) -> None:
        self.is_reading, self.text = False, readable(bytes(raw))
        self.changed.emit()

    def _failed(self, error: ErrorBody) -> None:
        self.is_reading, self.error = False, error
        self.changed.emit()


def readable(raw: bytes) -> str:
    """Return JSON with a line per value; a report that came as one string is shown as it is."""
    found = msgspec.json.decode(raw)
    return found if isinstance(found, str) else msgspec.json.format(raw, indent=2).decode()
