"""What is photographed of the models page: the list, settings of a model, attached endpoints, Discover."""

from collections.abc import Iterator
from functools import partial

import msgspec
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.core.engines import EngineState, EngineStatus, FailureReport
from app.core.events import QuantizeChanged
from app.gui.screens.benchmarks.plot_view import PlotCard
from app.gui.screens.models.across_section import AcrossSection
from app.gui.screens.models.hub_card import HubCardView
from app.gui.screens.models.pick_card import FamilyView
from app.gui.screens.models.view import ModelsScreen
from app.gui.shell.contract import PageId
from app.gui.shell.window import MainWindow
from app.gui.widgets.fields import Field
from tests.demo import data, hub
from tests.demo.api import DemoApi
from tests.demo.benchmark_scenes import LOOKS, settle_layout
from tests.demo.benchmarks import HISTORY
from tests.demo.disk_scenes import disk_scenes
from tests.demo.paired_machines import VLLM_SPREAD
from tests.demo.scene import BOTH, EVERY_LOOK, USUAL_LOOKS, Act, Replies, Scene, SceneLook, scroll_down, scroll_to

LOADING_OVER_TWO = EngineStatus(
    model=data.ORIGINAL.name,
    engine="vllm",
    state=EngineState.LOADING,
    stage="Reading weights",
    progress=0.4,
    placement=VLLM_SPREAD.placement,
)
LOST_ONE = msgspec.structs.replace(
    LOADING_OVER_TWO,
    state=EngineState.FAILED,
    failure=FailureReport(
        code="unreachable",
        sentence="desk (192.168.1.7:11643), which held layers of this model, went away at 12:00:00.",
        hint="The next request or load tries to reach it again.",
    ),
)


