"""The race in the window: what it says before it begins, how it is followed, what is used then, and the way back."""

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.core.benchmarks import StartRace, Workload
from app.core.errors import ErrorBody
from app.core.events import RaceChanged
from app.core.models import SetModel
from app.gui.net.remote_lists import Stores
from app.gui.screens.benchmarks.race_model import RaceModel
from app.gui.screens.benchmarks.view import BenchmarksScreen
from app.gui.shell.contract import RACE_TASK, PageId
from app.gui.theme.theme import Theme
from app.gui.widgets.bars import Meter
from app.gui.widgets.buttons import Toggle
from app.gui.widgets.rows import ListRow
from tests.demo.api import DemoApi
from tests.demo.benchmarks import RACE_PLAN, RACE_RESULT, RACING
from tests.demo.data import READY, TUNED
from tests.gui.conftest import QuietShell

DONE = RaceChanged(model="m", stage="Done", done=True, result=RACE_RESULT)


@pytest.fixture
def model(api: DemoApi, shell: QuietShell) -> RaceModel:
    return RaceModel(Stores(api, shell).api, shell)


@pytest.fixture
def screen(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> BenchmarksScreen:
    page = BenchmarksScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(page)
    page.resize(1000, 800)
    page.show()
    api.flush()
    return page


def open_race(model: RaceModel, api: DemoApi) -> None:
    model.open_plan(READY.model, "code")
    api.flush()


def test_a_plan_says_what_would_be_installed_and_how_long_it_takes(model: RaceModel, api: DemoApi) -> None:
    open_race(model, api)
    assert model.plan == RACE_PLAN
    assert model.summary == "Measuring takes about 8 min."
    model.choose_install("mistral.rs", is_on=True)
    assert "about 11 min" in model.summary
    assert "mistral.rs, 24.8 MiB to download, about a minute or less at 50 Mbit/s" in model.summary
    old, _, missing_text = (model.candidate_texts(part)[1] for part in RACE_PLAN.candidates)
    assert "measured as 2026.4 before: it was updated" in old
    assert "not installed" in missing_text


def test_only_what_was_switched_on_is_installed(model: RaceModel, api: DemoApi) -> None:
    open_race(model, api)
    model.start()
    model.start()
    (body,) = api.bodies_of("POST", "/races")
    assert isinstance(body, StartRace)
    assert (body.model, body.installs, body.settings.workload) == (RACE_PLAN.model, [], Workload.CODE)
    model.close_plan()
    assert model.progress is not None, "it goes on"


def test_one_engine_alone_cannot_race(model: RaceModel, api: DemoApi) -> None:
    api.replies["GET /races/plan"] = type(RACE_PLAN)(model="m", candidates=RACE_PLAN.candidates[1:])
    open_race(model, api)
    assert not model.can_start
    assert "needs two engines" in model.summary
    model.choose_install("mistral.rs", is_on=True)
    assert model.can_start


def test_the_winner_is_used_and_undo_sets_the_engine_of_before(
    model: RaceModel, api: DemoApi, shell: QuietShell
) -> None:
    api.replies[f"GET /model-settings/{RACE_RESULT.model.replace('/', '%2F').replace(':', '%3A')}"] = TUNED
    open_race(model, api)
    model.start()
    shell.broadcast_event(RACING)
    shell.broadcast_event(DONE)
    assert model.progress is None
    assert model.result == RACE_RESULT
    assert [model.entry_texts(entry)[0] for entry in RACE_RESULT.entries] == [
        "llama.cpp",
        "OpenVINO GenAI",
        "mistral.rs",
    ]
    assert model.plot is not None
    assert [name for name, _, _ in model.plot.bars] == ["llama.cpp", "OpenVINO GenAI"]
    first, second, third = (model.entry_texts(entry)[1] for entry in RACE_RESULT.entries)
    assert second.startswith("used from now on · ")
    assert "1.12 (1.05 to 1.20) times as slow as version 2026.4" in first
    assert "0.86 times that of llama.cpp (0.84 to 0.89)" in second
    assert third == "It does not know this architecture."
    model.undo()
    api.flush()
    (body,) = api.bodies_of("POST", "/model-settings")
    assert isinstance(body, SetModel)
    assert body.settings == TUNED.settings
    assert not model.result.is_change


def test_what_went_wrong_is_shown_and_a_stopped_race_is_no_fault(
    model: RaceModel, api: DemoApi, shell: QuietShell
) -> None:
    open_race(model, api)
    model.start()
    shell.broadcast_event(
        RaceChanged(model="m", stage="Ended", done=True, error="It was disturbed.", code="benchmark_disturbed")
    )
    assert model.problem == ErrorBody(code="benchmark_disturbed", sentence="It was disturbed.")
    model.start()
    model.cancel()
    api.flush()
    shell.broadcast_event(RaceChanged(model="m", stage="Ended", done=True, error="Stopped.", code="cancelled"))
    assert model.problem is None
    assert ("DELETE", "/races/job", None) in api.calls


def test_the_page_shows_plan_table_and_bars(screen: BenchmarksScreen, api: DemoApi, shell: QuietShell) -> None:
    assert not screen.race.isVisibleTo(screen)
    shell.request_task(PageId.BENCHMARKS, f"{RACE_TASK}{READY.model}")
    api.flush()
    QApplication.processEvents()
    rows = [row for row in screen.race.candidates.findChildren(ListRow) if row.isVisibleTo(screen)]
    assert len(rows) == len(RACE_PLAN.candidates)
    (toggle,) = [part for part in screen.race.candidates.findChildren(Toggle) if part.isVisibleTo(screen)]
    toggle.click()
    assert screen.model.race.installs == {"mistral.rs"}
    screen.race.start.click()
    shell.broadcast_event(DONE)
    api.flush()
    QApplication.processEvents()
    assert screen.race.undo.isVisibleTo(screen)
    assert len(screen.race.findChildren(Meter)) == 2
    assert len([row for row in screen.race.entries.findChildren(ListRow) if row.isVisibleTo(screen)]) == 3
