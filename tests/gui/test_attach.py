"""The models page attaches endpoints and shows where models are from; what was taken off comes back by Undo."""

import msgspec
import pytest
from pytestqt.qtbot import QtBot

from app.core.capabilities import Capability
from app.core.errors import ErrorBody
from app.core.models import AttachEndpoint, CorrectAttached, MakeModel, ModelInfo, Preset, RegisterModel
from app.gui import phrases
from app.gui.net.remote_lists import Stores
from app.gui.screens.models.view import ModelsScreen
from app.gui.theme.theme import Theme
from tests.demo import data
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell

FAR = ModelInfo(
    name="big",
    title="big",
    path="/data/attached/1.json",
    format="remote",
    size_bytes=0,
    trained_context=32768,
    attached="http://box:8000/v1",
    served_as="org/Big",
)
PRESET = Preset(base="qwen3-8b-q4_k_m", system="Be brief.")
MADE = msgspec.structs.replace(data.MODELS[1], name="terse", title="terse", preset=PRESET)
REFUSED = ErrorBody(code="auth", sentence="The endpoint at box:8000 does not accept the key.", hint="Try another.")


@pytest.fixture
def screen(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> ModelsScreen:
    api.replies["GET /models"] = [*data.MODELS, FAR, MADE]
    screen = ModelsScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.show()
    api.flush()
    return screen


def fill(screen: ModelsScreen, url: str, name: str = "", key: str = "") -> None:
    card = screen.attach_card
    card.open()
    card.url.setText(url)
    card.name.setText(name)
    card.key.setText(key)


def test_where_a_model_is_from_is_said_in_its_quiet_line() -> None:
    assert phrases.model_facts(FAR) == "attached: box:8000 · 32k context"
    program = msgspec.structs.replace(FAR, served_by="TabbyAPI")
    assert phrases.model_facts(program) == "attached: box:8000, TabbyAPI · 32k context"
    assert phrases.model_facts(MADE).startswith("made from qwen3-8b-q4_k_m · ")
    able = msgspec.structs.replace(FAR, capabilities=[*Capability][:3])
    assert phrases.model_facts(able).endswith("32k context · tools"), "that it chats is expected"
    assert phrases.model_origin(data.MODELS[1]) == ""


def test_an_endpoint_is_attached_and_the_card_put_away(screen: ModelsScreen, api: DemoApi, shell: QuietShell) -> None:
    card = screen.attach_card
    assert not card.isVisible()
    api.replies["POST /attached"] = [FAR]
    fill(screen, " http://box:8000/v1 ", "big", "sk-1")
    card.attach_button.click()
    assert not card.attach_button.isEnabled(), "once is enough"
    assert card.key.echoMode() is card.key.EchoMode.Password
    api.flush()
    assert api.bodies_of("POST", "/attached") == [AttachEndpoint(url="http://box:8000/v1", name="big", key="sk-1")]
    assert not card.isVisible()
    assert (card.url.text(), card.key.text()) == ("", ""), "a key is not left lying about"
    assert shell.messages == ["Attached: big."]
    api.replies["DELETE /models/big"] = None
    undo = shell.undos[-1]
    assert undo is not None
    undo()
    api.flush()
    assert api.bodies_of("DELETE", "/models/big") == [None]


def test_a_refusal_is_said_in_place_and_what_was_typed_stays(screen: ModelsScreen, api: DemoApi) -> None:
    api.replies["POST /attached"] = REFUSED
    fill(screen, "http://box:8000", key="wrong")
    screen.attach_card.attach_button.click()
    api.flush()
    assert screen.attach_card.isVisible()
    assert screen.attach_card.url.text() == "http://box:8000"
    assert screen.attach_card.attach_button.isEnabled()
    screen.attach_card.cancel_button.click()
    assert not screen.attach_card.isVisible()


def test_without_an_address_there_is_nothing_to_attach(screen: ModelsScreen, api: DemoApi) -> None:
    fill(screen, "  ")
    assert not screen.attach_card.attach_button.isEnabled()
    screen.attach_card.url.returnPressed.emit()
    api.flush()
    assert api.bodies_of("POST", "/attached") == []


def test_what_it_can_do_and_how_much_it_takes_is_said_with_it(screen: ModelsScreen, api: DemoApi) -> None:
    api.replies["POST /attached"] = [FAR]
    fill(screen, "http://box:8000")
    screen.attach_card.can.field.setText("embeddings, rerank")
    screen.attach_card.context.setText("32768")
    screen.attach_card.attach_button.click()
    api.flush()
    can = [Capability.EMBEDDING, Capability.RERANK]
    assert api.bodies_of("POST", "/attached") == [AttachEndpoint(url="http://box:8000", can=can, context=32768)]
    assert (screen.attach_card.can.field.text(), screen.attach_card.context.text()) == ("", "")


def test_what_no_model_can_do_is_refused_before_anything_is_asked(
    screen: ModelsScreen, api: DemoApi, qtbot: QtBot
) -> None:
    fill(screen, "http://box:8000")
    screen.attach_card.can.field.setText("fly")
    with qtbot.waitSignal(screen.model.failed) as refusal_signal:
        screen.attach_card.attach_button.click()
    assert "'fly'" in refusal_signal.args[0].sentence
    api.flush()
    assert api.bodies_of("POST", "/attached") == []
    assert screen.attach_card.isVisible()


@pytest.mark.slow
def test_an_attached_one_is_corrected_without_its_key(screen: ModelsScreen, api: DemoApi, shell: QuietShell) -> None:
    can = [Capability.EMBEDDING]
    api.replies["PATCH /attached/big"] = msgspec.structs.replace(FAR, capabilities=can)
    screen.model.correction_requested.emit(msgspec.structs.replace(FAR, capabilities=[Capability.CHAT]))
    card = screen.attach_card
    assert card.isVisible()
    assert not card.key.isVisible()
    assert (card.can.field.text(), card.context.text(), card.attach_button.text()) == ("chat", "32768", "Save")
    card.can.field.setText("embedding")
    card.context.clear()
    card.attach_button.click()
    api.flush()
    assert api.bodies_of("PATCH", "/attached/big") == [CorrectAttached(can=can, context=None)]
    assert not card.isVisible()
    assert shell.messages == ["big: embedding."]
    screen.model.correction_requested.emit(FAR)
    card.context.setText("512")
    card.attach_button.click()
    api.flush()
    assert api.bodies_of("PATCH", "/attached/big")[-1] == CorrectAttached(context=512), (
        "what was not touched is not said"
    )
    card.open()
    assert card.key.isVisible(), "it attaches again"


@pytest.mark.slow
def test_a_detached_one_comes_back_by_its_key(screen: ModelsScreen, api: DemoApi, shell: QuietShell) -> None:
    api.replies["DELETE /models/big"] = None
    screen.model.forget_model(FAR)
    api.flush()
    undo = shell.undos[-1]
    assert undo is not None
    undo()
    assert screen.attach_card.isVisible()
    assert (screen.attach_card.url.text(), screen.attach_card.name.text()) == ("http://box:8000/v1", "big")


def test_a_made_one_comes_back_with_its_settings(screen: ModelsScreen, api: DemoApi, shell: QuietShell) -> None:
    api.replies |= {"DELETE /models/terse": None, "POST /made": MADE}
    screen.model.forget_model(MADE)
    api.flush()
    undo = shell.undos[-1]
    assert undo is not None
    undo()
    api.flush()
    assert api.bodies_of("POST", "/made") == [MakeModel(name="terse", base="qwen3-8b-q4_k_m", preset=PRESET)]
    assert api.bodies_of("POST", "/models") == []
    assert RegisterModel(path=MADE.path) not in api.bodies_of("POST", "/models")


def test_a_made_model_shows_the_engine_it_shares(screen: ModelsScreen) -> None:
    row = next(row for row in screen.model.list_rows() if row.model.name == "terse")
    base = next(row for row in screen.model.list_rows() if row.model.name == "qwen3-8b-q4_k_m")
    assert row.status == base.status


@pytest.mark.slow
def test_what_is_wrong_with_an_endpoint_is_not_said_on_the_other_sides(screen: ModelsScreen, api: DemoApi) -> None:
    api.replies["POST /attached"] = REFUSED
    fill(screen, "http://box:8000", key="wrong")
    screen.attach_card.attach_button.click()
    api.flush()
    assert screen._trouble.isVisible()
    screen.show_discover()
    assert not screen._trouble.isVisible()
