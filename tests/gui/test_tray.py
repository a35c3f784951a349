"""The icon in the tray: what it says, what its menu does, and how all goes on where there is no tray."""

from collections.abc import Iterator

import msgspec
import pytest
from PySide6.QtWidgets import QApplication, QSystemTrayIcon

from app.core.downloads import DownloadState
from app.core.engines import EngineState, EngineStatus, Pause
from app.core.errors import ErrorBody
from app.core.events import DownloadChanged, EngineChanged, PauseChanged
from app.gui.net.remote_lists import Stores
from app.gui.shell.notice_toaster import DownloadNotifier
from app.gui.shell.tray import SETTING, SIZES, Tray, tray_icon
from app.gui.shell.tray_model import MOST_LINES, TraySign, tray_look
from tests.demo import data, hub
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell

S = EngineState
GIB = 1 << 30


def engine(model: str, state: EngineState = S.READY, **fields: object) -> EngineStatus:
    return EngineStatus(model=model, engine="e", state=state, **fields)  # type: ignore[arg-type]  # the test's own


class Panel:
    """A desktop's tray, as far as Qt tells of it."""

    def __init__(self) -> None:
        self.is_there = True
        self.visible: list[bool] = []
        self.messages: list[str] = []


@pytest.fixture
def panel(monkeypatch: pytest.MonkeyPatch) -> Panel:
    panel = Panel()
    icon = QSystemTrayIcon
    monkeypatch.setattr(icon, "isSystemTrayAvailable", lambda: panel.is_there)
    monkeypatch.setattr(icon, "supportsMessages", lambda: panel.is_there)
    monkeypatch.setattr(icon, "showMessage", lambda _icon, title, *_rest: panel.messages.append(title))
    monkeypatch.setattr(icon, "show", lambda _icon: panel.visible.append(True))
    monkeypatch.setattr(icon, "hide", lambda _icon: panel.visible.append(False))
    return panel


@pytest.fixture
def tray(panel: Panel, api: DemoApi, shell: QuietShell) -> Iterator[Tray]:
    tray = Tray(shell, Stores(api, shell))
    yield tray
    tray.menu.deleteLater()


@pytest.mark.parametrize(
    ("statuses", "pause", "sign", "line"),
    [
        ([], Pause(), TraySign.IDLE, "No model is loaded"),
        ([engine("a", memory_bytes=GIB)], Pause(), TraySign.READY, "1 model, 1.0 GiB"),
        ([engine("a", memory_bytes=GIB), engine("b", memory_bytes=GIB)], Pause(), TraySign.READY, "2 models, 2.0 GiB"),
        ([engine("a"), engine("b", S.LOADING)], Pause(), TraySign.COMING, "2 models"),
        ([engine("a", S.FAILED)], Pause(), TraySign.FAILED, "No model is loaded"),
        ([engine("a", S.FAILED), engine("b")], Pause(), TraySign.READY, "1 model"),
        ([], data.PAUSED, TraySign.PAUSED, "Paused"),
        ([engine("a", S.DRAINING, in_flight=1)], data.PAUSED, TraySign.PAUSED, "Paused, finishing with 1 model"),
    ],
)
def test_a_sign_and_a_line_for_how_things_stand(
    statuses: list[EngineStatus], pause: Pause, sign: TraySign, line: str
) -> None:
    look = tray_look(is_connected=True, statuses=statuses, pause=pause)
    assert (look.sign, look.line, look.tip) == (sign, line, f"Roundhouse: {line}")


