"""What is photographed: all scenes there are.

Every page is drawn in every look; what is special (long names, errors, nothing there, no gateway) in light and dark.
"""

from collections.abc import Callable, Iterator
from functools import partial

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.core.chats import Chat, ChatShelf, ChatSummary
from app.core.connections import ConnectionList
from app.core.downloads import DownloadState
from app.core.engine_store import EngineJob
from app.core.engines import EngineState as S
from app.core.events import CalibrationChanged, EngineJobChanged
from app.core.translation import tr
from app.gui.screens.chat.view import ChatScreen
from app.gui.screens.connect.view import ConnectScreen
from app.gui.screens.connections.model import OFFLINE
from app.gui.screens.engines.view import EnginesScreen
from app.gui.screens.machine.calibration_view import CalibrationSection
from app.gui.screens.machine.estimate_card import EstimateCard
from app.gui.screens.machine.load_accuracy import LoadAccuracy
from app.gui.screens.machine.view import MachineScreen, PlanControls
from app.gui.screens.machine.what_if import PlanForm
from app.gui.screens.models.hub_card import HubCardView
from app.gui.screens.models.pick_card import FamilyView
from app.gui.screens.models.view import ModelsScreen
from app.gui.screens.server.engine_row import EngineRow
from app.gui.screens.server.view import ServerScreen
from app.gui.screens.settings.view import SettingsScreen
from app.gui.shell.contract import PageId
from app.gui.shell.quit_flow import QuitContext, QuitFlow, ServiceOwner
from app.gui.shell.window import MainWindow
from app.gui.widgets.buttons import Chip
from app.gui.widgets.fields import Field
from app.gui.widgets.panels import Fold
from app.gui.widgets.panels import PageFrame as PageView
from tests.demo import advice, attachments, connections, data, engines, folders, hub, long_chat, machines, updates
from tests.demo.api import DemoApi
from tests.demo.disk_scenes import disk_scenes
from tests.demo.presets import preset_scenes
from tests.demo.sampling_scenes import sampling_scenes
from tests.demo.scene import BOTH, EVERY_LOOK, USUAL_LOOKS, Act, Replies, Scene, SceneLook, scroll_to
from tests.demo.speech_scenes import speech_scenes


