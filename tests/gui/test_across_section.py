"""A model over several computers, in its settings: chosen, planned, loaded, and what is said when one is lost."""

import pytest
from msgspec.structs import replace
from pytestqt.qtbot import QtBot

from app.core.across import AcrossRequest
from app.core.engines import EngineState, EngineStatus, FailureReport
from app.core.errors import ErrorBody
from app.core.events import EngineChanged
from app.core.machines import MachineList, WakeMachine
from app.core.models import LoadModel, LoadOptions, ModelInfo, UnloadModel
from app.gui.net.remote_lists import Stores
from app.gui.screens.models.across_section import AcrossModel, AcrossSection, LenderRow, ShareRow
from app.gui.theme.theme import Theme
from tests.demo.api import DemoApi
from tests.demo.paired_machines import LENDERS, LISTED, SPREAD, VLLM_SPREAD
from tests.gui.conftest import QuietShell

MODEL = ModelInfo(name="m", title="M", path="/m.gguf", format="gguf", size_bytes=4, architecture="llama")
PLACEMENT = "Layers 1 to 20 on this computer, 21 to 48 on desk."
READY = EngineStatus(model="m", engine="llama.cpp", state=EngineState.READY, placement=PLACEMENT)
LOSS = "desk (192.168.1.7:11643), which held layers of this model, went away at 12:00:00."


@pytest.fixture
def stores(api: DemoApi, shell: QuietShell) -> Stores:
    stores = Stores(api, shell)
    shell.is_connected = True
    stores.machines.read()
    api.flush()
    return stores


@pytest.fixture
def model(stores: Stores, api: DemoApi, shell: QuietShell) -> AcrossModel:
    model = AcrossModel(stores, shell)
    model.open_model(MODEL)
    api.flush()
    return model


@pytest.fixture
def section(model: AcrossModel, theme: Theme, qtbot: QtBot) -> AcrossSection:
    section = AcrossSection(theme, model)
    qtbot.addWidget(section)
    return section


def lender_row(section: AcrossSection, name: str) -> LenderRow:
    row = section.lenders.rows[name]
    assert isinstance(row, LenderRow)
    return row


def test_each_computer_says_what_it_lends_or_why_it_cannot(section: AcrossSection) -> None:
    desk, box = lender_row(section, "desk"), lender_row(section, "box")
    assert desk.accessibleDescription() == "22.0 GiB free · memory 68 GB/s · 0.42 ms there and back, 112 MB/s"
    assert (desk.toggle.isEnabled(), box.toggle.isEnabled()) == (True, False)
    assert (desk.wake.isHidden(), box.wake.isHidden()) == (True, False)
    assert box.facts.text() == "box (192.168.1.22:11643) does not answer. It may be asleep or switched off."
    assert not section.load.isEnabled()


def test_one_that_sleeps_is_woken(section: AcrossSection, api: DemoApi, shell: QuietShell) -> None:
    lender_row(section, "box").wake.click()
    api.flush()
    assert api.bodies_of("POST", "/machines/wake") == [WakeMachine(name="box")]
    assert shell.messages == ["The packet that wakes box was sent."]


def test_what_is_chosen_is_planned_and_loaded(section: AcrossSection, api: DemoApi) -> None:
    lender_row(section, "desk").toggle.click()
    assert section.waiting.text() == "Calculating…"
    api.flush()
    assert api.bodies_of("POST", "/plan/across") == [AcrossRequest(model="m", across=["desk"])]
    assert section.sentence.text() == SPREAD.sentence
    share = section.shares.rows["desk"]
    assert isinstance(share, ShareRow)
    assert share.accessibleName() == "desk: layers 21 to 48"
    assert share.accessibleDescription() == "12.0 GiB of 22.0 GiB free · 0.42 ms there and back, 112 MB/s"
    assert share._time.text() == "34.9 ms a token"
    assert "15 tok/s" in section.reasons.text()

    api.replies["POST /load"] = replace(READY, state=EngineState.LOADING)
    section.load.click()
    assert (section.load.isHidden(), section.stop.isHidden()) == (True, False)
    api.flush()
    options = LoadOptions(across=("desk",))
    assert api.bodies_of("POST", "/load") == [LoadModel(model="m", options=options, wait=False)]
    assert section.placement.text() == PLACEMENT
    assert not section.load_here.isHidden()
    section.load_here.click()
    api.flush()
    alone = LoadModel(model="m", options=LoadOptions(across=()), wait=False)
    assert api.bodies_of("POST", "/load")[-1] == alone


def test_room_being_made_is_called_off(section: AcrossSection, model: AcrossModel, api: DemoApi) -> None:
    lender_row(section, "desk").toggle.click()
    api.flush()
    section.load.click()
    section.stop.click()
    api.flush()
    assert not model.is_loading
    assert section.load.isEnabled()


def test_a_model_of_another_format_is_asked_for_by_name_and_what_is_only_planned_is_not_loaded(
    section: AcrossSection, model: AcrossModel, api: DemoApi
) -> None:
    sentence = "MLX's ring was never run by Roundhouse, which plans it and does not start it."
    api.replies["POST /plan/across"] = replace(SPREAD, is_started=False, reasons=[sentence])
    model.open_model(replace(MODEL, name="ml x", format="mlx"))
    api.flush()
    assert ("GET", "/machines/memory?model=ml%20x", None) in api.calls
    lender_row(section, "desk").toggle.click()
    api.flush()
    assert section.reasons.text() == sentence
    assert not section.load.isEnabled()


