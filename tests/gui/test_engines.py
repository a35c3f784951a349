"""The engines page: its state without a window, and what its cards show."""

import msgspec
import pytest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.core.engine_store import EngineJob, InstallEngine, Proof, TestEngine, UseEngine
from app.core.errors import ErrorBody
from app.core.events import EngineJobChanged, EnginesChanged
from app.gui.net.remote_lists import Stores
from app.gui.screens.engines.model import EnginesModel, engine_state, install_words, offer_of, version_facts
from app.gui.screens.engines.view import EngineCard, EnginesScreen, _VersionRow
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button
from app.gui.widgets.menus import Menu
from app.gui.widgets.rows import Tag
from app.gui.widgets.text import Label, Paragraph
from tests.demo import engines
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell


@pytest.fixture
def model(api: DemoApi, shell: QuietShell) -> EnginesModel:
    model = EnginesModel(Stores(api, shell), shell)
    api.flush()
    return model


@pytest.fixture
def screen(qtbot: QtBot, theme: Theme, api: DemoApi, shell: QuietShell) -> EnginesScreen:
    screen = EnginesScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.resize(1000, 700)
    screen.show()
    api.flush()
    return screen


def buttons(screen: EnginesScreen, engine: str) -> dict[str, Button]:
    card = screen._cards[engine]
    return {button.text(): button for button in card.findChildren(Button) if button.isVisibleTo(screen)}


def tell(shell: QuietShell, job: EngineJob) -> None:
    shell.broadcast_event(EngineJobChanged(job=job))


def test_engines_that_suit_come_first_and_the_others_are_kept_apart(model: EnginesModel) -> None:
    assert [engine.id for engine in model.suitable_engines] == ["llama.cpp", "openvino"]
    assert [engine.id for engine in model.other_engines] == ["vllm", "mlx-lm"]
    assert model.summary == "1 engine installed, 197 MiB"


def test_a_version_says_what_it_takes_and_what_its_test_showed() -> None:
    current, bundled_version, failed_version, on_path = engines.LLAMA_CPP.versions
    assert version_facts(current) == "cpu · 101.1 MiB · 1282 tok/s with the Guide"
    assert version_facts(bundled_version) == "cpu · bundled with Roundhouse"
    assert version_facts(on_path) == "/usr/local/bin/llama-server"
    assert failed_version.problem
    assert engine_state(engines.LLAMA_CPP) == ("ok", "Tested")
    assert engine_state(engines.OPENVINO) == ("edge", "Not installed")
    assert engine_state(engines.VLLM) == ("edge", "Cannot run here")
    broken_engine = msgspec.structs.replace(
        engines.LLAMA_CPP, versions=[msgspec.structs.replace(failed_version, is_current=True)]
    )
    assert engine_state(broken_engine) == ("bad", "Failed its test")


def test_what_can_be_installed_is_the_first_that_suits_and_is_not_here() -> None:
    other = offer_of(engines.LLAMA_CPP)
    assert other is not None
    assert other.variant == "vulkan"
    assert offer_of(engines.VLLM) is None
    offer = offer_of(engines.OPENVINO)
    assert offer is not None
    assert install_words(offer) == "Install, 67.7 MiB"
    assert install_words(msgspec.structs.replace(offer, download_bytes=0)) == "Install"


def test_the_stock_is_read_again_when_something_changed(model: EnginesModel, api: DemoApi, shell: QuietShell) -> None:
    del model
    api.calls.clear()
    shell.broadcast_event(EnginesChanged(engine="openvino"))
    api.flush()
    tell(shell, msgspec.structs.replace(engines.INSTALLING, is_done=True))
    api.flush()
    tell(shell, engines.INSTALLING)
    api.flush()
    assert [(method, path) for method, path, _ in api.calls] == [("GET", "/engines/stock")] * 2


def test_an_install_shows_how_far_it_is_and_what_came_of_it(
    model: EnginesModel, api: DemoApi, shell: QuietShell
) -> None:
    toasts: list[str] = []
    model.toast_requested.connect(lambda sentence, _undo: toasts.append(sentence))
    model.install("openvino", "cpu")
    api.flush()
    assert api.bodies_of("POST", "/engines/openvino/install") == [InstallEngine(variant="cpu")]
    assert model.job_of("openvino") == engines.INSTALLING
    assert model.job_of("llama.cpp") is None
    assert model.is_busy
    proof = Proof(at=1.0, model="the Guide", tokens_per_s=321.0)
    tell(shell, msgspec.structs.replace(engines.INSTALLING, is_done=True, proofs=[proof]))
    assert toasts == ["openvino 2026.4.1.0 is installed and in use, 321 tok/s."]
    assert not model.is_busy


