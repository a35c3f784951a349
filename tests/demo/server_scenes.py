"""What is photographed of the server page: failures, remedies, keys, and of the engines and tools that it serves."""

from collections.abc import Iterator

from PySide6.QtWidgets import QApplication

from app.core.deployments import DeploymentRequest
from app.core.engine_store import EngineJob
from app.core.errors import ErrorBody
from app.core.events import BenchmarkChanged, EngineJobChanged
from app.core.keys import LimitName
from app.core.translation import tr
from app.engine_store.recipe import read_recipes
from app.gateway.deploying.rendering import render_deployment, stable_versions
from app.gui.screens.benchmarks.run_progress import RunProgress
from app.gui.screens.connect.view import ConnectScreen
from app.gui.screens.engines.view import EnginesScreen
from app.gui.screens.server.engine_row import EngineRow
from app.gui.screens.server.inspector import RequestRow
from app.gui.screens.server.key_row import KeyRow
from app.gui.screens.server.key_usage import KeyUsageList
from app.gui.screens.server.view import ServerScreen
from app.gui.shell.contract import PageId
from app.gui.shell.window import MainWindow
from app.gui.widgets.panels import Fold
from tests.demo import data, engines
from tests.demo.api import DemoApi
from tests.demo.benchmark_scenes import LOOKS
from tests.demo.scene import BOTH, EVERY_LOOK, USUAL_LOOKS, Act, Replies, Scene, scroll_down, scroll_to


