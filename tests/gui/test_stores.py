"""What the window asks of the gateway: each list once, whichever pages show it; and what a store makes of answers."""

from collections import Counter
from collections.abc import Callable

import msgspec
import pytest
from pytestqt.qtbot import QtBot

from app.core.downloads import Download, DownloadState
from app.core.engine_store import EngineJob
from app.core.engines import EngineState, Pause
from app.core.errors import ErrorBody
from app.core.events import (
    CalibrationChanged,
    ChatChanged,
    DownloadChanged,
    EngineChanged,
    EngineJobChanged,
    EnginesChanged,
    Event,
    FleetsChanged,
    LibraryJobChanged,
    MachinesChanged,
    ModelsChanged,
    PauseChanged,
    ProfilesChanged,
    RequestChanged,
    SettingChanged,
    UpdatesChanged,
)
from app.core.library import JobKind, LibraryJob
from app.gui.net.remote_lists import DownloadStore, LibraryStore, RunningStore, Stores
from app.gui.screens.engines.view import EnginesScreen
from app.gui.screens.models.model import ModelsSide
from app.gui.screens.models.view import ModelsScreen
from app.gui.shell.contract import PageId
from app.gui.shell.window import MainWindow
from tests.demo import data, hub, requests
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell

GONE = ErrorBody(code="storage", sentence="The disk does not answer.")
INSTALLED = EngineJobChanged(
    job=EngineJob(id="1", engine="llama.cpp", verb="install", version="b2", stage="Done", is_done=True)
)
FREED = LibraryJobChanged(job=LibraryJob(id="1", kind=JobKind.RECLAIM, is_done=True, reclaimed_bytes=1))


@pytest.fixture
def window(make_window: Callable[[PageId], MainWindow], api: DemoApi) -> MainWindow:
    """Every page has been shown, and the models page looks at the disks."""
    window = make_window(PageId.CHAT)
    for page in PageId:
        window.show_page(page)
        api.flush()
    models = window.pages.find_page(PageId.MODELS)
    assert isinstance(models, ModelsScreen)
    models._turn_to(ModelsSide.DISK)
    api.flush()
    api.calls.clear()
    return window


def reads(api: DemoApi) -> dict[str, int]:
    """Return what was fetched so far, and how often; answered first, with what the answers ask in turn."""
    api.flush()
    return dict(Counter(path.partition("?")[0] for method, path, _ in api.calls if method == "GET"))


COSTS: list[tuple[Event, list[str]]] = [
    (ModelsChanged(), ["/models", "/library/disk", "/autocomplete"]),
    (SettingChanged(name="window.theme"), ["/settings"]),
    (SettingChanged(name="models.folders"), ["/settings", "/library/disk"]),
    (SettingChanged(name="models.autocomplete"), ["/settings", "/autocomplete"]),
    (SettingChanged(name="inspector.bodies"), ["/settings", "/requests", "/usage", "/usage/keys"]),
    (SettingChanged(name=f"model.{data.READY.model}"), ["/settings", "/memory", "/model-settings"]),
    (EnginesChanged(engine="llama.cpp"), ["/engines/stock"]),
    (INSTALLED, ["/engines/stock"]),
    (FREED, ["/library/disk"]),
    (UpdatesChanged(), ["/update"]),
    (ProfilesChanged(), ["/profiles"]),
    (FleetsChanged(), ["/fleets"]),
    (MachinesChanged(), ["/machines"]),
    (CalibrationChanged(stage="Done", done=True), ["/calibration"]),
    (EngineChanged(status=data.READY), []),
    (DownloadChanged(download=hub.DOWNLOADS[0]), []),
    (RequestChanged(request=requests.REQUESTS[0]), []),
    (PauseChanged(pause=Pause(is_paused=True)), []),
    (EngineChanged(status=msgspec.structs.replace(data.READY, state=EngineState.STOPPED)), ["/machine", "/loads"]),
]
"""An event, and the lists that it is about; the last is the one after which the window knows something else."""


@pytest.mark.slow
def test_a_change_costs_one_request_for_each_list_it_is_about(
    window: MainWindow, api: DemoApi, subtests: pytest.Subtests
) -> None:
    for event, paths in COSTS:
        with subtests.test(event=event):
            api.calls.clear()
            window.shell.broadcast_event(event)
            assert reads(api) == dict.fromkeys(paths, 1)


@pytest.mark.slow
def test_changes_that_are_told_of_together_cost_one_request(window: MainWindow, api: DemoApi) -> None:
    for event in (ModelsChanged(), INSTALLED, SettingChanged(name="a"), ModelsChanged(), SettingChanged(name="b")):
        window.shell.broadcast_event(event)
    window.shell.broadcast_event(EnginesChanged(engine="llama.cpp"))
    assert reads(api) == dict.fromkeys(["/models", "/library/disk", "/autocomplete", "/engines/stock", "/settings"], 1)


@pytest.mark.slow
def test_what_is_changed_here_is_read_once_too(window: MainWindow, api: DemoApi) -> None:
    models, engines = window.pages.find_page(PageId.MODELS), window.pages.find_page(PageId.ENGINES)
    assert isinstance(models, ModelsScreen)
    assert isinstance(engines, EnginesScreen)
    model = data.MODELS[0]
    api.replies |= {f"DELETE /models/{model.name}": None, "POST /engines/llama.cpp/use": None}
    models.model.forget_model(model)
    engines.model.use_version("llama.cpp", "b1")
    window.shell.broadcast_event(ModelsChanged())
    window.shell.broadcast_event(EnginesChanged(engine="llama.cpp"))
    assert reads(api) == dict.fromkeys(["/models", "/library/disk", "/autocomplete", "/engines/stock"], 1)


