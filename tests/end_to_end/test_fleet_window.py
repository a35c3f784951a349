"""A fleet of real engines behind a real router, from the window: started, grown, drained, renewed, stopped.

`FLEET_PICTURES` names a folder for pictures of the page on the way.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pytestqt.qtbot import QtBot

from app.client.discovery import find_running_gateway
from app.config.paths import Paths
from app.core.fleets import Fleet, ReplicaState
from app.gui.main import WindowProgram, open_window
from app.gui.screens.server.fleets_view import FleetCard, ReplicaRow
from app.gui.screens.server.view import ServerScreen
from app.gui.shell.contract import PageId
from tests.end_to_end.conftest import Roundhouse
from tests.end_to_end.test_fleet import install
from tests.end_to_end.test_window import leave

pytestmark = [pytest.mark.engines, pytest.mark.timeout(900)]
WITHIN_MS = 120_000
PICTURES = os.environ.get("FLEET_PICTURES", "")
FILE = 'model = "team"\nserves = "guide"\nreplicas = 2\n'


@pytest.fixture(scope="session")
def qapp_args() -> list[str]:
    return ["roundhouse", "-platform", "offscreen"]


@pytest.fixture
def program(home: Paths, roundhouse: Roundhouse, qtbot: QtBot) -> Iterator[WindowProgram]:
    """The whole window, with smg installed."""
    assert find_running_gateway(home) is None
    install(roundhouse, "smg")
    program = open_window(["roundhouse"])
    qtbot.waitUntil(lambda: program.window.shell.is_connected, timeout=WITHIN_MS)
    yield program
    leave(program)
    program.window.deleteLater()


class FleetPage:
    """The server page's fleet, as a person sees it and presses its buttons."""

    def __init__(self, program: WindowProgram, qtbot: QtBot) -> None:
        self._program, self._qtbot = program, qtbot
        program.window.shell.show_page(PageId.SERVER)
        page = program.window.pages.currentWidget()
        assert isinstance(page, ServerScreen)
        self.page, self.section = page, page.fleets

    @property
    def fleet(self) -> Fleet | None:
        return next(iter(self.section.model.items), None)

    @property
    def card(self) -> FleetCard:
        (card,) = self.section._cards.values()
        return card

    def row(self, name: str) -> ReplicaRow:
        row = self.card.replicas.rows[name]
        assert isinstance(row, ReplicaRow)
        return row

    def states(self) -> dict[str, ReplicaState]:
        return {replica.name: replica.state for replica in self.fleet.replicas} if self.fleet else {}

    def await_states(self, title: str, states: dict[str, ReplicaState]) -> None:
        """Wait until the page shows the replicas so, and photograph it."""
        self._qtbot.waitUntil(lambda: self.states() == states, timeout=WITHIN_MS)
        self.photograph(title)

    def photograph(self, title: str) -> None:
        if PICTURES:
            self._qtbot.wait(200)
            self.page.scroller.ensureWidgetVisible(self.section, 0, 16)
            self._program.window.grab().save(str(Path(PICTURES) / f"{title}.png"))

    def confirm(self) -> None:
        """Press the button that does what is asked about."""
        self.photograph("question")
        self._program.window.question.buttons[-1].click()


def chat(home: Paths) -> int:
    """Ask the fleet something, and return the status."""
    gateway_info = find_running_gateway(home)
    assert gateway_info is not None
    body = {"model": "team", "messages": [{"role": "user", "content": "What is VRAM?"}], "max_tokens": 8}
    return httpx.post(f"{gateway_info.url}/v1/chat/completions", json=body, timeout=120).status_code


def router_series(home: Paths) -> list[str]:
    """Return what the router counts itself, from the gateway's page of metrics."""
    gateway_info = find_running_gateway(home)
    assert gateway_info is not None
    lines = httpx.get(f"{gateway_info.url}/metrics", timeout=60).text.splitlines()
    return [line for line in lines if 'fleet="team",router="smg"' in line]


def test_a_fleet_is_led_from_the_window(program: WindowProgram, home: Paths, qtbot: QtBot) -> None:
    ready_state, drained_state = ReplicaState.READY, ReplicaState.DRAINED
    page = FleetPage(program, qtbot)
    page.section.start.click()
    page.section.form.text.setPlainText(FILE)
    page.photograph("form")
    page.section.form.start.click()
    page.await_states("started", {"1": ready_state, "2": ready_state})
    assert chat(home) == httpx.codes.OK
    assert any(line.startswith("smg_") for line in router_series(home)), "what the router counts itself is on our page"

    page.card.changes.add.click()
    page.await_states("grown", {"1": ready_state, "2": ready_state, "3": ready_state})
    page.row("2").switch.click()
    page.await_states("drained", {"1": ready_state, "2": drained_state, "3": ready_state})
    assert chat(home) == httpx.codes.OK
    page.row("2").switch.click()
    page.await_states("resumed", {"1": ready_state, "2": ready_state, "3": ready_state})

    page.row("3").remove.click()
    page.confirm()
    page.await_states("removed", {"1": ready_state, "2": ready_state})

    page.card.changes.roll.click()
    qtbot.waitUntil(lambda: bool(page.fleet and page.fleet.rolling), timeout=WITHIN_MS)
    page.photograph("rolling")
    qtbot.waitUntil(lambda: bool(page.fleet and not page.fleet.rolling), timeout=WITHIN_MS)
    page.await_states("renewed", {"1": ready_state, "2": ready_state})
    assert chat(home) == httpx.codes.OK

    page.card.head.switch.click()
    qtbot.waitUntil(lambda: bool(page.fleet and page.fleet.is_stopped), timeout=WITHIN_MS)
    page.photograph("stopped")
