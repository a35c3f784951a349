"""EXL3 of original weights, in a model's settings: offered where there is a card, checked, made, stopped."""

import msgspec
import pytest
from pytestqt.qtbot import QtBot

from app.core.errors import ErrorBody
from app.core.events import QuantizeChanged
from app.core.models import ModelInfo
from app.core.quantize import QuantizeModel, QuantizeResult
from app.gui.screens.models.exl3_section import Exl3Model, Exl3Section
from app.gui.theme.theme import Theme
from tests.demo.api import DemoApi
from tests.demo.data import ORIGINAL, QUANTIZE_PLAN
from tests.gui.conftest import QuietShell

RUN = QuantizeChanged(model=ORIGINAL.name, stage="Quantising model.layers.3", fraction=0.25)
RESULT = QuantizeResult(model=QUANTIZE_PLAN.name, folder=QUANTIZE_PLAN.folder, size_bytes=5 << 30, took_s=4000)


@pytest.fixture
def model(api: DemoApi, shell: QuietShell) -> Exl3Model:
    api.replies["POST /quantizations/plan"] = QUANTIZE_PLAN
    api.replies["GET /quantizations/job"] = None
    api.replies["POST /quantizations"] = RUN
    api.replies["DELETE /quantizations/job"] = None
    return Exl3Model(api, shell)


@pytest.fixture
def section(model: Exl3Model, theme: Theme, qtbot: QtBot, api: DemoApi) -> Exl3Section:
    section = Exl3Section(theme, model)
    qtbot.addWidget(section)
    model.open_model(ORIGINAL)
    api.flush()
    return section


@pytest.mark.parametrize(
    "other",
    [
        msgspec.structs.replace(ORIGINAL, format="gguf", quantization="Q4_0"),
        msgspec.structs.replace(ORIGINAL, quantization="bitsandbytes"),
        msgspec.structs.replace(ORIGINAL, attached="http://far"),
        None,
    ],
)
def test_only_original_weights_of_this_computer_are_planned_for(
    section: Exl3Section, model: Exl3Model, api: DemoApi, other: ModelInfo | None
) -> None:
    assert not section.isHidden()
    api.calls.clear()
    model.open_model(other)
    api.flush()
    assert section.isHidden()
    assert api.calls == []


def test_without_a_card_nothing_is_offered(section: Exl3Section, model: Exl3Model, api: DemoApi) -> None:
    api.replies["POST /quantizations/plan"] = msgspec.structs.replace(QUANTIZE_PLAN, card="", problems=["No card."])
    model.open_model(ORIGINAL)
    api.flush()
    assert section.isHidden()


def test_what_stands_in_its_way_is_shown_and_nothing_begins(
    section: Exl3Section, model: Exl3Model, api: DemoApi
) -> None:
    api.replies["POST /quantizations/plan"] = msgspec.structs.replace(QUANTIZE_PLAN, problems=["Too little is free."])
    model.choose_bits("2.5")
    api.flush()
    assert section.hindrances.text() == "Too little is free."
    assert not section.start.isEnabled()
    model.start_run()
    assert api.bodies_of("POST", "/quantizations") == []
    assert api.bodies_of("POST", "/quantizations/plan")[-1] == QuantizeModel(model=ORIGINAL.name, bits=2.5)


def test_a_run_is_shown_and_can_be_stopped_and_gone_on_with(
    section: Exl3Section, model: Exl3Model, api: DemoApi, shell: QuietShell
) -> None:
    section.start.click()
    api.flush()
    assert model.stage == "Quantising model.layers.3"
    assert section.start.isHidden()
    section.cancel.click()
    assert api.calls[-1][:2] == ("DELETE", "/quantizations/job")
    api.replies["POST /quantizations/plan"] = msgspec.structs.replace(QUANTIZE_PLAN, resumes=True)
    stop = msgspec.structs.replace(RUN, done=True, code="cancelled", error="It was stopped.")
    shell.broadcast_event(stop)
    api.flush()
    assert section.outcome.text() == "It was stopped."
    assert section.error.isHidden()
    assert section.start.text() == "Go on"


def test_an_end_says_what_came_of_it(section: Exl3Section, model: Exl3Model, api: DemoApi, shell: QuietShell) -> None:
    shell.broadcast_event(RUN)
    shell.broadcast_event(msgspec.structs.replace(RUN, done=True, result=RESULT))
    assert section.outcome.text() == "qwen3-8b-exl3-4bpw is ready: 5.0 GiB, after 1 h 6 min."
    shell.broadcast_event(msgspec.structs.replace(RUN, done=True, error="The card is full.", code="out_of_gpu_memory"))
    assert model.problem == ErrorBody(code="out_of_gpu_memory", sentence="The card is full.")
    assert not section.error.isHidden()


def test_the_run_of_another_model_is_named(section: Exl3Section, model: Exl3Model, shell: QuietShell) -> None:
    shell.broadcast_event(msgspec.structs.replace(RUN, model="other"))
    assert model.stage == "other: Quantising model.layers.3"
    assert not section.start.isVisibleTo(section)