def all_scenes() -> Iterator[Scene]:
    """Yield everything that is photographed."""
    nothing = data.gateway_replies(running=[], models=[])
    much = data.gateway_replies(
        running=[data.READY, data.FAILED], models=[*data.MODELS, data.LONG_MODEL, data.RTL_MODEL]
    )
    for page in PageId:
        act = open_chat if page is PageId.CHAT else do_nothing
        yield Scene(page.value, page, with_chat(data.gateway_replies()), act, looks=USUAL_LOOKS)
        yield Scene(f"{page.value}-mirrored", page, with_chat(much), act, looks=(SceneLook(is_mirrored=True),))
        yield Scene(f"{page.value}-waiting", page, {})
        yield Scene(
            f"{page.value}-offline",
            page,
            {},
            lambda window, _api: window.show_disconnected(data.OFFLINE),
            is_online=False,
        )
    yield Scene("chat-new", PageId.CHAT, with_chat(data.gateway_replies()))
    yield Scene(
        "chat-first-start",
        PageId.CHAT,
        with_chat(data.gateway_replies(running=[], models=data.MODELS[:1]), summaries=[]),
    )
    yield Scene("chat-failed", PageId.CHAT, with_chat(much, long_chat.make_failed_chat()), open_chat)
    yield from file_scenes(much)
    yield Scene("models-settings", PageId.MODELS, data.gateway_replies(), open_model_settings, looks=USUAL_LOOKS)
    yield Scene("models-settings-end", PageId.MODELS, data.gateway_replies(), open_settings_with_error)
    yield Scene("models-settings-engine", PageId.MODELS, data.gateway_replies(), open_settings_for_vllm)
    yield Scene(
        "models-settings-mirrored",
        PageId.MODELS,
        data.gateway_replies(),
        open_model_settings,
        looks=(SceneLook(is_mirrored=True),),
    )
    yield Scene("models-attach", PageId.MODELS, data.gateway_replies(), open_attach_card, looks=USUAL_LOOKS)
    yield Scene(
        "models-correct",
        PageId.MODELS,
        data.gateway_replies(models=[*data.MODELS, data.FAR_MODEL]),
        open_correction,
        looks=USUAL_LOOKS,
    )
    yield Scene("models-empty", PageId.MODELS, nothing)
    yield Scene("models-long-names", PageId.MODELS, much, looks=(*Scene("", PageId.MODELS).looks, *EVERY_LOOK[:3]))
    yield Scene("models-failing", PageId.MODELS, much, scroll_down, looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("models-not-found", PageId.MODELS, much, search_models)
    yield Scene("server-idle", PageId.SERVER, nothing)
    yield Scene("server-failing", PageId.SERVER, much, unfold_cause)
    mended = data.gateway_replies(running=[data.REMEDIED, data.READY])
    yield Scene(
        "server-mending",
        PageId.SERVER,
        data.gateway_replies(running=[data.status_with_remedies()]),
        show_first,
        looks=USUAL_LOOKS,
    )
    yield Scene("server-mended", PageId.SERVER, mended, show_first, looks=USUAL_LOOKS)
    yield Scene("server-log", PageId.SERVER, much, scroll_down)
    yield Scene("server-keys", PageId.SERVER, data.gateway_replies(), make_key, looks=USUAL_LOOKS)
    yield Scene("server-no-keys", PageId.SERVER, {**data.gateway_replies(), "GET /keys": []}, show_keys)
    yield Scene("server-open", PageId.SERVER, data.network_replies(), show_keys)
    yield from discover_scenes()
    yield from disk_scenes()
    yield from connect_scenes()
    yield from machine_scenes(much)
    yield from engine_scenes()
    yield from connection_scenes()
    yield from update_scenes()
    yield Scene("settings-wrong", PageId.SETTINGS, data.gateway_replies(), type_wrong_port)
    yield Scene("settings-restart", PageId.SETTINGS, data.gateway_replies(), change_port)
    yield Scene("settings-end", PageId.SETTINGS, data.gateway_replies(), scroll_down)
    yield Scene("palette", PageId.CHAT, with_chat(data.gateway_replies()), open_palette)
    yield Scene(
        "toast",
        PageId.MODELS,
        data.gateway_replies(),
        lambda window, _api: window.toast.show_message("Qwen3 8B was unloaded.", int),
    )
    paused = {
        **data.gateway_replies(running=[msgspec.structs.replace(data.READY, state=S.DRAINING)]),
        "GET /pause": data.PAUSED,
    }
    yield Scene("paused", PageId.CHAT, with_chat(paused), looks=(*BOTH, *EVERY_LOOK[:3], SceneLook(is_mirrored=True)))
    questions = (*BOTH, *EVERY_LOOK[:3], SceneLook(is_mirrored=True))
    yield Scene(
        "closing",
        PageId.CHAT,
        with_chat(data.gateway_replies()),
        lambda window, _: make_quit_flow(window).may_close(),
        looks=questions,
    )
    yield Scene(
        "quitting",
        PageId.SERVER,
        data.gateway_replies(),
        lambda window, _: make_quit_flow(window).quit(),
        looks=questions,
    )
    yield Scene("focus", PageId.SERVER, data.gateway_replies(), press_tab)
    yield Scene("menu", PageId.SERVER, data.gateway_replies(), lambda window, _api: window.menuBar().show())


def make_quit_flow(window: MainWindow) -> QuitFlow:
    """Return what asks a person who leaves a window that started its service itself."""
    context = QuitContext(
        stores=window.stores,
        service=lambda: ServiceOwner.OURS,
        tray=window.tray,
        question=window.question,
    )
    return QuitFlow(window, context)


def open_attach_card(window: MainWindow, _api: DemoApi) -> None:
    """Begin to attach an endpoint."""
    screen = window.pages.currentWidget()
    if isinstance(screen, ModelsScreen):
        screen.model.attach_requested.emit("", "")


def open_correction(window: MainWindow, _api: DemoApi) -> None:
    """Say what an attached model can do."""
    screen = window.pages.currentWidget()
    if isinstance(screen, ModelsScreen):
        screen.model.correction_requested.emit(data.FAR_MODEL)


def open_model_settings(window: MainWindow, api: DemoApi) -> None:
    """Open the settings of the model that runs."""
    screen = window.pages.currentWidget()
    if isinstance(screen, ModelsScreen):
        model = next((item for item in screen.model.library.items if item.name == data.READY.model), None)
        if model is not None:
            screen.model.model_settings.open_model(model)
            api.flush()


def open_settings_for_vllm(window: MainWindow, api: DemoApi) -> None:
    """Open the settings of a model with code of its own, on an engine with parsers, and look at the end of the page."""
    api.replies[f"GET /model-settings/{data.READY.model}"] = msgspec.structs.replace(
        data.TUNED,
        settings=msgspec.structs.replace(data.TUNED.settings, extra_args=["--enforce-eager", "--seed=7"]),
        brings_code=True,
        takes=["allows_code", "tool_parser", "reasoning_parser"],
        tool_parser="hermes",
    )
    open_model_settings(window, api)
    for _ in range(2):  # the page is as long as it will be once its rows have found their heights
        QApplication.processEvents()
    scroll_down(window, api)


def open_settings_with_error(window: MainWindow, api: DemoApi) -> None:
    """Open the settings of a model that runs otherwise, have a template refused, and look at the end of the page."""
    api.replies[f"GET /model-settings/{data.READY.model}"] = msgspec.structs.replace(
        data.TUNED,
        needs_reload=True,
        settings=msgspec.structs.replace(data.TUNED.settings, chat_template="{% for m in messages %}{{ m.content }}"),
    )
    open_model_settings(window, api)
    screen = window.pages.currentWidget()
    if isinstance(screen, ModelsScreen):
        sentence = "This is not a chat template: unexpected end of template; it was looking for 'endfor'."
        screen.model.model_settings.problem.emit("chat_template", sentence)
    QApplication.processEvents()
    scroll_down(window, api)


def connection_scenes() -> Iterator[Scene]:
    """Yield what the connections page shows beside its usual state."""
    page, nothing = PageId.CONNECTIONS, ConnectionList(offline=False, connections=[])
    is_on = [data.with_value(row, True) if row.name == OFFLINE else row for row in data.default_settings()]  # noqa: FBT003 -- a setting's value
    refusals = [connection for connection in connections.CONNECTIONS if connection.refused]
    refused = ConnectionList(offline=True, connections=refusals)
    yield Scene(
        "settings-network",
        PageId.SETTINGS,
        act=lambda window, _api: window.shell.request_task(PageId.SETTINGS, OFFLINE),
    )
    yield Scene("connections-empty", page, {**data.gateway_replies(), "GET /connections": nothing})
    yield Scene(
        "connections-kept-back", page, {**data.gateway_replies(), "GET /settings": is_on, "GET /connections": refused}
    )


def engine_scenes() -> Iterator[Scene]:
    """Yield what the engines page shows beside its usual state."""
    usual, page = data.gateway_replies(), PageId.ENGINES
    yield Scene("engines-installing", page, usual, on_engines(engines.INSTALLING))
    yield Scene("engines-refused", page, usual, on_engines(engines.REFUSED), looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("engines-versions", page, usual, show_versions, looks=(*BOTH, *EVERY_LOOK[:3]))


def update_scenes() -> Iterator[Scene]:
    """Yield what the settings page shows of newer versions."""
    for name, state in updates.STATES.items():
        looks = (*BOTH, *EVERY_LOOK[:3]) if state is updates.NEWER else BOTH
        yield Scene(f"updates-{name}", PageId.SETTINGS, {**data.gateway_replies(), "GET /update": state}, looks=looks)


def on_engines(job: EngineJob) -> Act:
    """Have the gateway tell of a job."""
    return lambda window, _api: window.shell.broadcast_event(EngineJobChanged(job=job))


def show_versions(window: MainWindow, api: DemoApi) -> None:
    """Unfold the versions of the engine in use, and look for an update of it."""
    screen = window.pages.currentWidget()
    if isinstance(screen, EnginesScreen):
        name = tr("Versions of {name}", name="llama.cpp")
        next(fold for fold in screen.findChildren(Fold) if fold.accessibleName() == name).toggle()
        screen.model.check_update("llama.cpp")
        api.flush()


_LAYOUT_MS = 100
"""Lists in lists take Qt several turns of the event loop until all have their heights."""


def discover_scenes() -> Iterator[Scene]:
    """Yield what the models page shows of the hub, and of downloads."""
    usual, page = data.gateway_replies(), PageId.MODELS
    coming = {**usual, "GET /downloads": hub.DOWNLOADS}
    gated = {**usual, "GET /hub/model": hub.GATED, "GET /hub/search": hub.GATED_RESULTS}
    offline = {**usual, "GET /hub/search": hub.OFFLINE_RESULTS}
    yield Scene("models-downloads", page, coming, looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("discover", page, coming, show_discover(), looks=(*USUAL_LOOKS, SceneLook(is_mirrored=True)))
    yield Scene(
        "discover-families",
        page,
        coming,
        unfold_families,
        looks=(*BOTH, *EVERY_LOOK[:3], SceneLook("dark", 200), SceneLook(is_mirrored=True)),
    )
    failing = {**usual, "GET /hub/search": data.NO_SUCH_MODEL}
    yield Scene("discover-catalogue", page, failing, show_discover("gemma"), looks=BOTH)
    yield Scene(
        "discover-found",
        page,
        usual,
        show_discover("qwen3"),
        looks=(*BOTH, *EVERY_LOOK[:3], SceneLook(is_mirrored=True)),
    )
    yield Scene("discover-sheet", page, usual, show_discover("qwen3", is_open=True), looks=USUAL_LOOKS)
    yield Scene("discover-gated", page, gated, show_discover("gemma", is_open=True))
    yield Scene("discover-offline", page, offline, show_discover("qwen3"), looks=(*BOTH, EVERY_LOOK[2]))
    yield Scene("discover-failed", page, {**usual, "GET /hub/search": data.NO_SUCH_MODEL}, show_discover("qwen3"))


def unfold_families(window: MainWindow, api: DemoApi) -> None:
    """Turn to Discover, unfold every family and scroll to them."""
    show_discover()(window, api)
    QTest.qWait(_LAYOUT_MS)
    for family in window.findChildren(FamilyView):
        family.button.click()
    QTest.qWait(_LAYOUT_MS)
    scroll_to(FamilyView)(window, api)


def show_discover(text: str = "", *, is_open: bool = False) -> Act:
    """Return what turns to Discover, looks for words and opens the first model."""

    def open_discover(window: MainWindow, api: DemoApi) -> None:
        screen = window.pages.currentWidget()
        if not isinstance(screen, ModelsScreen):
            return
        screen.show_discover()
        screen.discover.field.setText(text)
        screen.hub_search.search_now()
        api.flush()
        if is_open:
            screen.findChildren(HubCardView)[0].button.click()

    return open_discover


def connect_scenes() -> Iterator[Scene]:
    """Yield what the connect page shows beside its usual state."""
    usual, page = data.gateway_replies(), PageId.CONNECT
    yield Scene("connect-change", page, usual, open_tool("zed"), looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("connect-steps", page, usual, open_tool("cline"), looks=(*BOTH, EVERY_LOOK[2]))
    yield Scene("connect-tried", page, usual, lambda window, api: on_connect(window, api, "try"))
    yield Scene("connect-refused", page, usual, lambda window, api: on_connect(window, api, "undo"))


def machine_scenes(much: Replies) -> Iterator[Scene]:
    """Yield what the machine page shows beside its usual state."""
    usual, page = data.gateway_replies(), PageId.MACHINE
    cards = {**usual, "GET /machine": machines.WORKSTATION, "POST /plan": advice.workstation_advice}
    yield Scene("machine-plan", page, usual, scroll_to(PlanControls), looks=(*BOTH, *EVERY_LOOK))
    yield Scene(
        "machine-sums",
        page,
        usual,
        scroll_to(EstimateCard),
        looks=(*BOTH, *EVERY_LOOK[:3], SceneLook(is_mirrored=True)),
    )
    yield Scene("machine-truths", page, usual, scroll_to(LoadAccuracy), looks=(*BOTH, EVERY_LOOK[2]))
    yield Scene("machine-facts", page, usual, unfold_last)
    yield Scene("machine-cards", page, cards, looks=(*BOTH, EVERY_LOOK[2], EVERY_LOOK[1]))
    yield Scene("machine-cards-sums", page, cards, scroll_to(EstimateCard))
    yield Scene("machine-calibrating", page, usual, start_calibration)
    yield Scene("machine-report", page, usual, open_report, looks=(*BOTH, EVERY_LOOK[2]))
    yield Scene("machine-bundle", page, usual, open_bundle, looks=(*BOTH, EVERY_LOOK[2]))
    yield Scene("machine-refused", page, {**usual, "POST /plan": data.NO_SUCH_MODEL}, scroll_to(PlanControls))
    yield Scene("machine-long-names", page, much, choose_long_model, looks=(*BOTH, EVERY_LOOK[2]))


def with_chat(replies: Replies, chat: Chat | None = None, *, summaries: list[ChatSummary] | None = None) -> Replies:
    """Return `replies` with conversations to list, and one to open."""
    summaries = long_chat.make_summaries() if summaries is None else summaries
    order: Replies = {"GET /chats/folders": [], "GET /chats/tags": []}
    return {**replies, **order, "GET /chats": summaries, "GET /chats/c1": chat or long_chat.make_sample_chat()}


def do_nothing(_window: MainWindow, _api: DemoApi) -> None:
    """Take the page as it comes."""


def shelf_scenes() -> Iterator[Scene]:
    """Yield the list with a chat that is pinned, and the trash."""
    first, second, *others = long_chat.make_summaries()
    pinned = [msgspec.structs.replace(second, is_pinned=True), first, *others]
    yield Scene("chat-pinned", PageId.CHAT, with_chat(data.gateway_replies(), summaries=pinned))
    yield Scene("chat-trash", PageId.CHAT, with_chat(data.gateway_replies()), show_trash)


def folder_scenes(replies: Replies) -> Iterator[Scene]:
    """Yield the tree of folders with a chat in one, a folder's card, tags, and the question before one is deleted."""
    looks = (*USUAL_LOOKS, SceneLook(is_mirrored=True))
    yield Scene(
        "chat-folders", PageId.CHAT, {**with_chat(replies), **folders.folder_replies()}, open_folder, looks=looks
    )
    yield Scene("chat-search", PageId.CHAT, with_chat(replies), search_chats, looks=looks)
    yield Scene("chat-find", PageId.CHAT, with_chat(replies), find_in_chat, looks=looks)
    for name, show in (
        ("card", lambda view: view.conversation_view.show_folder("f1")),
        ("tags", lambda view: view.conversation_view.show_tags("c2")),
        ("delete", lambda view: view.pane.list_view.folder_delete_requested.emit("f1")),
        ("new-chat", lambda view: view.pane.list_view.folder_chat_requested.emit("f1")),
    ):
        known = {**with_chat(replies), **folders.folder_replies()}
        prepare = partial(show_in_folder, show=show)
        yield Scene(f"chat-folder-{name}", PageId.CHAT, known, prepare, looks=looks)


def find_in_chat(window: MainWindow, api: DemoApi) -> None:
    """Open the conversation of the sample, and find a word in it."""
    open_chat(window, api)
    api.flush()
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        page.conversation_view.find_bar.open_bar()
        page.conversation_view.find_bar.field.setText("borrow")
        page.conversation_view.find_bar.step(1)


def search_chats(window: MainWindow, api: DemoApi) -> None:
    """Search all chats: a message has the word in one of them, a file in the other."""
    api.replies["GET /chats"] = long_chat.make_search_results()
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        page.pane.focus_search()
        page.pane.search.setText("borrow")
        page.model.chat_list.fetch_chats()
        api.flush()


def open_folder(window: MainWindow, api: DemoApi) -> None:
    """Open a folder in the list, and a chat in it."""
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        api.replies |= folders.folder_replies()
        page.model.chat_list.folders.store.read()
        page.model.chat_list.folders.tags.read()
        api.flush()
        page.model.chat_list.folders.toggle("f1")
        api.flush()
        page.model.open_chat("c1")


def show_in_folder(window: MainWindow, api: DemoApi, *, show: Callable[[ChatScreen], object]) -> None:
    """Open a folder, and then something about it."""
    open_folder(window, api)
    api.flush()
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        show(page)


def message_scenes(replies: Replies) -> Iterator[Scene]:
    """Yield a message with its actions, answers side by side, the models to choose from, what was left out."""
    looks = (*USUAL_LOOKS, SceneLook(is_mirrored=True))
    yield Scene("chat-actions", PageId.CHAT, with_chat(replies), choose_message, looks=looks)
    yield Scene("chat-compare", PageId.CHAT, with_chat(replies), compare_answers, looks=looks)
    yield Scene("chat-compare-models", PageId.CHAT, with_chat(replies), choose_models, looks=looks)
    sample = long_chat.make_sample_chat()
    last = long_chat.replace_fields(sample.messages[-1], left_out=2, finish_reason="length")
    cut = msgspec.structs.replace(sample, messages=[*sample.messages[:-1], last])
    yield Scene("chat-left-out", PageId.CHAT, with_chat(replies, cut), choose_message, looks=looks)


def choose_message(window: MainWindow, api: DemoApi) -> None:
    """Open the conversation, and choose its last message with the keys."""
    open_chat(window, api)
    api.flush()
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        page.conversation_view.transcript.setFocus(Qt.FocusReason.TabFocusReason)


def compare_answers(window: MainWindow, api: DemoApi) -> None:
    """Open the conversation, and show the versions of its last answer side by side."""
    open_chat(window, api)
    api.flush()
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        page.model.conversation.compare_versions("a2")


def choose_models(window: MainWindow, api: DemoApi) -> None:
    """Open the conversation, and the models to compare with the first two chosen."""
    open_chat(window, api)
    api.flush()
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        page.conversation_view.toggle_models()
        for chip in page.conversation_view.models_panel.findChildren(Chip)[:2]:
            chip.setChecked(True)


def show_trash(window: MainWindow, _api: DemoApi) -> None:
    """Look into the trash."""
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        page.model.chat_list.show_shelf(ChatShelf.TRASH)


def open_chat(window: MainWindow, _api: DemoApi) -> None:
    """Open the conversation of the sample."""
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        page.model.open_chat("c1")


def file_scenes(replies: Replies) -> Iterator[Scene]:
    """Yield conversations with formulas and files, the shelves of the list, more files in the composer, sampling."""
    yield from sampling_scenes()
    yield from preset_scenes()
    yield from speech_scenes()
    formulas = with_chat(replies, long_chat.make_formula_chat())
    yield Scene("chat-formulas", PageId.CHAT, formulas, open_chat, looks=(*USUAL_LOOKS, SceneLook(is_mirrored=True)))
    yield from message_scenes(replies)
    yield from shelf_scenes()
    yield from folder_scenes(replies)
    files = {**with_chat(replies, attachments.make_chat_with_files()), **attachments.file_replies()}
    yield Scene("chat-files", PageId.CHAT, files, attach_files, looks=USUAL_LOOKS)
    yield Scene("chat-files-mirrored", PageId.CHAT, files, attach_files, looks=(SceneLook(is_mirrored=True),))
    looks = (*USUAL_LOOKS, SceneLook(is_mirrored=True))
    sounds = {**with_chat(replies, attachments.make_chat_with_sounds()), "POST /attachments": attachments.TALK}
    yield Scene("chat-sounds", PageId.CHAT, sounds, attach_sound, looks=looks)
    yield Scene("chat-downloaded", PageId.CHAT, with_chat(replies), end_download, looks=looks)


def attach_files(window: MainWindow, api: DemoApi) -> None:
    """Open the conversation about files, and attach more: one that cannot be read, and a picture for a blind model."""
    page = window.pages.currentWidget()
    if not isinstance(page, ChatScreen):
        return
    api.replies |= attachments.file_replies()
    page.model.open_chat("c1")
    api.flush()
    for name in ("report.pdf", "evening.png", "Contract with Müller.pdf", "costs.xlsx"):
        page.model.files.add_content(name, b"?")
    api.flush()
    for picture in (attachments.EVENING, attachments.MORNING):
        page.model.thumbnails.find(picture)
    api.flush()
    page.conversation_view.composer.set_text("And this one?")


def attach_sound(window: MainWindow, api: DemoApi) -> None:
    """Open the conversation about a recording, and attach another for a model that cannot hear."""
    open_chat(window, api)
    api.flush()
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        page.model.files.add_content("talk.mp3", b"?")


def end_download(window: MainWindow, api: DemoApi) -> None:
    """Let a download end while the reader is at a chat."""
    open_chat(window, api)
    api.flush()
    window.stores.downloads.ended.emit(msgspec.structs.replace(hub.DOWNLOADS[0], state=DownloadState.DONE))


def search_models(window: MainWindow, _api: DemoApi) -> None:
    """Look for a model that is not there."""
    page = window.pages.currentWidget()
    if isinstance(page, ModelsScreen):
        next(field for field in page.findChildren(Field)).setText("zebra")


def unfold_cause(window: MainWindow, _api: DemoApi) -> None:
    """Unfold the cause of the first failure."""
    folds = [fold for fold in window.pages.findChildren(Fold) if fold.isVisible()]
    if folds:
        folds[0].toggle()


def scroll_down(window: MainWindow, _api: DemoApi) -> None:
    """Show the end of the page."""
    page = window.pages.currentWidget()
    if isinstance(page, PageView):
        bar = page.scroller.verticalScrollBar()
        bar.setValue(bar.maximum())


def choose_long_model(window: MainWindow, api: DemoApi) -> None:
    """Wish for a model whose name is longer than any field, and look at its sums."""
    page = window.pages.currentWidget()
    if isinstance(page, MachineScreen):
        what_if = page.model.what_if
        what_if.submit_form(PlanForm(model=data.LONG_MODEL.name, users=12, context=131072, kv_type="q8_0"))
        what_if.ask_again()
        api.flush()
    scroll_to(PlanControls)(window, api)


def unfold_last(window: MainWindow, api: DemoApi) -> None:
    """Unfold the last fold of the page and show it."""
    folds = [fold for fold in window.pages.findChildren(Fold) if fold.isVisible()]
    folds[-1].toggle()
    QApplication.sendPostedEvents()
    scroll_down(window, api)


def open_tool(tool: str) -> Act:
    """Return what opens the wiring of a tool."""

    def show_wiring(window: MainWindow, api: DemoApi) -> None:
        page = window.pages.currentWidget()
        if isinstance(page, ConnectScreen):
            page.model.preview_change(tool)
            api.flush()

    return show_wiring


def on_connect(window: MainWindow, api: DemoApi, verb: str) -> None:
    """Try the wired tool, or be refused its undoing."""
    page = window.pages.currentWidget()
    if isinstance(page, ConnectScreen):
        (page.model.undo_wiring if verb == "undo" else page.model.probe_tool)("codex")
        api.flush()


def start_calibration(window: MainWindow, api: DemoApi) -> None:
    """Begin a calibration that has come some way."""
    page = window.pages.currentWidget()
    if isinstance(page, MachineScreen):
        page.model.calibration.start()
        window.shell.broadcast_event(CalibrationChanged(stage="Writing with a model of 1.1 GB", fraction=0.62))
    scroll_to(CalibrationSection)(window, api)


def open_report(window: MainWindow, _api: DemoApi) -> None:
    """Have the report written."""
    page = window.pages.currentWidget()
    if isinstance(page, MachineScreen):
        page.model.report.open()


def open_bundle(window: MainWindow, _api: DemoApi) -> None:
    """Have the report written with logs and settings around it."""
    page = window.pages.currentWidget()
    if isinstance(page, MachineScreen):
        page.model.report.open(is_bundle=True)


def type_wrong_port(window: MainWindow, _api: DemoApi) -> None:
    """Type a port that cannot be."""
    page = window.pages.currentWidget()
    if isinstance(page, SettingsScreen) and isinstance(field := page.find_row("gateway.port").control, Field):
        field.setFocus(Qt.FocusReason.TabFocusReason)
        field.selectAll()
        QTest.keyClicks(field, "99999")


def show_keys(window: MainWindow, _api: DemoApi) -> None:
    """Scroll to who may use the endpoint."""
    page = window.pages.currentWidget()
    if isinstance(page, ServerScreen):
        QApplication.processEvents()
        page.scroller.ensureWidgetVisible(page.keys.wider.switch, 0, 120)


def show_first(window: MainWindow, _api: DemoApi) -> None:
    """Scroll to the first of the running models."""
    page = window.pages.currentWidget()
    if isinstance(page, ServerScreen):
        QApplication.processEvents()
        page.scroller.ensureWidgetVisible(page.findChildren(EngineRow)[0], 0, 16)


def make_key(window: MainWindow, api: DemoApi) -> None:
    """Make a key, which is shown this once."""
    page = window.pages.currentWidget()
    if isinstance(page, ServerScreen):
        page.keys.name.setText("tablet")
        page.keys.make_button.click()
        api.flush()
        show_keys(window, api)


def change_port(window: MainWindow, api: DemoApi) -> None:
    """Change what needs a restart."""
    page = window.pages.currentWidget()
    if isinstance(page, SettingsScreen):
        info = next(info for info in page.model.preferences.items if info.name == "gateway.port")
        api.replies["PATCH /settings"] = [data.with_value(info, 8080)]
        page.model.change(info, 8080)


def open_palette(window: MainWindow, _api: DemoApi) -> None:
    """Open the palette and type."""
    window.palette_view.open()
    window.palette_view.field.setText("lo")


def press_tab(window: MainWindow, _api: DemoApi) -> None:
    """Show the focus ring."""
    window.activateWindow()
    for _ in range(7):
        QTest.keyClick(QApplication.focusWidget() or window, Qt.Key.Key_Tab)
