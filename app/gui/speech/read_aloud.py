"""Read an answer aloud with the system's own voice, one at a time, until it ends or somebody stops it.

The voice is a program of the system's that is given the words on its standard input, where no other program can read
them: `spd-say` (Speech Dispatcher) on Linux, `say` on macOS, System.Speech by PowerShell on Windows. Qt's own way,
QtTextToSpeech, comes in a package of 160 to 320 MB of which nothing else is used.
"""

import shutil
import sys
from collections.abc import Sequence

from PySide6.QtCore import QCoreApplication, QObject, QProcess, Signal

from app.core.translation import tr
from app.gui.speech.speech_text import speech_lines

_WINDOWS_SCRIPT = (
    b"Add-Type -AssemblyName System.Speech; "
    b"$reader = New-Object IO.StreamReader([Console]::OpenStandardInput(), [Text.Encoding]::UTF8); "
    b"(New-Object System.Speech.Synthesis.SpeechSynthesizer).Speak($reader.ReadToEnd())"
).decode()  # written as bytes, as it is no sentence of the window's
_COMMANDS = {
    "linux": ("spd-say", "--pipe-mode", "--wait"),
    "darwin": ("say", "-f", "-"),
    "win32": ("powershell", "-NoProfile", "-NonInteractive", "-Command", _WINDOWS_SCRIPT),
}
_DISPATCHER = "spd-say"
_DISPATCHER_COMMAND = "!-!"
"""What begins a line that Speech Dispatcher's program takes for a command instead of words."""
_END_MS = 2000
"""A program that was killed is gone long before; only a stuck kernel takes longer."""


class Voice(QObject):
    """What speaks. `ended` comes when it has said all."""

    ended = Signal()

    @property
    def is_there(self) -> bool:
        """Whether this computer has it."""
        raise NotImplementedError

    def speak(self, lines: Sequence[str]) -> None:
        """Begin to speak; what was being spoken ends."""
        raise NotImplementedError

    def stop(self) -> None:
        """Be silent at once."""
        raise NotImplementedError


class SystemVoice(Voice):
    """The system's voice, a process for each text. `platform` is a value of `sys.platform`."""

    def __init__(self, parent: QObject, platform: str = sys.platform) -> None:
        super().__init__(parent)
        self._command = _COMMANDS.get(platform, _COMMANDS["linux"])
        self._process: QProcess | None = None

    @property
    def is_there(self) -> bool:
        """Whether its program is installed."""
        return shutil.which(self._command[0]) is not None

    def speak(self, lines: Sequence[str]) -> None:
        """Begin to speak."""
        self.stop()
        process = self._process = QProcess(self)
        process.finished.connect(lambda *_end: self._end(process))
        process.errorOccurred.connect(lambda *_error: self._end(process))
        process.setStandardOutputFile(QProcess.nullDevice())
        process.setStandardErrorFile(QProcess.nullDevice())
        process.start(self._command[0], list(self._command[1:]))
        process.write("\n".join(_plain(line) for line in lines).encode() + b"\n")
        process.closeWriteChannel()

    def stop(self) -> None:
        """End the process. Speech Dispatcher, which speaks for it, is told as well."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.state() is not QProcess.ProcessState.NotRunning:
            process.kill()
            process.waitForFinished(_END_MS)
            if self._command[0] == _DISPATCHER:
                QProcess.startDetached(_DISPATCHER, ["--cancel"])
        process.deleteLater()

    def _end(self, process: QProcess) -> None:
        if process is self._process:
            self._process = None
            process.deleteLater()
            self.ended.emit()


def _plain(line: str) -> str:
    """Return a line that is nothing but words to whatever speaks it."""
    return line.replace(_DISPATCHER_COMMAND, "! ! ")


class ReadAloud(QObject):
    """Which message is being read aloud. `refused` is a sentence in passing."""

    changed = Signal()
    refused = Signal(str, object)

    def __init__(self, parent: QObject, voice: Voice | None = None) -> None:
        super().__init__(parent)
        self.message = ""
        """The message that is read; empty while nothing is."""
        self._voice = voice or SystemVoice(self)
        self._voice.ended.connect(self._end)
        application = QCoreApplication.instance()
        if application is not None:
            application.aboutToQuit.connect(self.stop)

    def toggle(self, message: str, markdown: str) -> None:
        """Read a message aloud, or stop if that is the one."""
        was = self.message
        self.stop()
        if was == message:
            return
        lines = speech_lines(markdown)
        if not self._voice.is_there:
            self.refused.emit(_absence_words(), None)
        elif not lines:
            self.refused.emit(tr("There is nothing to read aloud."), None)
        else:
            self._voice.speak(lines)
            self.message = message
            self.changed.emit()

    def stop(self) -> None:
        """Be silent."""
        if self.message:
            self._voice.stop()
            self._end()

    def _end(self) -> None:
        if self.message:
            self.message = ""
            self.changed.emit()


def _absence_words() -> str:
    if sys.platform in {"darwin", "win32"}:
        return tr("This system's voice was not found, so nothing can be read aloud.")
    return tr("Reading aloud takes Speech Dispatcher: install the package speech-dispatcher.")
