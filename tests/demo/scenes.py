"""What is photographed: all scenes there are.

Every page is drawn in every look; what is special (long names, errors, nothing there, no gateway) in light and dark.
"""

from collections.abc import Iterator

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.core.chats import Chat, ChatSummary
from app.core.connections import ConnectionList
from app.core.engine_store import EngineJob
from app.core.engines import EngineState as S
from app.core.events import CalibrationChanged, EngineJobChanged
from app.gui.screens.chat.view import ChatScreen
from app.gui.screens.connect.view import ConnectScreen
from app.gui.screens.connections.model import OFFLINE
from app.gui.screens.engines.view import EnginesScreen
from app.gui.screens.machine.controls import Controls
from app.gui.screens.machine.learning import Learning
from app.gui.screens.machine.sums import Sums
from app.gui.screens.machine.truths import Truths
from app.gui.screens.machine.view import MachineScreen
from app.gui.screens.machine.wishes import Wishes
from app.gui.screens.models.card import CardView
from app.gui.screens.models.view import ModelsScreen
from app.gui.screens.server.rows import EngineRow
from app.gui.screens.server.view import ServerScreen
from app.gui.screens.settings.view import SettingsScreen
from app.gui.shell.contract import Page
from app.gui.shell.departure import Departure, DepartureKnown
from app.gui.shell.leaving import Service
from app.gui.shell.window import Window
from app.gui.widgets.fields import Field
from app.gui.widgets.panels import Fold
from app.gui.widgets.panels import Page as PageView
from tests.demo import advice, connections, data, engines, hub, long_chat, machines, updates
from tests.demo.api import DemoApi
from tests.demo.disk_scenes import disk_scenes
from tests.demo.scene import BOTH, EVERY_LOOK, USUAL_LOOKS, Act, Look, Replies, Scene, scroll_to