def model_scenes(usual: Replies, much: Replies) -> Iterator[Scene]:
    """Yield what the models page shows beside its usual state."""
    page, far = PageId.MODELS, data.gateway_replies(models=[*data.MODELS, data.FAR_MODEL])
    yield from model_settings_scenes(usual)
    yield Scene("models-attach", page, usual, open_attach_card, looks=USUAL_LOOKS)
    yield Scene("models-correct", page, far, open_correction, looks=USUAL_LOOKS)
    yield Scene("models-empty", page, data.gateway_replies(statuses=[], models=[]))
    yield Scene("models-long-names", page, much, looks=(*Scene("", page).looks, *EVERY_LOOK[:3]))
    yield Scene("models-failing", page, much, scroll_down, looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("models-not-found", page, much, search_models)
    yield from discover_scenes(usual)
    yield from disk_scenes()


def model_settings_scenes(usual: Replies) -> Iterator[Scene]:
    """Yield a model's settings."""
    page = PageId.MODELS
    yield Scene("models-settings", page, usual, open_model_settings, looks=USUAL_LOOKS)
    yield Scene("models-settings-end", page, usual, open_settings_with_error)
    yield Scene("models-settings-engine", page, usual, open_settings_for_vllm)
    yield Scene("models-settings-exl3", page, usual, open_settings_of_originals)
    yield Scene("models-settings-across", page, usual, open_settings_over_two, looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("models-measured", page, usual, open_history, looks=LOOKS)
    for state, status in (("loading", LOADING_OVER_TWO), ("lost", LOST_ONE)):
        act = partial(load_folder_over_two, status)
        yield Scene(f"models-settings-across-{state}", page, usual, act, looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("models-settings-mirrored", page, usual, open_model_settings, looks=(SceneLook(is_mirrored=True),))


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


def open_history(window: MainWindow, api: DemoApi) -> None:
    """Look at what was measured of the model that runs."""
    api.replies["GET /benchmarks"] = HISTORY
    open_model_settings(window, api)
    settle_layout()
    scroll_to(PlotCard)(window, api)


def open_settings_for_vllm(window: MainWindow, api: DemoApi) -> None:
    """Open the settings of a model with code of its own, on an engine with parsers, and look at the end of the page."""
    api.replies[f"GET /model-settings/{data.READY.model}"] = msgspec.structs.replace(
        data.TUNED,
        settings=msgspec.structs.replace(data.TUNED.settings, extra_args=["--enforce-eager", "--seed=7"]),
        brings_code=True,
        takes=["allows_code", "tool_parser", "reasoning_parser", "gpu_memory_fraction"],
        tool_parser="hermes",
    )
    open_model_settings(window, api)
    for _ in range(2):  # the page is as long as it will be once its rows have found their heights
        QApplication.processEvents()
    scroll_down(window, api)


def open_settings_of_originals(window: MainWindow, api: DemoApi) -> None:
    """Open the settings of original weights while EXL3 is made of them, and look at the end of the page."""
    api.replies[f"GET /model-settings/{data.ORIGINAL.name}"] = data.TUNED
    api.replies["POST /quantizations/plan"] = data.QUANTIZE_PLAN
    api.replies["GET /quantizations/job"] = QuantizeChanged(
        model=data.ORIGINAL.name, stage="Quantising model.layers.11", fraction=0.3
    )
    screen = window.pages.currentWidget()
    if isinstance(screen, ModelsScreen):
        screen.model.model_settings.open_model(data.ORIGINAL)
        api.flush()
    for _ in range(2):  # the page is as long as it will be once its rows have found their heights
        QApplication.processEvents()
    scroll_down(window, api)


def open_settings_over_two(window: MainWindow, api: DemoApi) -> None:
    """Open the settings of the model that runs, choose a computer for it to lie over too, and look at that part."""
    open_model_settings(window, api)
    screen = window.pages.currentWidget()
    if isinstance(screen, ModelsScreen):
        screen.model.model_settings.across.choose_machine("desk", is_chosen=True)
        api.flush()
    for _ in range(2):  # the page is as long as it will be once its rows have found their heights
        QApplication.processEvents()
    scroll_to(AcrossSection)(window, api)


def load_folder_over_two(status: EngineStatus, window: MainWindow, api: DemoApi) -> None:
    """Load a folder of weights over two computers with vLLM, and look at how that stands."""
    api.replies[f"GET /model-settings/{data.ORIGINAL.name}"] = data.TUNED
    api.replies |= {"POST /plan/across": VLLM_SPREAD, "POST /load": status}
    screen = window.pages.currentWidget()
    if isinstance(screen, ModelsScreen):
        settings = screen.model.model_settings
        settings.open_model(data.ORIGINAL)
        api.flush()
        settings.across.choose_machine("desk", is_chosen=True)
        api.flush()
        settings.across.load_across()
        api.flush()
    for _ in range(2):  # the page is as long as it will be once its rows have found their heights
        QApplication.processEvents()
    scroll_to(AcrossSection)(window, api)


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


def search_models(window: MainWindow, _api: DemoApi) -> None:
    """Look for a model that is not there."""
    page = window.pages.currentWidget()
    if isinstance(page, ModelsScreen):
        next(field for field in page.findChildren(Field)).setText("zebra")


_LAYOUT_MS = 100
"""Lists in lists take Qt several turns of the event loop until all have their heights."""


def discover_scenes(usual: Replies) -> Iterator[Scene]:
    """Yield what the models page shows of the hub, and of downloads."""
    page = PageId.MODELS
    coming_replies = {**usual, "GET /downloads": hub.DOWNLOADS}
    gated_replies = {**usual, "GET /hub/model": hub.GATED, "GET /hub/search": hub.GATED_RESULTS}
    offline = {**usual, "GET /hub/search": hub.OFFLINE_RESULTS}
    yield Scene("models-downloads", page, coming_replies, looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("discover", page, coming_replies, show_discover(), looks=(*USUAL_LOOKS, SceneLook(is_mirrored=True)))
    yield Scene(
        "discover-families",
        page,
        coming_replies,
        unfold_families,
        looks=(*BOTH, *EVERY_LOOK[:3], SceneLook("dark", 200), SceneLook(is_mirrored=True)),
    )
    failing_replies = {**usual, "GET /hub/search": data.NO_SUCH_MODEL}
    yield Scene("discover-catalogue", page, failing_replies, show_discover("gemma"), looks=BOTH)
    yield Scene(
        "discover-found",
        page,
        usual,
        show_discover("qwen3"),
        looks=(*BOTH, *EVERY_LOOK[:3], SceneLook(is_mirrored=True)),
    )
    yield Scene("discover-sheet", page, usual, show_discover("qwen3", is_open=True), looks=USUAL_LOOKS)
    yield Scene("discover-gated", page, gated_replies, show_discover("gemma", is_open=True))
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