def test_an_answer_that_comes_after_the_end_brings_nothing_back(
    model: EnginesModel, api: DemoApi, shell: QuietShell
) -> None:
    model.install("openvino", "cpu")
    tell(shell, msgspec.structs.replace(engines.INSTALLING, is_done=True))
    api.flush()
    assert not model.is_busy


def test_what_went_wrong_stays_until_it_is_dismissed_and_a_cancel_is_no_mistake(
    model: EnginesModel, shell: QuietShell
) -> None:
    tell(shell, engines.REFUSED)
    error = model.error_of("openvino")
    assert error is not None
    assert error.code == "illegal_instruction"
    model.dismiss("openvino")
    assert model.error_of("openvino") is None
    cancellation = ErrorBody(code="cancelled", sentence="It was cancelled.")
    tell(shell, msgspec.structs.replace(engines.REFUSED, id="9", error=cancellation))
    assert model.error_of("openvino") is None


def test_a_switch_can_be_undone(model: EnginesModel, api: DemoApi) -> None:
    undos = []
    model.toast_requested.connect(lambda _sentence, undo: undos.append(undo))
    model.use_version("llama.cpp", "bundled")
    api.flush()
    undos[0]()
    assert api.bodies_of("POST", "/engines/llama.cpp/use") == [
        UseEngine(version="bundled"),
        UseEngine(version="2026.10.11549-cpu"),
    ]


def test_removing_says_what_is_free_again(model: EnginesModel, api: DemoApi) -> None:
    toasts: list[str] = []
    model.toast_requested.connect(lambda sentence, _undo: toasts.append(sentence))
    model.remove_version("llama.cpp", engines.LLAMA_CPP.versions[2])
    api.flush()
    assert toasts == ["2026.8.10566-cpu was removed, freeing 96.3 MiB."]


def test_an_update_is_looked_at_before_it_is_made(model: EnginesModel, api: DemoApi) -> None:
    model.check_update("llama.cpp")
    api.flush()
    assert model.updates["llama.cpp"].to == "2026.11.11702"
    assert api.bodies_of("POST", "/engines/llama.cpp/update") == []
    model.install_update("llama.cpp")
    assert api.bodies_of("POST", "/engines/llama.cpp/update") == [InstallEngine(variant="cpu")]
    toasts: list[str] = []
    model.toast_requested.connect(lambda sentence, _undo: toasts.append(sentence))
    api.replies["GET /engines/llama.cpp/update"] = msgspec.structs.replace(engines.UPDATE, to="")
    model.check_update("llama.cpp")
    api.flush()
    assert toasts == ["2026.10.11549 is the newest version tested with this version of Roundhouse."]


def test_a_card_offers_what_can_be_done(screen: EnginesScreen, api: DemoApi) -> None:
    assert set(buttons(screen, "llama.cpp")) == {"Check for updates", "Test", "4 versions, 197 MiB"}
    assert set(buttons(screen, "openvino")) == {"Install, 67.7 MiB"}
    buttons(screen, "llama.cpp")["Test"].click()
    assert api.bodies_of("POST", "/engines/llama.cpp/test") == [TestEngine(version="2026.10.11549-cpu")]
    buttons(screen, "openvino")["Install, 67.7 MiB"].click()
    api.flush()
    names = buttons(screen, "openvino")
    assert "Cancel" in names
    assert not names["Install, 67.7 MiB"].isEnabled()
    names["Cancel"].click()
    assert ("DELETE", "/engines/job", None) in api.calls


def test_what_was_run_for_real_is_told_where_an_engine_is_judged(screen: EnginesScreen) -> None:
    listing = msgspec.structs.replace(
        engines.OPENVINO, verified="Run for real on Linux.", unverified="Not on a Mac.", span="Not over two computers."
    )
    card = screen._cards[listing.id]
    card.show_stock(listing)
    words = "Run for real on Linux.\n\nNot on a Mac.\n\nNot over two computers."
    assert words in {text.toolTip() for text in card.findChildren(Paragraph)}