def test_each_model_with_what_it_holds_or_does() -> None:
    statuses = [
        engine("guide", memory_bytes=GIB // 2, in_flight=1),
        engine("big", S.LOADING, stage="Reading weights", progress=0.63),
        engine("broken", S.FAILED),
    ]
    look = tray_look(is_connected=True, statuses=statuses, pause=Pause())
    assert look.models == ("Guide: 512 MiB, answering", "big: Reading weights 63 %", "broken: Failed")


def test_a_long_list_is_cut_and_says_so() -> None:
    look = tray_look(is_connected=True, statuses=[engine(str(number)) for number in range(20)], pause=Pause())
    assert (len(look.models), look.models[-1]) == (MOST_LINES, "and 13 more")


def test_without_a_service_nothing_is_claimed() -> None:
    look = tray_look(is_connected=False, statuses=[engine("a")], pause=Pause())
    assert (look.sign, look.models) == (TraySign.OFF, ())


def test_every_sign_is_another_picture_in_every_size(qapp: QApplication) -> None:
    seen_pictures = set()
    for sign in TraySign:
        icon = tray_icon(sign)
        assert {size.width() for size in icon.availableSizes()} == set(SIZES)
        seen_pictures.add(bytes(icon.pixmap(22, 22).toImage().constBits()))
    assert len(seen_pictures) == len(TraySign)


def test_the_menu_follows_the_engines_in_place(tray: Tray, api: DemoApi, shell: QuietShell) -> None:
    api.flush()
    before = tray.menu.actions()
    lines = [action.text().strip() for action in tray.model_actions if action.isVisible()]
    assert lines == ["qwen3-8b-q4_k_m: 9.6 GiB, answering", "gpt-oss-20b-mxfp4: Reading weights 63 %"]
    shell.broadcast_event(EngineChanged(status=msgspec.structs.replace(data.LOADING, state=S.STOPPED)))
    assert [action.text().strip() for action in tray.model_actions if action.isVisible()] == lines[:1]
    assert tray.menu.actions() == before, "a menu that is made anew closes under the pointer"


def test_pausing_and_going_on_from_the_menu(tray: Tray, api: DemoApi, shell: QuietShell) -> None:
    api.flush()
    tray.pause_action.trigger()
    api.flush()
    assert (tray.pause_action.text(), api.bodies_of("POST", "/pause")) == ("Resume", [None])
    shell.broadcast_event(PauseChanged(pause=Pause()))
    assert tray.pause_action.text().startswith("Pause")


def test_opening_and_quitting_from_the_menu(tray: Tray) -> None:
    requests: list[str] = []
    tray.window_requested.connect(lambda: requests.append("opened"))
    tray.models_requested.connect(lambda: requests.append("models"))
    tray.quit_requested.connect(lambda: requests.append("quit"))
    for action in (tray.open_action, tray.model_actions[0], tray.quit_action):
        action.trigger()
    tray._handle_activation(QSystemTrayIcon.ActivationReason.Trigger)
    tray._handle_activation(QSystemTrayIcon.ActivationReason.Context)
    assert requests == ["opened", "models", "quit", "opened"]


def test_it_is_shown_once_the_setting_is_known_and_goes_with_it(tray: Tray, panel: Panel, api: DemoApi) -> None:
    assert panel.visible == []
    api.flush()
    assert (panel.visible[-1], tray.is_there) == (True, True)
    api.replies["GET /settings"] = [
        data.with_value(row, False) if row.name == SETTING else row  # noqa: FBT003 -- the setting's value
        for row in data.default_settings()
    ]
    tray._stores.preferences.read()
    api.flush()
    assert (panel.visible[-1], tray.is_there) == (False, False)


def test_a_tray_that_comes_later_is_found_and_none_is_not_looked_for_for_ever(
    tray: Tray, panel: Panel, api: DemoApi
) -> None:
    panel.is_there = False
    api.flush()
    assert (panel.visible, tray.is_there, tray._timer.isActive()) == ([], False, True)
    tray._look_again()
    panel.is_there = True
    tray._look_again()
    assert (tray.is_there, tray._timer.isActive()) == (True, False)
    panel.is_there = False
    tray._looks_left = 1
    tray._look_again()
    assert not tray._timer.isActive()


def test_who_looks_elsewhere_is_told_by_the_system(
    tray: Tray, panel: Panel, shell: QuietShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QApplication, "activeWindow", lambda: None)
    downloads = tray._stores.downloads
    presses: list[bool] = []
    notices = DownloadNotifier(tray._stores, shell, tray, lambda: presses.append(True))
    download_event = DownloadChanged(download=msgspec.structs.replace(hub.DOWNLOADS[0], state=DownloadState.DONE))
    downloads.replace(hub.DOWNLOADS[:1])
    shell.broadcast_event(download_event)
    assert (panel.messages, shell.messages) == (["unsloth/Qwen3-14B-GGUF:Q5_K_M was downloaded"], [])
    tray._message_clicked()
    assert presses == [True]
    panel.is_there = False
    downloads.replace(hub.DOWNLOADS[:1])
    shell.broadcast_event(download_event)
    assert (len(panel.messages), len(shell.messages)) == (1, 1), "without a tray the window says it"
    chats: list[str] = []
    shell.chat_requested.connect(chats.append)
    assert shell.offers[-1].title == "Chat with it"
    shell.offers[-1].run()
    assert chats == [download_event.download.title]
    failed_event = msgspec.structs.replace(
        download_event.download, state=DownloadState.FAILED, error=ErrorBody(code="x", sentence="No.")
    )
    downloads.replace(hub.DOWNLOADS[:1])
    shell.broadcast_event(DownloadChanged(download=failed_event))
    assert (len(shell.messages), len(shell.offers)) == (2, 1), "what did not come cannot be chatted with"
    assert notices.parent() is downloads


def test_a_message_that_is_pressed_brings_the_window_and_takes_an_unwanted_icon_away(tray: Tray, panel: Panel) -> None:
    requests: list[bool] = []
    tray.window_requested.connect(lambda: requests.append(True))
    assert tray.show_message("Here", "It is.")
    tray._message_clicked()
    assert (requests, panel.visible) == ([True], [True, False])