def server_scenes(usual: Replies, much: Replies) -> Iterator[Scene]:
    """Yield what the server page shows beside its usual state."""
    page, mended_replies = PageId.SERVER, data.gateway_replies(statuses=[data.REMEDIED, data.READY])
    mending_replies = data.gateway_replies(statuses=[data.status_with_remedies()])
    yield Scene("server-idle", page, data.gateway_replies(statuses=[], models=[]))
    yield Scene("server-failing", page, much, unfold_cause)
    yield Scene("server-mending", page, mending_replies, show_first, looks=USUAL_LOOKS)
    yield Scene("server-mended", page, mended_replies, show_first, looks=USUAL_LOOKS)
    yield Scene("server-request", page, usual, unfold_request, looks=USUAL_LOOKS)
    yield Scene("server-log", page, much, scroll_down)
    yield Scene("server-keys", page, usual, make_key, looks=USUAL_LOOKS)
    limited_replies = {**usual, "GET /keys": data.LIMITED_KEYS}
    yield Scene("server-key-limits", page, limited_replies, edit_key, looks=USUAL_LOOKS)
    yield Scene("server-key-usage", page, limited_replies, show_key_usage, looks=USUAL_LOOKS)
    yield Scene("server-no-keys", page, {**usual, "GET /keys": []}, show_keys)
    fleets = {**usual, "GET /fleets": [data.FLEET]}
    yield Scene("server-fleet", page, fleets, show_fleets, looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("server-fleet-start", page, usual, begin_fleet, looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("server-cluster", page, usual, write_cluster_files, looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("server-open", page, data.network_replies(), show_keys)


def unfold_cause(window: MainWindow, _api: DemoApi) -> None:
    """Unfold the cause of the first failure."""
    folds = [fold for fold in window.pages.findChildren(Fold) if fold.isVisible()]
    if folds:
        folds[0].toggle()


def show_first(window: MainWindow, _api: DemoApi) -> None:
    """Scroll to the first of the running models."""
    page = window.pages.currentWidget()
    if isinstance(page, ServerScreen):
        QApplication.processEvents()
        page.scroller.ensureWidgetVisible(page.findChildren(EngineRow)[0], 0, 16)


def show_fleets(window: MainWindow, _api: DemoApi) -> None:
    """Scroll to the fleets."""
    page = window.pages.currentWidget()
    if isinstance(page, ServerScreen):
        QApplication.processEvents()
        page.scroller.ensureWidgetVisible(page.fleets, 0, 16)


def write_cluster_files(window: MainWindow, api: DemoApi) -> None:
    """Have the files for a cluster written."""
    page = window.pages.currentWidget()
    if isinstance(page, ServerScreen):
        request = DeploymentRequest(model="Qwen/Qwen3-8B", cards=2)
        api.replies["POST /deployments/render"] = render_deployment(request, stable_versions(read_recipes()))
        section = page.deployment
        section.open_button.click()
        section.form.choices.model.setText(request.model)
        section.form.choices.cards._change_to(request.cards)
        section.form.render_button.click()
        api.flush()
        QApplication.processEvents()
        page.scroller.ensureWidgetVisible(section, 0, 16)


def begin_fleet(window: MainWindow, api: DemoApi) -> None:
    """Begin to start a fleet, of which something is wrong."""
    page = window.pages.currentWidget()
    if isinstance(page, ServerScreen):
        sentence, hint = "The router smg is not installed.", "Install it, and try again."
        api.replies["POST /fleets"] = ErrorBody(code="not_installed", sentence=sentence, hint=hint)
        page.fleets.start.click()
        page.fleets.form.start.click()
        api.flush()
    for _ in range(2):  # the page is as long as it will be once its rows have found their heights
        QApplication.processEvents()
    show_fleets(window, api)


def unfold_request(window: MainWindow, _api: DemoApi) -> None:
    """Unfold the latest request that is over: much of its prompt was warm."""
    page = window.pages.currentWidget()
    if isinstance(page, ServerScreen):
        row = page.findChildren(RequestRow)[2]
        row.toggle()
        QApplication.processEvents()
        page.scroller.ensureWidgetVisible(row, 0, 120)


def show_keys(window: MainWindow, _api: DemoApi) -> None:
    """Scroll to who may use the endpoint."""
    page = window.pages.currentWidget()
    if isinstance(page, ServerScreen):
        QApplication.processEvents()
        page.scroller.ensureWidgetVisible(page.keys.wider.switch, 0, 120)


def show_key_usage(window: MainWindow, _api: DemoApi) -> None:
    """Scroll to what keys were used for."""
    page = window.pages.currentWidget()
    if isinstance(page, ServerScreen):
        QApplication.processEvents()
        page.scroller.ensureWidgetVisible(page.findChildren(KeyUsageList)[0], 0, 16)


def edit_key(window: MainWindow, api: DemoApi) -> None:
    """Open the form of a key with limits, and type something that is no limit."""
    page = window.pages.currentWidget()
    if isinstance(page, ServerScreen):
        row = page.findChildren(KeyRow)[2]
        row.edit_button.click()
        row.form.fields[LimitName.TOKENS_PER_MINUTE].setText("a lot")
        row.form.save_button.click()
        show_keys(window, api)


def make_key(window: MainWindow, api: DemoApi) -> None:
    """Make a key, which is shown this once."""
    page = window.pages.currentWidget()
    if isinstance(page, ServerScreen):
        page.keys.name.setText("tablet")
        page.keys.make_button.click()
        api.flush()
        show_keys(window, api)


def engine_scenes(usual: Replies) -> Iterator[Scene]:
    """Yield what the engines page shows beside its usual state."""
    page = PageId.ENGINES
    yield Scene("engines-installing", page, usual, on_engines(engines.INSTALLING))
    yield Scene("engines-refused", page, usual, on_engines(engines.REFUSED), looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("engines-versions", page, usual, show_versions, looks=(*BOTH, *EVERY_LOOK[:3]))


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


def connect_scenes(usual: Replies) -> Iterator[Scene]:
    """Yield what the connect page shows beside its usual state."""
    page = PageId.CONNECT
    yield Scene("connect-change", page, usual, open_tool("zed"), looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("connect-steps", page, usual, open_tool("cline"), looks=(*BOTH, EVERY_LOOK[2]))
    yield Scene("connect-tried", page, usual, lambda window, api: on_connect(window, api, "try"))
    yield Scene("connect-measuring", page, usual, measure_prompt, looks=LOOKS)
    yield Scene("connect-disturbed", page, usual, refuse_prompt, looks=LOOKS)
    yield Scene("connect-refused", page, usual, lambda window, api: on_connect(window, api, "undo"))


def measure_prompt(window: MainWindow, api: DemoApi) -> None:
    """Measure a coding agent's first prompt, and come to the tasks that need tools."""
    page = window.pages.currentWidget()
    if isinstance(page, ConnectScreen):
        page.model.measure_tool("codex")
        api.flush()
        stage = "Asking for tool calls, 41 of 100 done"
        window.shell.broadcast_event(BenchmarkChanged(model=data.READY.model, stage=stage, fraction=0.6))
        QApplication.processEvents()
        scroll_to(RunProgress)(window, api)


def refuse_prompt(window: MainWindow, api: DemoApi) -> None:
    """Have the measurement refused because it was disturbed."""
    measure_prompt(window, api)
    sentence = (
        "The benchmark was disturbed, so it has no result. With 1 at once, other programs used 41 % of the processors."
    )
    end = BenchmarkChanged(model="m", stage="Ended", done=True, error=sentence, code="benchmark_disturbed")
    window.shell.broadcast_event(end)
    api.flush()


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
