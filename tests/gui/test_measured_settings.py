"""Self-tuning in the window: begun on the page and from a model's settings, followed, shown, undone."""

import msgspec
import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.core.benchmarks import StartTune
from app.core.events import TuneChanged
from app.core.models import SetModel
from app.gui.net.remote_lists import Stores
from app.gui.screens.benchmarks.tuning_model import LONG_SEARCH_S, TuneModel
from app.gui.screens.benchmarks.view import BenchmarksScreen
from app.gui.shell.contract import TUNE_TASK, PageId
from app.gui.theme.theme import Theme
from app.gui.widgets.rows import ListRow
from tests.demo.api import DemoApi
from tests.demo.benchmarks import TUNING, TUNING_RESULT
from tests.demo.data import READY, TUNED
from tests.gui.conftest import QuietShell

DONE = TuneChanged(model="m", stage="Done", done=True, result=TUNING_RESULT)
PATH = f"GET /model-settings/{TUNING_RESULT.model.replace('/', '%2F').replace(':', '%3A')}"


@pytest.fixture
def model(api: DemoApi, shell: QuietShell) -> TuneModel:
    return TuneModel(Stores(api, shell).api, shell)


def test_it_is_begun_once_followed_and_undone(model: TuneModel, api: DemoApi, shell: QuietShell) -> None:
    api.replies[PATH] = TUNED
    model.start(READY.model, "code")
    model.start(READY.model, "code")
    (body,) = api.bodies_of("POST", "/tunings")
    assert isinstance(body, StartTune)
    assert (body.model, body.workload) == (READY.model, "code")
    shell.broadcast_event(TUNING)
    assert model.progress == TUNING
    shell.broadcast_event(DONE)
    assert model.progress is None
    assert model.figures[0] == ("First token", "1.02 s", "1.20 s before")
    used_text, slower, refused_text, untried_text = (model.entry_texts(entry)[1] for entry in TUNING_RESULT.entries)
    assert used_text.startswith("used · whole answers in 0.88 times")
    assert "used" not in slower
    assert "does not support" in refused_text
    assert untried_text == "The engine does not say which next tokens it holds for likely."
    model.undo()
    api.flush()
    (change,) = api.bodies_of("POST", "/model-settings")
    assert isinstance(change, SetModel)
    assert change.settings == TUNED.settings, "what was tuned is as before, and nothing else was touched"
    assert model.result is not None
    assert not model.result.is_change
    model.undo()
    assert len(api.bodies_of("POST", "/model-settings")) == 1, "there is nothing left to undo"


def test_a_search_can_be_begun_again_for_longer(model: TuneModel, api: DemoApi, shell: QuietShell) -> None:
    model.search_longer()
    assert api.bodies_of("POST", "/tunings") == [], "nothing was searched yet"
    model.start(READY.model, "rag", 4)
    shell.broadcast_event(DONE)
    model.search_longer()
    first, second = api.bodies_of("POST", "/tunings")
    assert isinstance(first, StartTune)
    assert second == msgspec.structs.replace(first, duration_s=LONG_SEARCH_S)


def test_figures_that_did_not_change_have_no_before(model: TuneModel, shell: QuietShell) -> None:
    model.start(READY.model, "chat")
    result = msgspec.structs.replace(TUNING_RESULT, is_change=False, after=TUNING_RESULT.before)
    shell.broadcast_event(msgspec.structs.replace(DONE, result=result))
    assert {before for _, _, before in model.figures} == {""}


def test_the_page_shows_before_and_after(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> None:
    screen = BenchmarksScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.resize(1000, 800)
    screen.show()
    api.flush()
    assert not screen.tuning.isVisibleTo(screen)
    shell.request_task(PageId.BENCHMARKS, f"{TUNE_TASK}{READY.model}")
    api.flush()
    assert screen.tuning.progress.isVisibleTo(screen)
    assert not screen.form.start.isEnabled()
    assert not screen.form.race.isEnabled()
    shell.broadcast_event(DONE)
    QApplication.processEvents()
    rows = [row for row in screen.tuning.entries.findChildren(ListRow) if row.isVisibleTo(screen)]
    assert len(rows) == len(TUNING_RESULT.entries)
    assert screen.tuning.undo.isVisibleTo(screen)
    assert screen.form.start.isEnabled()
    screen.tuning.close_.click()
    assert not screen.tuning.isVisibleTo(screen)