def test_other_builds_that_run_here_are_offered_in_a_menu(screen: EnginesScreen, api: DemoApi) -> None:
    card = screen._cards["llama.cpp"]
    assert card._builds.isVisibleTo(screen)
    assert not screen._cards["openvino"]._builds.isVisibleTo(screen), "its only build has a button"
    card._offer_builds()
    (menu,) = [child for child in card.findChildren(Menu) if child.accessibleName() == "Other builds"]
    words = [action.text() for action in menu.actions()]
    assert words == ["Install 2026.10.11549 · cpu", "Install 0.8.0 · vulkan, 30.5 MiB"]
    assert [action.isEnabled() for action in menu.actions()] == [False, True]
    menu.actions()[1].trigger()
    assert api.bodies_of("POST", "/engines/llama.cpp/install") == [InstallEngine(variant="vulkan")]
    menu.close()


def test_versions_unfold_and_the_one_before_can_be_rolled_back_to(screen: EnginesScreen, api: DemoApi) -> None:
    screen._cards["llama.cpp"]._fold.toggle()
    names = buttons(screen, "llama.cpp")
    assert {"Roll back", "Test and use"} <= set(names)
    names["Roll back"].click()
    assert api.bodies_of("POST", "/engines/llama.cpp/use") == [UseEngine(version="bundled")]


def tags(row: QWidget) -> set[str]:
    return {tag.findChildren(Label)[0].text() for tag in row.findChildren(Tag) if tag.isVisibleTo(row)}


def menu_of(row: _VersionRow) -> Menu:
    row._open_menu()
    (menu,) = row.findChildren(Menu)
    return menu


def test_a_version_that_failed_is_marked_tested_before_it_is_used_and_used_all_the_same_on_demand(
    screen: EnginesScreen, api: DemoApi
) -> None:
    failed_row = screen._cards["llama.cpp"].findChildren(_VersionRow)[2]
    assert tags(failed_row) == {"Failed"}
    test_job = msgspec.structs.replace(engines.INSTALLING, engine="llama.cpp", verb="use")
    api.replies["POST /engines/llama.cpp/use"] = test_job
    toasts: list[str] = []
    screen.model.toast_requested.connect(lambda sentence, _undo: toasts.append(sentence))
    screen.model.use_version("llama.cpp", "2026.8.10566-cpu")
    api.flush()
    assert (screen.model.job, toasts) == (test_job, []), "nothing is used before it has passed"
    menu = menu_of(failed_row)
    next(action for action in menu.actions() if action.text() == "Use it anyway").trigger()
    assert api.bodies_of("POST", "/engines/llama.cpp/use")[-1] == UseEngine(version="2026.8.10566-cpu", force=True)
    menu.close()


def test_a_program_on_path_is_shown_and_cannot_be_removed(screen: EnginesScreen) -> None:
    row = screen._cards["llama.cpp"].findChildren(_VersionRow)[3]
    assert tags(row) == {"On PATH"}
    assert [label.text() for label in row.findChildren(Label)][:1] == ["b11402 · llama-server"]
    assert not any(action.text().startswith("Remove") for action in menu_of(row).actions())


def test_what_failed_when_it_was_installed_is_marked(theme: Theme, api: DemoApi, shell: QuietShell) -> None:
    offer = msgspec.structs.replace(engines.OPENVINO.offers[0], problem="It wrote nonsense.")
    stock = msgspec.structs.replace(engines.OPENVINO, offers=[offer])
    assert engine_state(stock) == ("bad", "Failed its test")
    api.replies["GET /engines/stock"] = [stock]
    screen = EnginesScreen(theme, Stores(api, shell), shell)
    api.flush()
    texts = [label.text() for label in screen._cards["openvino"].findChildren(Paragraph)]
    assert "It wrote nonsense." in texts
    other = msgspec.structs.replace(offer, variant="gpu", problem="")
    assert offer_of(msgspec.structs.replace(stock, offers=[offer, other])) == other


def test_cards_stay_in_place_and_go_with_their_engine(screen: EnginesScreen, api: DemoApi) -> None:
    card = screen._cards["llama.cpp"]
    api.replies["GET /engines/stock"] = [engines.LLAMA_CPP]
    screen.model.listings.read()
    api.flush()
    assert screen._cards == {"llama.cpp": card}
    assert len([child for child in screen.findChildren(EngineCard) if child.isVisibleTo(screen)]) == 1


def test_a_gateway_that_does_not_answer_is_said(theme: Theme, api: DemoApi, shell: QuietShell) -> None:
    api.replies["GET /engines/stock"] = ErrorBody(code="gateway_gone", sentence="It is gone.")
    screen = EnginesScreen(theme, Stores(api, shell), shell)
    api.flush()
    assert screen._trouble.accessibleName() == "Problem: It is gone."