def test_a_folder_is_loaded_with_vllm_which_says_how_far_it_is_is_called_off_and_names_who_was_lost(
    section: AcrossSection, model: AcrossModel, api: DemoApi, shell: QuietShell
) -> None:
    api.replies["POST /plan/across"] = VLLM_SPREAD
    model.open_model(replace(MODEL, format="safetensors"))
    api.flush()
    lender_row(section, "desk").toggle.click()
    api.flush()
    assert section.reasons.text().startswith("It runs on vLLM")
    assert "takes GGUF files only" in section.reasons.text()

    status = replace(READY, engine="vllm", state=EngineState.LOADING, stage="Reading weights", progress=0.4)
    api.replies["POST /load"] = status
    section.load.click()
    api.flush()
    assert section.waiting.text() == "Reading weights 40 %"
    assert (section.load.isHidden(), section.stop.isHidden()) == (True, False)
    shell.broadcast_event(EngineChanged(status=replace(status, stage="Warming up", progress=None)))
    assert section.waiting.text() == "Warming up…"
    api.replies["POST /unload"] = replace(status, state=EngineState.STOPPED, placement="")
    section.stop.click()
    api.flush()
    assert api.bodies_of("POST", "/unload") == [UnloadModel(model="m")]
    assert (section.load.isEnabled(), section.stop.isHidden()) == (True, True)

    shell.broadcast_event(EngineChanged(status=replace(READY, engine="vllm")))
    assert section.waiting.isHidden()
    failure = FailureReport(code="unreachable", sentence=LOSS, hint="The next request tries to reach it again.")
    shell.broadcast_event(EngineChanged(status=replace(status, state=EngineState.FAILED, failure=failure)))
    assert section.error._sentence.text() == LOSS
    assert section.waiting.isHidden()
    assert not section.load.isHidden()


def test_a_plan_that_does_not_fit_is_said_and_not_loaded(section: AcrossSection, api: DemoApi) -> None:
    api.replies["POST /plan/across"] = replace(SPREAD, fits=False, sentence="It does not fit.")
    lender_row(section, "desk").toggle.click()
    api.flush()
    assert section.sentence.text() == "It does not fit."
    assert not section.load.isEnabled()


@pytest.mark.parametrize("path", ["GET /machines/memory", "POST /plan/across", "POST /load"])
def test_a_refusal_is_said_and_asked_again(section: AcrossSection, api: DemoApi, path: str) -> None:
    section._model.choose_machine("desk", is_chosen=True)
    api.flush()
    api.replies[path] = ErrorBody(code="machine_refuses", sentence="desk can hold no layers: it has llama.cpp 1.")
    section.again.click()
    api.flush()
    if path == "POST /load":
        section.load.click()
        api.flush()
    assert not section.error.isHidden()
    assert not section._model.is_loading


def test_memory_that_is_taken_back_is_chosen_no_longer(section: AcrossSection, api: DemoApi) -> None:
    lender_row(section, "desk").toggle.click()
    api.flush()
    api.replies["GET /machines/memory"] = [replace(lender, problem="It does not lend.") for lender in LENDERS]
    section.again.click()
    api.flush()
    assert section._model.chosen == []
    assert section.waiting.text() == "None of these computers can hold a part of it now."
    assert not section.load.isEnabled()


def test_a_computer_that_is_lost_is_named(section: AcrossSection, shell: QuietShell) -> None:
    shell.broadcast_event(EngineChanged(status=READY))
    assert section.placement.text() == PLACEMENT
    failure = FailureReport(code="unreachable", sentence=LOSS, hint="The next request tries to reach it again.")
    shell.broadcast_event(EngineChanged(status=replace(READY, state=EngineState.FAILED, failure=failure)))
    assert section.placement.isHidden()
    assert not section.error.isHidden()
    assert section.error._sentence.text() == LOSS


def test_nothing_is_offered_without_another_computer_or_for_another_kind_of_model(
    stores: Stores, api: DemoApi, shell: QuietShell
) -> None:
    model = AcrossModel(stores, shell)
    for other in (replace(MODEL, chats=False), replace(MODEL, attached="http://127.0.0.1:1/v1"), None):
        model.open_model(other)
        assert not model.is_offered
    model.open_model(MODEL)
    assert model.is_offered
    api.replies["GET /machines"] = MachineList(name=LISTED.name, fingerprint="", port=0, machines=[])
    stores.machines.read()
    api.flush()
    assert not model.is_offered


def test_a_form_is_followed_with_the_same_computers_which_are_asked_once_for_each_model(
    stores: Stores, api: DemoApi, shell: QuietShell
) -> None:
    model = AcrossModel(stores, shell)
    model.follow_form(None, None)
    assert not model.is_offered
    for form in ((MODEL, None), (MODEL, None), (MODEL, 8192)):
        model.follow_form(*form)
        api.flush()
        model.choose_machine("desk", is_chosen=True)
        api.flush()
    model.follow_form(replace(MODEL, name="other"), 8192)
    api.flush()
    looks = [path for _method, path, _body in api.calls if path.startswith("/machines/memory")]
    assert looks == ["/machines/memory?model=m", "/machines/memory?model=other"]
    requests = api.bodies_of("POST", "/plan/across")
    assert requests[0] == AcrossRequest(model="m", across=["desk"])
    assert requests[-2] == AcrossRequest(model="m", across=["desk"], context=8192)
    assert requests[-1] == AcrossRequest(model="other", across=["desk"], context=8192)
    model.load_across()
    api.flush()
    options = LoadOptions(context=8192, across=("desk",))
    assert api.bodies_of("POST", "/load") == [LoadModel(model="other", options=options, wait=False)]
    model.follow_form(replace(MODEL, attached="http://far"), 8192)
    api.flush()
    assert not model.is_offered
    assert model.plan is None
    assert api.bodies_of("POST", "/plan/across") == requests
