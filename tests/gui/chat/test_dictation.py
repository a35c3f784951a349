"""Dictation: with a microphone that the test plays, and with the program that records, which hears silence here."""

import struct

import pytest
from msgspec.structs import replace
from PySide6.QtCore import QCoreApplication, QObject, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.core.capabilities import Capability
from app.core.errors import ErrorBody
from app.core.models import ModelInfo
from app.core.recordings import SILENCE, FormContent
from app.gateway.entry.forms import read_form
from app.gui.net.remote_lists import Stores
from app.gui.screens.chat.view import ChatScreen
from app.gui.shell.contract import Shell
from app.gui.speech import dictation as dictation_module
from app.gui.speech.dictation import DictationState, _Transcript, choose_transcriber
from app.gui.speech.microphone import Microphone, SystemMicrophone
from app.gui.theme.theme import Theme
from tests.demo import data
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell

ROUTE = "POST /v1/audio/transcriptions"
EAR = ModelInfo(
    name="ear",
    title="Ear",
    path="",
    format="gguf",
    size_bytes=1,
    capabilities=[Capability.CHAT, Capability.TRANSCRIPTION],
)
FAR_EAR = replace(EAR, name="whisper", format="remote", attached="http://box.example:8000/v1")


class PlayedMicrophone(Microphone):
    """Hears what the test says."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def cancel(self) -> None:
        self.calls.append("cancel")


@pytest.fixture
def models() -> list[ModelInfo]:
    return [EAR]


@pytest.fixture
def screen(qtbot: QtBot, theme: Theme, api: DemoApi, shell: Shell, models: list[ModelInfo]) -> ChatScreen:
    api.replies["GET /models"] = [*data.MODELS, *models]
    api.replies[ROUTE] = _Transcript(text=" forty locomotives. ")
    screen = ChatScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.resize(1100, 720)
    with qtbot.waitActive(screen):
        screen.show()
        screen.activateWindow()
    api.flush()
    screen.conversation_view.composer.field.setFocus()
    return screen


@pytest.fixture
def microphone(screen: ChatScreen) -> PlayedMicrophone:
    microphone = PlayedMicrophone(screen)
    screen.model.dictation.use_microphone(microphone)
    return microphone


def press_keys(screen: ChatScreen) -> None:
    keys = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    QTest.keyClick(screen.conversation_view.composer.field, Qt.Key.Key_D, keys)


def test_what_is_said_is_inserted_at_the_cursor(screen: ChatScreen, api: DemoApi, microphone: PlayedMicrophone) -> None:
    view = screen.conversation_view
    composer, bar = view.composer, view.dictation_bar
    composer.set_text("It holds  today")
    cursor = composer.field.textCursor()
    cursor.setPosition(len("It holds"))
    composer.field.setTextCursor(cursor)
    view.dictation_tool.click()
    assert (microphone.calls, bar.isVisible()) == (["start"], True)
    assert not bar.stop_button.isVisible(), "it does not record yet"
    microphone.began.emit()
    assert bar.words.text() == "Recording 0:00; it stays on this computer"
    bar.stop_button.click()
    assert microphone.calls == ["start", "stop"]
    microphone.recorded.emit(SILENCE)
    assert bar.words.text() == "Transcribing on this computer…"
    api.flush()
    assert composer.text == "It holds forty locomotives.  today"
    assert not bar.isVisible()
    assert not view.dictation_tool.isChecked()
    (form,) = api.bodies_of("POST", "/v1/audio/transcriptions")
    assert isinstance(form, FormContent)
    upload = read_form(form.body, form.content_type)
    assert upload.fields == [("model", "ear"), ("response_format", "json")]
    assert bytes(upload.recording.content) == SILENCE


def test_keys_begin_and_end_it_and_escape_forgets_it(
    screen: ChatScreen, api: DemoApi, microphone: PlayedMicrophone
) -> None:
    dictation = screen.model.dictation
    press_keys(screen)
    microphone.began.emit()
    press_keys(screen)
    assert (dictation.state, microphone.calls) == (DictationState.TRANSCRIBING, ["start", "stop"])
    QTest.keyClick(screen.conversation_view.composer.field, Qt.Key.Key_Escape)
    assert dictation.state is DictationState.IDLE
    microphone.recorded.emit(SILENCE)
    api.flush()
    assert not api.bodies_of("POST", "/v1/audio/transcriptions")
    assert screen.conversation_view.composer.text == ""


def test_another_chat_forgets_it(screen: ChatScreen, api: DemoApi, microphone: PlayedMicrophone) -> None:
    press_keys(screen)
    microphone.began.emit()
    press_keys(screen)
    microphone.recorded.emit(SILENCE)
    screen.model.new_chat()
    api.flush()
    assert screen.model.dictation.state is DictationState.IDLE
    assert screen.conversation_view.composer.text == ""


def test_a_long_recording_ends_by_itself(
    screen: ChatScreen, microphone: PlayedMicrophone, monkeypatch: pytest.MonkeyPatch
) -> None:
    press_keys(screen)
    microphone.began.emit()
    monkeypatch.setattr(dictation_module, "LONGEST_S", 0)
    screen.model.dictation._tick()
    assert microphone.calls == ["start", "stop"]


@pytest.mark.parametrize("models", [[FAR_EAR]])
def test_the_host_is_named_where_it_leaves_this_computer(screen: ChatScreen, microphone: PlayedMicrophone) -> None:
    press_keys(screen)
    microphone.began.emit()
    words = screen.conversation_view.dictation_bar.words
    assert words.text() == "Recording 0:00; it is sent to box.example:8000"
    press_keys(screen)
    assert words.text() == "Transcribing at box.example:8000…"


@pytest.mark.parametrize("models", [[]])
def test_without_a_model_the_button_says_what_is_needed(screen: ChatScreen, shell: QuietShell) -> None:
    tool = screen.conversation_view.dictation_tool
    assert not tool.isEnabled()
    assert "an attached endpoint with Whisper" in tool.toolTip()
    assert tool.accessibleDescription() == tool.toolTip()
    press_keys(screen)
    assert "an attached endpoint with Whisper" in shell.messages[-1]


def test_what_goes_wrong_is_said(
    screen: ChatScreen, api: DemoApi, microphone: PlayedMicrophone, shell: QuietShell
) -> None:
    api.replies[ROUTE] = ErrorBody(code="model_cannot", sentence="It cannot.")
    press_keys(screen)
    microphone.failed.emit("No microphone was found.")
    assert shell.messages[-1] == "No microphone was found."
    for reply, sentence in ((api.replies[ROUTE], "It cannot."), (_Transcript(text=" "), "Nothing was understood.")):
        api.replies[ROUTE] = reply
        press_keys(screen)
        microphone.began.emit()
        press_keys(screen)
        microphone.recorded.emit(SILENCE)
        api.flush()
        assert shell.messages[-1] == sentence
        assert screen.model.dictation.state is DictationState.IDLE


def test_the_chats_own_model_transcribes_then_one_on_this_computer() -> None:
    assert choose_transcriber([FAR_EAR, EAR], "whisper") == FAR_EAR
    assert choose_transcriber([FAR_EAR, EAR], "other") == EAR
    assert choose_transcriber([replace(EAR, problem="it is cut off."), *data.MODELS], "ear") is None


@pytest.fixture
def recorder() -> Microphone:
    pytest.importorskip("miniaudio", reason="it has no wheel for this processor")
    application = QCoreApplication.instance()
    assert application is not None
    return SystemMicrophone(application, "--no-device")


def test_the_program_records_until_it_is_told_to_end(qtbot: QtBot, recorder: Microphone) -> None:
    with qtbot.waitSignal(recorder.began):
        recorder.start()
    with qtbot.waitSignal(recorder.recorded) as recording_signal:
        recorder.stop()
    assert recording_signal.args is not None
    wav: bytes = recording_signal.args[0]
    channels, rate = struct.unpack("<HI", wav[22:28])
    assert (wav[:4], channels, rate) == (b"RIFF", 1, 16_000)
    assert len(wav) > 44 + 1000
    assert not any(wav[44:]), "there is no device, so it hears nothing"


def test_a_cancelled_recording_comes_to_nothing(qtbot: QtBot, recorder: Microphone) -> None:
    recordings: list[object] = []
    recorder.recorded.connect(recordings.append)
    with qtbot.waitSignal(recorder.began):
        recorder.start()
    recorder.cancel()
    with qtbot.waitSignal(recorder.began):  # and can begin anew
        recorder.start()
    recorder.cancel()
    assert recordings == []