def scenes() -> Iterator[Scene]:
    """Yield everything that is photographed."""
    nothing = data.replies(running=[], models=[])
    much = data.replies(running=[data.READY, data.FAILED], models=[*data.MODELS, data.LONG_MODEL, data.RTL_MODEL])
    for page in Page:
        act = open_chat if page is Page.CHAT else nothing_more
        yield Scene(page.value, page, with_chat(data.replies()), act, looks=USUAL_LOOKS)
        yield Scene(f"{page.value}-mirrored", page, with_chat(much), act, looks=(Look(is_mirrored=True),))
        yield Scene(f"{page.value}-waiting", page, {})
        yield Scene(f"{page.value}-offline", page, {}, lambda window, _api: window.lost(data.OFFLINE), is_online=False)
    yield Scene("chat-new", Page.CHAT, with_chat(data.replies()))
    yield Scene("chat-first-start", Page.CHAT, with_chat(data.replies(running=[], models=data.MODELS[:1]), listed=[]))
    yield Scene("chat-failed", Page.CHAT, with_chat(much, long_chat.failed_chat()), open_chat)
    yield Scene("models-settings", Page.MODELS, data.replies(), tune, looks=USUAL_LOOKS)
    yield Scene("models-settings-end", Page.MODELS, data.replies(), tune_wrongly)
    yield Scene("models-settings-engine", Page.MODELS, data.replies(), tune_for_vllm)
    yield Scene("models-settings-mirrored", Page.MODELS, data.replies(), tune, looks=(Look(is_mirrored=True),))
    yield Scene("models-attach", Page.MODELS, data.replies(), attach, looks=USUAL_LOOKS)
    yield Scene(
        "models-correct", Page.MODELS, data.replies(models=[*data.MODELS, data.FAR_MODEL]), correct, looks=USUAL_LOOKS
    )
    yield Scene("models-empty", Page.MODELS, nothing)
    yield Scene("models-long-names", Page.MODELS, much, looks=(*Scene("", Page.MODELS).looks, *EVERY_LOOK[:3]))
    yield Scene("models-failing", Page.MODELS, much, scroll_down, looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("models-not-found", Page.MODELS, much, search)
    yield Scene("server-idle", Page.SERVER, nothing)
    yield Scene("server-failing", Page.SERVER, much, unfold)
    mended = data.replies(running=[data.MENDED, data.READY])
    yield Scene("server-mending", Page.SERVER, data.replies(running=[data.mendable()]), show_first, looks=USUAL_LOOKS)
    yield Scene("server-mended", Page.SERVER, mended, show_first, looks=USUAL_LOOKS)
    yield Scene("server-log", Page.SERVER, much, scroll_down)
    yield Scene("server-keys", Page.SERVER, data.replies(), make_key, looks=USUAL_LOOKS)
    yield Scene("server-no-keys", Page.SERVER, {**data.replies(), "GET /keys": []}, show_keys)
    yield Scene("server-open", Page.SERVER, data.opened(), show_keys)
    yield from discover_scenes()
    yield from disk_scenes()
    yield from connect_scenes()
    yield from machine_scenes(much)
    yield from engine_scenes()
    yield from connection_scenes()
    yield from update_scenes()
    yield Scene("settings-wrong", Page.SETTINGS, data.replies(), type_wrong_port)
    yield Scene("settings-restart", Page.SETTINGS, data.replies(), change_port)
    yield Scene("settings-end", Page.SETTINGS, data.replies(), scroll_down)
    yield Scene("palette", Page.CHAT, with_chat(data.replies()), open_palette)
    yield Scene(
        "toast", Page.MODELS, data.replies(), lambda window, _api: window.toast.say("Qwen3 8B was unloaded.", int)
    )
    paused = {
        **data.replies(running=[msgspec.structs.replace(data.READY, state=S.DRAINING)]),
        "GET /pause": data.PAUSED,
    }
    yield Scene("paused", Page.CHAT, with_chat(paused), looks=(*BOTH, *EVERY_LOOK[:3], Look(is_mirrored=True)))
    questions = (*BOTH, *EVERY_LOOK[:3], Look(is_mirrored=True))
    yield Scene(
        "closing", Page.CHAT, with_chat(data.replies()), lambda window, _: way_out(window).may_close(), looks=questions
    )
    yield Scene("quitting", Page.SERVER, data.replies(), lambda window, _: way_out(window).quit(), looks=questions)
    yield Scene("focus", Page.SERVER, data.replies(), press_tab)
    yield Scene("menu", Page.SERVER, data.replies(), lambda window, _api: window.menuBar().show())


def way_out(window: Window) -> Departure:
    """Return what asks a person who leaves a window that started its service itself."""
    known = DepartureKnown(
        stores=window.stores,
        service=lambda: Service.OURS,
        tray=window.tray,
        question=window.question,
    )
    return Departure(window, known)


def attach(window: Window, _api: DemoApi) -> None:
    """Begin to attach an endpoint."""
    screen = window.pages.currentWidget()
    if isinstance(screen, ModelsScreen):
        screen.model.attach_asked.emit("", "")


def correct(window: Window, _api: DemoApi) -> None:
    """Say what an attached model can do."""
    screen = window.pages.currentWidget()
    if isinstance(screen, ModelsScreen):
        screen.model.correct_asked.emit(data.FAR_MODEL)


def tune(window: Window, api: DemoApi) -> None:
    """Open the settings of the model that runs."""
    screen = window.pages.currentWidget()
    if isinstance(screen, ModelsScreen):
        model = next((one for one in screen.model.library.items if one.name == data.READY.model), None)
        if model is not None:
            screen.model.tuning.open(model)
            api.flush()


def tune_for_vllm(window: Window, api: DemoApi) -> None:
    """Open the settings of a model with code of its own, on an engine with parsers, and look at the end of the page."""
    api.replies[f"GET /model-settings/{data.READY.model}"] = msgspec.structs.replace(
        data.TUNED,
        settings=msgspec.structs.replace(data.TUNED.settings, extra_args=["--enforce-eager", "--seed=7"]),
        brings_code=True,
        takes=["allows_code", "tool_parser", "reasoning_parser"],
        tool_parser="hermes",
    )
    tune(window, api)
    for _ in range(2):  # the page is as long as it will be once its rows have found their heights
        QApplication.processEvents()
    scroll_down(window, api)


def tune_wrongly(window: Window, api: DemoApi) -> None:
    """Open the settings of a model that runs otherwise, have a template refused, and look at the end of the page."""
    api.replies[f"GET /model-settings/{data.READY.model}"] = msgspec.structs.replace(
        data.TUNED,
        needs_reload=True,
        settings=msgspec.structs.replace(data.TUNED.settings, chat_template="{% for m in messages %}{{ m.content }}"),
    )
    tune(window, api)
    screen = window.pages.currentWidget()
    if isinstance(screen, ModelsScreen):
        sentence = "This is not a chat template: unexpected end of template; it was looking for 'endfor'."
        screen.model.tuning.problem.emit("chat_template", sentence)
    QApplication.processEvents()
    scroll_down(window, api)


def connection_scenes() -> Iterator[Scene]:
    """Yield what the connections page shows beside its usual state."""
    page, nothing = Page.CONNECTIONS, ConnectionList(offline=False, connections=[])
    is_on = [data.changed(row, True) if row.name == OFFLINE else row for row in data.settings()]  # noqa: FBT003 -- a setting's value
    kept_back = [one for one in connections.CONNECTIONS if one.refused]
    refused = ConnectionList(offline=True, connections=kept_back)
    yield Scene("settings-network", Page.SETTINGS, act=lambda window, _api: window.shell.ask(Page.SETTINGS, OFFLINE))
    yield Scene("connections-empty", page, {**data.replies(), "GET /connections": nothing})
    yield Scene("connections-kept-back", page, {**data.replies(), "GET /settings": is_on, "GET /connections": refused})


def engine_scenes() -> Iterator[Scene]:
    """Yield what the engines page shows beside its usual state."""
    usual, page = data.replies(), Page.ENGINES
    yield Scene("engines-installing", page, usual, on_engines(engines.INSTALLING))
    yield Scene("engines-refused", page, usual, on_engines(engines.REFUSED), looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("engines-versions", page, usual, show_versions, looks=(*BOTH, *EVERY_LOOK[:3]))


def update_scenes() -> Iterator[Scene]:
    """Yield what the settings page shows of newer versions."""
    for name, state in updates.STATES.items():
        looks = (*BOTH, *EVERY_LOOK[:3]) if state is updates.NEWER else BOTH
        yield Scene(f"updates-{name}", Page.SETTINGS, {**data.replies(), "GET /update": state}, looks=looks)


def on_engines(job: EngineJob) -> Act:
    """Have the gateway tell of a job."""
    return lambda window, _api: window.shell.receive(EngineJobChanged(job=job))


def show_versions(window: Window, api: DemoApi) -> None:
    """Unfold the versions of the engine in use, and look for an update of it."""
    screen = window.pages.currentWidget()
    if isinstance(screen, EnginesScreen):
        next(fold for fold in screen.findChildren(Fold) if fold.accessibleName() == "Versions of llama.cpp").toggle()
        screen.model.check("llama.cpp")
        api.flush()


def discover_scenes() -> Iterator[Scene]:
    """Yield what the models page shows of the hub, and of downloads."""
    usual, page = data.replies(), Page.MODELS
    coming = {**usual, "GET /downloads": hub.DOWNLOADS}
    gated = {**usual, "GET /hub/model": hub.GATED, "GET /hub/search": hub.GATED_RESULTS}
    offline = {**usual, "GET /hub/search": hub.OFFLINE_RESULTS}
    yield Scene("models-downloads", page, coming, looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("discover", page, coming, discover(), looks=USUAL_LOOKS)
    yield Scene(
        "discover-found", page, usual, discover("qwen3"), looks=(*BOTH, *EVERY_LOOK[:3], Look(is_mirrored=True))
    )
    yield Scene("discover-sheet", page, usual, discover("qwen3", is_open=True), looks=USUAL_LOOKS)
    yield Scene("discover-gated", page, gated, discover("gemma", is_open=True))
    yield Scene("discover-offline", page, offline, discover("qwen3"), looks=(*BOTH, EVERY_LOOK[2]))
    yield Scene("discover-failed", page, {**usual, "GET /hub/search": data.NO_SUCH_MODEL}, discover("qwen3"))


def discover(text: str = "", *, is_open: bool = False) -> Act:
    """Return what turns to Discover, looks for words and opens the first model."""

    def act(window: Window, api: DemoApi) -> None:
        screen = window.pages.currentWidget()
        if not isinstance(screen, ModelsScreen):
            return
        screen.show_discover()
        screen.discover.field.setText(text)
        screen.finding.look()
        api.flush()
        if is_open:
            screen.findChildren(CardView)[0].button.click()

    return act


def connect_scenes() -> Iterator[Scene]:
    """Yield what the connect page shows beside its usual state."""
    usual, page = data.replies(), Page.CONNECT
    yield Scene("connect-change", page, usual, open_tool("zed"), looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("connect-steps", page, usual, open_tool("cline"), looks=(*BOTH, EVERY_LOOK[2]))
    yield Scene("connect-tried", page, usual, lambda window, api: on_connect(window, api, "try"))
    yield Scene("connect-refused", page, usual, lambda window, api: on_connect(window, api, "undo"))


def machine_scenes(much: Replies) -> Iterator[Scene]:
    """Yield what the machine page shows beside its usual state."""
    usual, page = data.replies(), Page.MACHINE
    cards = {**usual, "GET /machine": machines.WORKSTATION, "POST /plan": advice.workstation_advice}
    yield Scene("machine-plan", page, usual, scroll_to(Controls), looks=(*BOTH, *EVERY_LOOK))
    yield Scene("machine-sums", page, usual, scroll_to(Sums), looks=(*BOTH, *EVERY_LOOK[:3], Look(is_mirrored=True)))
    yield Scene("machine-truths", page, usual, scroll_to(Truths), looks=(*BOTH, EVERY_LOOK[2]))
    yield Scene("machine-facts", page, usual, unfold_last)
    yield Scene("machine-cards", page, cards, looks=(*BOTH, EVERY_LOOK[2], EVERY_LOOK[1]))
    yield Scene("machine-cards-sums", page, cards, scroll_to(Sums))
    yield Scene("machine-calibrating", page, usual, calibrate)
    yield Scene("machine-report", page, usual, open_report, looks=(*BOTH, EVERY_LOOK[2]))
    yield Scene("machine-bundle", page, usual, open_bundle, looks=(*BOTH, EVERY_LOOK[2]))
    yield Scene("machine-refused", page, {**usual, "POST /plan": data.NO_SUCH_MODEL}, scroll_to(Controls))
    yield Scene("machine-long-names", page, much, wish_long, looks=(*BOTH, EVERY_LOOK[2]))


def with_chat(replies: Replies, chat: Chat | None = None, *, listed: list[ChatSummary] | None = None) -> Replies:
    """Return `replies` with conversations to list, and one to open."""
    listed = long_chat.summaries() if listed is None else listed
    return {**replies, "GET /chats": listed, "GET /chats/c1": chat or long_chat.chat()}


def nothing_more(_window: Window, _api: DemoApi) -> None:
    """Take the page as it comes."""


def open_chat(window: Window, _api: DemoApi) -> None:
    """Open the conversation of the sample."""
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        page.model.open("c1")


def search(window: Window, _api: DemoApi) -> None:
    """Look for a model that is not there."""
    page = window.pages.currentWidget()
    if isinstance(page, ModelsScreen):
        next(field for field in page.findChildren(Field)).setText("zebra")


def unfold(window: Window, _api: DemoApi) -> None:
    """Unfold the cause of the first failure."""
    folds = [fold for fold in window.pages.findChildren(Fold) if fold.isVisible()]
    if folds:
        folds[0].toggle()


def scroll_down(window: Window, _api: DemoApi) -> None:
    """Show the end of the page."""
    page = window.pages.currentWidget()
    if isinstance(page, PageView):
        bar = page.scroller.verticalScrollBar()
        bar.setValue(bar.maximum())


def wish_long(window: Window, api: DemoApi) -> None:
    """Wish for a model whose name is longer than any field, and look at its sums."""
    page = window.pages.currentWidget()
    if isinstance(page, MachineScreen):
        what_if = page.model.what_if
        what_if.wish(Wishes(model=data.LONG_MODEL.name, users=12, context=131072, kv_type="q8_0"))
        what_if.ask()
        api.flush()
    scroll_to(Controls)(window, api)


def unfold_last(window: Window, api: DemoApi) -> None:
    """Unfold the last fold of the page and show it."""
    folds = [fold for fold in window.pages.findChildren(Fold) if fold.isVisible()]
    folds[-1].toggle()
    QApplication.sendPostedEvents()
    scroll_down(window, api)


def open_tool(tool: str) -> Act:
    """Return what opens the wiring of a tool."""

    def act(window: Window, api: DemoApi) -> None:
        page = window.pages.currentWidget()
        if isinstance(page, ConnectScreen):
            page.model.look(tool)
            api.flush()

    return act


def on_connect(window: Window, api: DemoApi, verb: str) -> None:
    """Try the wired tool, or be refused its undoing."""
    page = window.pages.currentWidget()
    if isinstance(page, ConnectScreen):
        (page.model.undo if verb == "undo" else page.model.try_out)("codex")
        api.flush()


def calibrate(window: Window, api: DemoApi) -> None:
    """Begin a calibration that has come some way."""
    page = window.pages.currentWidget()
    if isinstance(page, MachineScreen):
        page.model.calibrating.start()
        window.shell.receive(CalibrationChanged(stage="Writing with a model of 1.1 GB", fraction=0.62))
    scroll_to(Learning)(window, api)


def open_report(window: Window, _api: DemoApi) -> None:
    """Have the report written."""
    page = window.pages.currentWidget()
    if isinstance(page, MachineScreen):
        page.model.report.open()


def open_bundle(window: Window, _api: DemoApi) -> None:
    """Have the report written with logs and settings around it."""
    page = window.pages.currentWidget()
    if isinstance(page, MachineScreen):
        page.model.report.open(is_bundle=True)


def type_wrong_port(window: Window, _api: DemoApi) -> None:
    """Type a port that cannot be."""
    page = window.pages.currentWidget()
    if isinstance(page, SettingsScreen) and isinstance(field := page.row("gateway.port").control, Field):
        field.setFocus(Qt.FocusReason.TabFocusReason)
        field.selectAll()
        QTest.keyClicks(field, "99999")


def show_keys(window: Window, _api: DemoApi) -> None:
    """Scroll to who may use the endpoint."""
    page = window.pages.currentWidget()
    if isinstance(page, ServerScreen):
        QApplication.processEvents()
        page.scroller.ensureWidgetVisible(page.keys.wider.switch, 0, 120)


def show_first(window: Window, _api: DemoApi) -> None:
    """Scroll to the first of the running models."""
    page = window.pages.currentWidget()
    if isinstance(page, ServerScreen):
        QApplication.processEvents()
        page.scroller.ensureWidgetVisible(page.findChildren(EngineRow)[0], 0, 16)


def make_key(window: Window, api: DemoApi) -> None:
    """Make a key, which is shown this once."""
    page = window.pages.currentWidget()
    if isinstance(page, ServerScreen):
        page.keys.name.setText("tablet")
        page.keys.make_button.click()
        api.flush()
        show_keys(window, api)


def change_port(window: Window, api: DemoApi) -> None:
    """Change what needs a restart."""
    page = window.pages.currentWidget()
    if isinstance(page, SettingsScreen):
        info = next(info for info in page.model.preferences.items if info.name == "gateway.port")
        api.replies["PATCH /settings"] = [data.changed(info, 8080)]
        page.model.change(info, 8080)


def open_palette(window: Window, _api: DemoApi) -> None:
    """Open the palette and type."""
    window.palette_view.open()
    window.palette_view.field.setText("lo")


def press_tab(window: Window, _api: DemoApi) -> None:
    """Show the focus ring."""
    window.activateWindow()
    for _ in range(7):
        QTest.keyClick(QApplication.focusWidget() or window, Qt.Key.Key_Tab)
