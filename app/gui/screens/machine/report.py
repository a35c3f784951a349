"""State of the report: what the doctor wrote, shown before it is kept, and whether keeping it worked.

It is about this machine alone, or with logs and settings around it: a bundle of files, kept as a zip archive.
"""

from pathlib import Path

import msgspec
from PySide6.QtCore import QDate, QObject, Qt, Signal

from app.client.bundle import save_bundle
from app.core.errors import EnvironmentFault, ErrorBody
from app.core.machine import BundleFile, DiagnosticBundle
from app.core.translation import tr
from app.gui.net.api import GatewayApi
from app.gui.shell.contract import Shell


class ReportModel(QObject):
    """`text` is empty until the report is there; with `is_bundle` logs and settings are in it.

    `toast_requested` is said in passing.
    """

    changed = Signal()
    toast_requested = Signal(str)

    def __init__(self, api: GatewayApi, shell: Shell) -> None:
        super().__init__(shell)
        self._api = api
        self.text = ""
        self.is_open = self.is_reading = self.is_bundle = False
        self._bundle: DiagnosticBundle | None = None
        self.error: ErrorBody | None = None

    @property
    def file_name(self) -> str:
        """A name to keep it under."""
        suffix = "zip" if self.is_bundle else "json"
        return f"roundhouse-report-{QDate.currentDate().toString(Qt.DateFormat.ISODate)}.{suffix}"

    @property
    def parts(self) -> list[str]:
        """What it contains: the names of its parts."""
        if self._bundle is not None:
            return [file.name for file in self._bundle.files]
        try:
            content = msgspec.json.decode(self.text)
        except msgspec.DecodeError:
            return []
        return [name.replace("_", " ") for name in content] if isinstance(content, dict) else []

    def open(self, *, is_bundle: bool = False) -> None:
        """Have it written, and show it."""
        self.is_open = self.is_reading = True
        self.is_bundle, self._bundle, self.text = is_bundle, None, ""
        self.error = None
        self.changed.emit()
        if is_bundle:
            self._api.get("/bundle", DiagnosticBundle, self._show_bundle, self._store_error)
        else:
            self._api.get("/doctor", msgspec.Raw, self._show_text, self._store_error)

    def read_again(self) -> None:
        """Have the same written once more."""
        self.open(is_bundle=self.is_bundle)

    def close(self) -> None:
        """Put it away."""
        self.is_open, self.text, self._bundle = False, "", None
        self.changed.emit()

    def save(self, file: Path) -> None:
        """Keep the report in a file."""
        try:
            if self._bundle is not None:
                save_bundle(self._bundle, file)
            else:
                file.write_text(self.text + "\n", encoding="utf-8")
        except (OSError, EnvironmentFault) as problem:
            self._store_error(
                ErrorBody(
                    code="storage",
                    sentence=tr("The report could not be saved in {folder}.", folder=file.parent),
                    hint=tr("Choose another folder."),
                    detail=str(problem),
                )
            )
            return
        self.error = None
        self.toast_requested.emit(tr("{name} was saved.", name=file.name))
        self.changed.emit()

    def _show_text(self, raw: msgspec.Raw) -> None:
        if self.is_bundle:
            return
        self.is_reading, self.text = False, format_json(bytes(raw))
        self.changed.emit()

    def _show_bundle(self, bundle: DiagnosticBundle) -> None:
        if not self.is_bundle:
            return
        self.is_reading, self._bundle, self.text = False, bundle, "\n\n".join(map(format_file, bundle.files))
        self.changed.emit()

    def _store_error(self, error: ErrorBody) -> None:
        self.is_reading, self.error = False, error
        self.changed.emit()


def format_file(file: BundleFile) -> str:
    """Return a file of a bundle under its name and what it is for."""
    return f"{file.name}: {file.why}\n{'=' * len(file.name)}\n{file.text.strip()}"


def format_json(raw: bytes) -> str:
    """Return JSON with a line per value; a report that came as one string is shown as it is."""
    value = msgspec.json.decode(raw)
    return value if isinstance(value, str) else msgspec.json.format(raw, indent=2).decode()
