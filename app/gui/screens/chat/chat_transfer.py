"""Export and import chats from the window: the command line does it, in a process of its own, and says how it went.

A file of another program's is read there, so that one that is broken or very large cannot stop the window.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, Signal

from app.config.programs import module_command
from app.core.chats import ExportReport, ImportReport
from app.core.errors import ErrorBody
from app.core.translation import tr, tr_list, tr_plural

ENDINGS = (".pdf", ".md", ".html", ".json")
"""Of the formats one chat can be written in."""
_SHOWN_NAMES = 3


def export_formats() -> str:
    """Return the formats as file dialogs have them."""
    names = (tr("PDF"), tr("Markdown"), tr("HTML"), tr("JSON"))
    return ";;".join(f"{name} (*{suffix})" for name, suffix in zip(names, ENDINGS, strict=True))


class TargetFile(NamedTuple):
    """A file to write. The dialog asked before it `overwrites` what is there; nobody asked about an added ending."""

    path: Path
    overwrites: bool


def target_file(path: str, chosen_filter: str) -> TargetFile:
    """Return a file from a dialog, with the ending of the chosen format where none was typed."""
    file, endings = Path(path), ENDINGS if chosen_filter else ENDINGS[-1:]
    if file.suffix.lower() in endings:
        return TargetFile(file, overwrites=True)
    suffix = chosen_filter.partition("*")[2].rstrip(")") or endings[0]
    return TargetFile(file.with_name(file.name + suffix), overwrites=False)


class _ImportReply(msgspec.Struct, frozen=True, kw_only=True):
    """What the command prints."""

    done: ImportReport = msgspec.field(name="import")


class _ExportReply(msgspec.Struct, frozen=True, kw_only=True):
    """What the command prints."""

    export: ExportReport


class _ErrorReply(msgspec.Struct, frozen=True, kw_only=True):
    """What the command prints where it fails."""

    error: ErrorBody


class ChatTransfer(QObject):
    """At most one export or import at a time. `toast_requested` says in a sentence how it went."""

    changed = Signal()
    toast_requested = Signal(str, object)
    failed = Signal(object)

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._process: QProcess | None = None

    @property
    def is_busy(self) -> bool:
        """Whether one goes on."""
        return self._process is not None

    def export_chat(self, chat: str, file: TargetFile) -> None:
        """Write a chat to a file, in the format its name ends with."""
        self._run(
            ("export", chat, *_target_arguments(file)),
            lambda data: _add_left_out(tr("The chat was written to {file}.", file=file.path.name), data),
        )

    def export_all(self, file: TargetFile) -> None:
        """Write every chat, with all branches and files, and their folders, as JSON."""
        self._run(
            ("export", "--all", *_target_arguments(file)),
            lambda data: _add_left_out(tr("All chats were written to {file}.", file=file.path.name), data),
        )

    def import_path(self, path: Path) -> None:
        """Add the chats of a file, an archive or a folder."""
        self._run(("import", str(path)), lambda data: describe_import(_decode_import(data)))

    def cancel(self) -> None:
        """End what goes on; what is added until then stays."""
        if self._process is not None:
            self._process.kill()

    def _run(self, arguments: tuple[str, ...], describe: Callable[[bytes], str]) -> None:
        if self._process is not None:
            return
        program, *rest = module_command("app.cli", "chats", *arguments, "--json")
        process = QProcess(self)
        environment = QProcessEnvironment.systemEnvironment()
        environment.insert("PYTHONUTF8", "1")
        process.setProcessEnvironment(environment)
        process.finished.connect(lambda: self._end(process, describe))
        process.errorOccurred.connect(lambda error: self._end_unless_running(process, error))
        self._process = process
        self.changed.emit()
        process.start(program, rest)
        process.closeWriteChannel()

    def _end_unless_running(self, process: QProcess, error: QProcess.ProcessError) -> None:
        if error is QProcess.ProcessError.FailedToStart:
            self._finish(process)
            self.failed.emit(_broke_off(process.errorString()))

    def _end(self, process: QProcess, describe: Callable[[bytes], str]) -> None:
        self._finish(process)
        data = bytes(process.readAllStandardOutput().data())
        if process.exitStatus() is QProcess.ExitStatus.NormalExit and process.exitCode() == 0:
            self.toast_requested.emit(describe(data), None)
            return
        try:
            error = msgspec.json.decode(data, type=_ErrorReply).error
        except msgspec.MsgspecError:
            error = _broke_off(bytes(process.readAllStandardError().data()).decode("utf-8", "replace")[-500:])
        self.failed.emit(error)

    def _finish(self, process: QProcess) -> None:
        self._process = None
        process.deleteLater()
        self.changed.emit()


def _target_arguments(file: TargetFile) -> tuple[str, ...]:
    return (str(file.path), "--overwrite") if file.overwrites else (str(file.path),)


def _broke_off(detail: str) -> ErrorBody:
    return ErrorBody(code="interrupted", sentence=tr("It was interrupted before it was done."), detail=detail)


def _add_left_out(sentence: str, data: bytes) -> str:
    """Return a sentence with another about what the export that the command describes does not have."""
    try:
        names = msgspec.json.decode(data, type=_ExportReply).export.left_out
    except msgspec.MsgspecError:
        return sentence
    if not names:
        return sentence
    list_text = tr_list(names[:_SHOWN_NAMES])
    if len(names) > _SHOWN_NAMES:
        more = tr("{count} attached files are not in it, among them {names}.", count=len(names), names=list_text)
    else:
        more = tr("Not in it: {names}.", names=list_text)
    return f"{sentence} {more}"


def _decode_import(data: bytes) -> ImportReport:
    try:
        return msgspec.json.decode(data, type=_ImportReply).done
    except msgspec.MsgspecError:
        return ImportReport()


def describe_import(counts: ImportReport) -> str:
    """Return what an import came to, in a sentence or two."""
    parts = [tr_plural("{count} chat was added.", "{count} chats were added.", counts.added)]
    if counts.folders:
        parts.append(tr_plural("{count} folder was added.", "{count} folders were added.", counts.folders))
    if counts.extended:
        parts.append(tr_plural("{count} got newer messages.", "{count} got newer messages.", counts.extended))
    if counts.unchanged:
        parts.append(tr_plural("{count} was here already.", "{count} were here already.", counts.unchanged))
    if counts.deleted:
        parts.append(tr_plural("{count} is in the trash.", "{count} are in the trash.", counts.deleted))
    if counts.unreadable:
        parts.append(tr_plural("{count} has no text to read.", "{count} have no text to read.", counts.unreadable))
    if counts.left_out:
        parts.append(tr_plural("{count} file was left out.", "{count} files were left out.", counts.left_out))
    return " ".join(parts)