@pytest.mark.slow
def test_an_engine_that_loads_has_memory_read_now_and_then_and_chats_are_read_after_a_rest(
    window: MainWindow, api: DemoApi, qtbot: QtBot
) -> None:
    for progress in (0.1, 0.2, 0.3):
        window.shell.broadcast_event(EngineChanged(status=msgspec.structs.replace(data.LOADING, progress=progress)))
        window.shell.broadcast_event(ChatChanged(chat="1"))
    qtbot.waitUntil(lambda: {"/memory", "/chats"} <= reads(api).keys())
    assert reads(api) == {"/memory": 1, "/chats": 1}


@pytest.mark.slow
def test_a_gateway_that_comes_back_is_asked_for_each_list_once(window: MainWindow, api: DemoApi) -> None:
    window.mark_connected(data.STATUS)
    counts = reads(api)
    assert {"/models", "/running", "/settings", "/status", "/engines/stock", "/machine"} <= counts.keys()
    assert set(counts.values()) == {1}


@pytest.mark.slow
def test_a_page_that_is_shown_later_shows_what_is_known(
    make_window: Callable[[PageId], MainWindow], api: DemoApi
) -> None:
    window = make_window(PageId.CHAT)
    api.calls.clear()
    window.show_page(PageId.CONNECT)
    window.show_page(PageId.SETTINGS)
    assert reads(api).keys() == {"/tools", "/autocomplete", "/hub/token", "/traces", "/preflights"}


@pytest.fixture
def stores(api: DemoApi, shell: QuietShell) -> Stores:
    stores = Stores(api, shell)
    api.flush()
    api.calls.clear()
    return stores


@pytest.fixture
def library(stores: Stores) -> LibraryStore:
    return stores.library


@pytest.fixture
def running_store(stores: Stores) -> RunningStore:
    return stores.running


@pytest.fixture
def downloads(stores: Stores) -> DownloadStore:
    return stores.downloads


def test_a_read_that_fails_keeps_what_was_there_and_says_so(
    library: LibraryStore, api: DemoApi, shell: QuietShell
) -> None:
    api.replies["GET /models"] = GONE
    shell.broadcast_event(ModelsChanged())
    api.flush()
    assert library.is_known
    assert (library.items, library.error) == (data.MODELS, GONE)
    api.replies["GET /models"] = data.MODELS[:1]
    library.read()
    api.flush()
    assert library.items == data.MODELS[:1]
    assert library.error is None


def test_what_could_not_be_read_is_read_again_when_a_page_is_shown(
    make_window: Callable[[PageId], MainWindow], api: DemoApi
) -> None:
    api.replies["GET /models"] = GONE
    window = make_window(PageId.CHAT)
    assert window.stores.library.error == GONE
    api.replies["GET /models"] = data.MODELS
    window.show_page(PageId.MODELS)
    api.flush()
    assert window.stores.library.items == data.MODELS
    assert window.stores.library.error is None


def test_changes_while_an_answer_is_under_way_cost_one_more_request(
    library: LibraryStore, api: DemoApi, shell: QuietShell
) -> None:
    library.read()
    for _ in range(3):
        shell.broadcast_event(ModelsChanged())
        library.read()
    assert api.bodies_of("GET", "/models") == [None], "there is one at a time"
    api.flush()
    assert api.bodies_of("GET", "/models") == [None, None]


def test_an_answer_does_not_undo_what_was_told_meanwhile(
    running_store: RunningStore, api: DemoApi, shell: QuietShell
) -> None:
    api.replies["GET /running"] = [data.LOADING]
    running_store.read()
    ready = msgspec.structs.replace(data.LOADING, state=EngineState.READY)
    shell.broadcast_event(EngineChanged(status=ready))
    assert ready in running_store.items, "it is shown at once"
    api.flush()
    assert running_store.items == [ready]


def test_a_download_that_ends_while_the_list_is_read_has_ended_once(
    downloads: DownloadStore, api: DemoApi, shell: QuietShell
) -> None:
    ended_downloads: list[Download] = []
    downloads.ended.connect(ended_downloads.append)
    coming_download = msgspec.structs.replace(hub.DOWNLOADS[0], state=DownloadState.RUNNING)
    finished_download = msgspec.structs.replace(coming_download, state=DownloadState.DONE)
    downloads.replace([coming_download])
    api.replies["GET /downloads"] = [finished_download]
    downloads.read()
    shell.broadcast_event(DownloadChanged(download=finished_download))
    api.flush()
    assert (ended_downloads, downloads.items) == ([finished_download], [finished_download])


def test_another_gateway_is_asked_at_once_and_the_one_before_no_longer_heard(
    library: LibraryStore, api: DemoApi, shell: QuietShell
) -> None:
    answers = iter([data.MODELS[:1], data.MODELS[:2]])
    api.replies["GET /models"] = lambda _body: next(answers)
    library.read()
    shell.connected.emit()
    api.flush()
    assert library.items == data.MODELS[:1], "only the second request was answered"
    assert api.bodies_of("GET", "/models") == [None, None]


def test_what_the_gateway_says_of_itself_is_read_once_for_all_who_show_it(stores: Stores, api: DemoApi) -> None:
    assert stores.status is stores.status
    api.flush()
    assert (api.bodies_of("GET", "/status"), stores.status.value) == ([None], data.STATUS)
