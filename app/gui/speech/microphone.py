"""The microphone: asked for by the system's permission, and recorded by a program of ours until it is told to end."""

import sys

from PySide6.QtCore import QCoreApplication, QMicrophonePermission, QObject, QProcess, Qt, Signal

from app.config.programs import module_command
from app.core.recordings import RATE_HZ, MicrophoneExit, wav_of
from app.core.translation import tr

_KILL_MS = 2000
_PROGRAM = "app.extraction.microphone"


class Microphone(QObject):
    """What hears. A start is followed by one `recorded` or `failed`, or by none after `cancel`."""

    began = Signal()
    recorded = Signal(bytes)
    """A WAV file."""
    failed = Signal(str)
    """A sentence."""

    def start(self) -> None:
        """Ask for the microphone, and record."""
        raise NotImplementedError

    def stop(self) -> None:
        """End the recording, and hand it over."""
        raise NotImplementedError

    def cancel(self) -> None:
        """End it, and forget what was heard."""
        raise NotImplementedError


class SystemMicrophone(Microphone):
    """The system's microphone; `arguments` are for the program that records."""

    def __init__(self, parent: QObject, *arguments: str) -> None:
        super().__init__(parent)
        self._arguments = arguments
        self._process: QProcess | None = None
        self._is_waiting = self._has_begun = False

    def start(self) -> None:
        """Ask the system for the microphone first, where it has not said yet."""
        application = QCoreApplication.instance()
        self._is_waiting = True
        if application is not None and _permission() is Qt.PermissionStatus.Undetermined:
            application.requestPermission(QMicrophonePermission(), self, lambda _answer: self._start_if_allowed())
        else:
            self._start_if_allowed()

    def stop(self) -> None:
        """Close the program's input, which ends it."""
        if self._process is not None:
            self._process.closeWriteChannel()

    def cancel(self) -> None:
        """End the program."""
        self._is_waiting = False
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.waitForFinished(_KILL_MS)
            process.deleteLater()

    def _start_if_allowed(self) -> None:
        if not self._is_waiting:
            return
        self._is_waiting = False
        if _permission() is not Qt.PermissionStatus.Granted:
            self.failed.emit(tr("The system does not let Roundhouse use the microphone; its privacy settings do."))
            return
        self._has_begun = False
        process = self._process = QProcess(self)
        program, *arguments = module_command(_PROGRAM, *self._arguments)
        process.setStandardErrorFile(QProcess.nullDevice())  # ALSA tells there of every card that is not there
        process.readyReadStandardOutput.connect(self._note_samples)
        process.finished.connect(lambda code, _status: self._finish(process, code))
        process.errorOccurred.connect(lambda error: self._fail(process, error))
        process.start(program, arguments)

    def _note_samples(self) -> None:
        """Say that it records: from the first samples on, and no sooner."""
        if not self._has_begun:
            self._has_begun = True
            self.began.emit()

    def _fail(self, process: QProcess, error: QProcess.ProcessError) -> None:
        if error is QProcess.ProcessError.FailedToStart:
            self._finish(process, MicrophoneExit.NO_LIBRARY)

    def _finish(self, process: QProcess, code: int) -> None:
        if process is not self._process:
            return
        self._process = None
        samples = bytes(process.readAllStandardOutput().data())
        process.deleteLater()
        if code == MicrophoneExit.NO_LIBRARY:
            self.failed.emit(tr("Recording is not possible on this kind of processor yet."))
        elif code or not samples:
            self.failed.emit(_absence_words())
        else:
            self.recorded.emit(wav_of(samples, RATE_HZ))


def _permission() -> Qt.PermissionStatus:
    application = QCoreApplication.instance()
    if application is None:
        return Qt.PermissionStatus.Denied
    return application.checkPermission(QMicrophonePermission())


def _absence_words() -> str:
    if sys.platform == "linux":
        return tr("No microphone was found. PulseAudio, PipeWire or ALSA has to offer one.")
    return tr("No microphone was found.")
