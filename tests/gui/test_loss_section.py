"""What a quantisation loses, in a model's settings: chosen, measured, shown, stopped."""

import msgspec
import pytest
from pytestqt.qtbot import QtBot

from app.core.benchmarks import LossResult, MeasureLoss
from app.core.errors import ErrorBody
from app.core.models import ModelInfo
from app.gui.net.remote_lists import Stores
from app.gui.screens.models.loss_section import LossModel, LossSection
from app.gui.theme.theme import Theme
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell

SMALL = ModelInfo(
    name="m:q4",
    title="M",
    path="/m/q4.gguf",
    format="gguf",
    size_bytes=4,
    architecture="llama",
    parameters=8,
    quantization="Q4_0",
)
LARGE = msgspec.structs.replace(SMALL, name="m:q8", path="/m/q8.gguf", size_bytes=8, quantization="Q8_0")
OTHER = msgspec.structs.replace(SMALL, name="n:q8", path="/n/q8.gguf", size_bytes=9, parameters=70)
RESULT = LossResult(
    positions=48, kl_divergence=0.0582, same_likeliest=0.85, perplexity_before=9.1, perplexity=9.4, reference="m:q8"
)


@pytest.fixture
def model(api: DemoApi, shell: QuietShell) -> LossModel:
    api.replies["GET /models"] = [SMALL, LARGE, OTHER]
    stores = Stores(api, shell)
    api.flush()
    model = LossModel(api, stores.library, shell)
    model.open_model(SMALL)
    return model


def test_only_larger_files_of_the_same_model_are_offered(model: LossModel) -> None:
    assert [name for name, _ in model.references] == ["m:q8"]
    model.open_model(LARGE)
    assert model.references == []
    model.measure()
    assert not model.is_running


def test_it_is_measured_once_shown_and_forgotten_with_its_model(
    model: LossModel, api: DemoApi, theme: Theme, qtbot: QtBot
) -> None:
    section = LossSection(theme, model)
    qtbot.addWidget(section)
    api.replies["POST /quantization-loss"] = RESULT
    section.start.click()
    model.measure()
    assert api.bodies_of("POST", "/quantization-loss") == [MeasureLoss(model="m:q4")]
    assert (section.start.isHidden(), section.stop.isHidden()) == (True, False)
    api.flush()
    assert ("KL divergence", "0.0582") in model.figures
    assert ("Same likeliest word", "85%") in model.figures
    assert (section.start.isHidden(), section.stop.isHidden()) == (False, True)
    assert section.against.text() == "Set against m:q8."
    model.choose("m:q8")
    model.measure()
    assert api.bodies_of("POST", "/quantization-loss")[-1] == MeasureLoss(model="m:q4", reference="m:q8")
    api.flush()
    model.open_model(LARGE)
    assert model.figures == []
    assert section.isHidden()


def test_a_refusal_is_shown_and_what_is_stopped_says_nothing(model: LossModel, api: DemoApi) -> None:
    api.replies["POST /quantization-loss"] = ErrorBody(code="loss_unknown", sentence="The engine does not say.")
    model.measure()
    api.flush()
    assert model.problem is not None
    api.replies["POST /quantization-loss"] = RESULT
    model.measure()
    assert model.problem is None
    model.stop()
    api.flush()
    assert (model.result, model.is_running) == (None, False)
