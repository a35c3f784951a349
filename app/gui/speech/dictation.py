"""Dictation: what is said into the microphone, as text where the cursor is. One recording at a time.

The recording goes to the service on this computer, and from there to the model that transcribes; to another computer
only where that model is attached, whose host is named while it records.
"""

from collections.abc import Sequence
from enum import StrEnum

import msgspec
from PySide6.QtCore import QElapsedTimer, QObject, QTimer, Signal

from app.core.capabilities import Capability
from app.core.errors import ErrorBody
from app.core.models import ModelInfo
from app.core.recordings import SoundFile, write_form
from app.core.translation import tr
from app.gui import phrases
from app.gui.net.api import GatewayApi, GatewayCall
from app.gui.speech.microphone import Microphone, SystemMicrophone

LONGEST_S = 300
"""Then it ends by itself: 9.6 MB, well below what the endpoint takes."""
_TICK_MS = 1000


class DictationState(StrEnum):
    """What it is at."""

    IDLE = "idle"
    ASKING = "asking"
    """The system asks whether the microphone may be used, or it starts."""
    RECORDING = "recording"
    TRANSCRIBING = "transcribing"


class _Transcript(msgspec.Struct, frozen=True):
    text: str = ""


class Dictation(QObject):
    """Records and has it transcribed. `refused` is a sentence in passing."""

    changed = Signal()
    text_ready = Signal(str)
    refused = Signal(str, object)

    def __init__(self, api: GatewayApi, parent: QObject) -> None:
        super().__init__(parent)
        self.state = DictationState.IDLE
        self.model: ModelInfo | None = None
        """What transcribes."""
        self._api = api
        self._microphone: Microphone | None = None
        self._call: GatewayCall | None = None
        self._clock = QElapsedTimer()
        self._ticks = QTimer(self, interval=_TICK_MS)
        self._ticks.timeout.connect(self._tick)

    @property
    def seconds(self) -> int:
        """How long it has recorded."""
        return self._clock.elapsed() // 1000 if self.state is DictationState.RECORDING else 0

    def use_microphone(self, microphone: Microphone) -> None:
        """Hear by this one."""
        self._microphone = microphone
        microphone.began.connect(self._begin)
        microphone.recorded.connect(self._transcribe)
        microphone.failed.connect(self._refuse)

    def start(self, model: ModelInfo) -> None:
        """Record for a model; nothing happens while it is at something."""
        if self.state is not DictationState.IDLE:
            return
        if self._microphone is None:
            self.use_microphone(SystemMicrophone(self))
        self.model = model
        self._enter(DictationState.ASKING)
        if self._microphone is not None:
            self._microphone.start()

    def stop(self) -> None:
        """End the recording, and have it transcribed."""
        if self.state is DictationState.RECORDING and self._microphone is not None:
            self._enter(DictationState.TRANSCRIBING)
            self._microphone.stop()

    def cancel(self) -> None:
        """Forget what was said, whatever it is at."""
        if self.state is DictationState.IDLE:
            return
        if self._microphone is not None:
            self._microphone.cancel()
        if self._call is not None:
            self._call.cancel()
            self._call = None
        self._enter(DictationState.IDLE)

    def _begin(self) -> None:
        if self.state is DictationState.ASKING:
            self._clock.start()
            self._enter(DictationState.RECORDING)

    def _tick(self) -> None:
        if self.seconds >= LONGEST_S:
            self.stop()
        else:
            self.changed.emit()

    def _transcribe(self, wav: bytes) -> None:
        if self.state is DictationState.IDLE or self.model is None:
            return
        self._enter(DictationState.TRANSCRIBING)
        form = write_form([("model", self.model.name), ("response_format", "json")], SoundFile(wav))
        self._call = self._api.post(
            "/v1/audio/transcriptions", form, kind=_Transcript, then=self._take_text, on_error=self._refuse_error
        )

    def _take_text(self, transcript: _Transcript) -> None:
        self._call = None
        self._enter(DictationState.IDLE)
        if transcript.text.strip():
            self.text_ready.emit(transcript.text.strip())
        else:
            self.refused.emit(tr("Nothing was understood."), None)

    def _refuse_error(self, error: ErrorBody) -> None:
        self._call = None
        self._refuse(error.sentence)

    def _refuse(self, sentence: str) -> None:
        if self.state is not DictationState.IDLE:
            self._enter(DictationState.IDLE)
            self.refused.emit(sentence, None)

    def _enter(self, state: DictationState) -> None:
        self.state = state
        if state is DictationState.RECORDING:
            self._ticks.start()
        else:
            self._ticks.stop()
        self.changed.emit()


def choose_transcriber(models: Sequence[ModelInfo], chat_model: str) -> ModelInfo | None:
    """Return what transcribes: the chat's own model if it can, else one on this computer, else an attached one."""
    able = [model for model in models if Capability.TRANSCRIPTION in model.capabilities and not model.problem]
    return min(able, key=lambda model: (model.name != chat_model, bool(model.attached), model.name), default=None)


def dictation_words(dictation: Dictation) -> str:
    """Return what is said while it goes on, with the host if the recording leaves this computer."""
    model = dictation.model
    host = phrases.model_host(model) if model is not None and model.attached else ""
    if dictation.state is DictationState.TRANSCRIBING:
        return tr("Transcribing at {host}…", host=host) if host else tr("Transcribing on this computer…")
    if dictation.state is DictationState.ASKING:
        return tr("Waiting for the microphone…")
    time = f"{dictation.seconds // 60}:{dictation.seconds % 60:02d}"
    if host:
        return tr("Recording {time}; it is sent to {host}", time=time, host=host)
    return tr("Recording {time}; it stays on this computer", time=time)
