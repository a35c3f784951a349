"""The memory that models share and the pins, on the models page: what is asked, what is shown, and the way back."""

import msgspec
from pytestqt.qtbot import QtBot

from app.core.engines import MemoryHolder, MemoryPool, MemoryState, WaitingLoad
from app.core.events import EngineChanged, SettingChanged
from app.core.models import ModelSettings, SetModel
from app.gui.net.remote_lists import Stores
from app.gui.screens.models import memory_model
from app.gui.screens.models.model import ModelRow, ModelsModel
from app.gui.screens.models.model_row_view import ModelRowView
from app.gui.screens.models.view import MemoryPanel
from app.gui.theme.theme import Theme
from app.gui.widgets.text import ElidedLabel, Label
from tests.demo import data
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell

GIB = 1024**3
POOL = MemoryPool(
    id="gpu",
    name="RTX 5090",
    limit=30 * GIB,
    head_room=GIB,
    holders=[
        MemoryHolder(model="small", bytes=4 * GIB, is_pinned=True),
        MemoryHolder(model="new", bytes=None),
        MemoryHolder(model="large", bytes=20 * GIB),
    ],
)


def test_a_bar_s_pieces_are_the_models_the_largest_first() -> None:
    assert [(part.name, part.amount / GIB) for part in memory_model.bar_parts(POOL)] == [
        ("large", 20.0),
        ("small", 4.0),
        ("new", 0.0),
    ]
    assert [text for _, text in memory_model.legend_entries(POOL)] == [
        "large, 20.0 GiB",
        "small, 4.0 GiB, pinned",
        "new, size not known yet",
        "6.0 GiB left, plus 1.0 GiB reserved for other programs",
    ]
    assert memory_model.pool_headline(POOL) == "24.0 GiB of 30.0 GiB for models"


def test_more_than_there_is_fills_the_bar_and_no_more() -> None:
    over = msgspec.structs.replace(POOL, limit=-5)
    assert memory_model.bar_total(over) == 24 * GIB
    assert memory_model.pool_headline(over) == "24.0 GiB of 0 B for models"


def test_who_waits_for_whom_is_a_sentence() -> None:
    waiting_loads = [
        WaitingLoad(model="a", seconds=1.0, needs={}, waits_for=["b", "c"]),
        WaitingLoad(model="d", seconds=1.0, needs=None),
    ]
    assert memory_model.waits_text(waiting_loads) == "a is waiting for b and c. d is waiting for memory."


def test_the_panel_is_there_only_while_somebody_holds_or_waits(qtbot: QtBot, theme: Theme) -> None:
    panel = MemoryPanel(theme)
    qtbot.addWidget(panel)
    assert panel.isHidden()
    panel.show_state(MemoryState(pools=[POOL, msgspec.structs.replace(POOL, id="empty", holders=[])]))
    assert not panel.isHidden()
    panel.show_state(MemoryState(pools=[], waiting=[WaitingLoad(model="a", seconds=0.0, needs=None)]))
    assert not panel.isHidden()
    panel.show_state(MemoryState(pools=[]))
    assert panel.isHidden()


def test_memory_is_read_again_once_however_much_an_engine_says(api: DemoApi, shell: QuietShell, qtbot: QtBot) -> None:
    model = ModelsModel(Stores(api, shell), shell)
    api.flush()
    before = api.calls.count(("GET", "/memory", None))
    for _ in range(5):
        shell.broadcast_event(EngineChanged(status=data.LOADING))
    qtbot.waitUntil(lambda: api.calls.count(("GET", "/memory", None)) > before)
    assert api.calls.count(("GET", "/memory", None)) == before + 1
    api.flush()
    assert model.memory.memory == data.MEMORY


def test_a_pin_keeps_what_else_is_set_and_can_be_taken_back(api: DemoApi, shell: QuietShell) -> None:
    name = data.MODELS[1].name
    api.replies["GET /model-settings"] = {name: ModelSettings(context=512)}
    model = ModelsModel(Stores(api, shell), shell)
    undos: list[object] = []
    model.toast_requested.connect(lambda _args, undo: undos.append(undo))
    api.flush()
    assert not model.memory.is_pinned(name)
    api.replies["POST /model-settings"] = ModelSettings(context=512, pinned=True)
    model.set_pinned(data.MODELS[1], is_pinned=True)
    api.flush()
    body = SetModel(model=name, settings=ModelSettings(context=512, pinned=True))
    assert ("POST", "/model-settings", body) in api.calls
    assert {row.model.name: row.is_pinned for row in model.list_rows()}[name]
    undo = undos[0]
    assert callable(undo)
    undo()
    assert api.calls[-1] == (
        "POST",
        "/model-settings",
        SetModel(model=name, settings=ModelSettings(context=512)),
    )


def test_a_row_says_how_many_wait_and_that_it_is_pinned(
    qtbot: QtBot, theme: Theme, api: DemoApi, shell: QuietShell
) -> None:
    model = ModelsModel(Stores(api, shell), shell)
    status = msgspec.structs.replace(data.READY, queued=3)
    view = ModelRowView(theme, model, shell, ModelRow(data.MODELS[1], status))
    qtbot.addWidget(view)
    view.show_row(ModelRow(data.MODELS[1], status, is_pinned=True))
    assert "Ready, 3 waiting" in [label.text() for label in view.findChildren(ElidedLabel)]
    (pinned_label,) = [label for label in view.findChildren(Label) if label.text() == "Pinned"]
    assert pinned_label.isVisibleTo(view)
    view.show_row(ModelRow(data.MODELS[1], status))
    assert not pinned_label.isVisibleTo(view)


def test_pins_are_read_again_when_somebody_else_set_one(api: DemoApi, shell: QuietShell) -> None:
    model = ModelsModel(Stores(api, shell), shell)
    api.flush()
    api.replies["GET /model-settings"] = {}
    shell.broadcast_event(SettingChanged(name="model.x"))
    api.flush()
    assert not model.memory.is_pinned(data.READY.model)
