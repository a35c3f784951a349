"""The page's state: which model answers, what the header says, drafts, dropped files."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from pytestqt.qtbot import QtBot

from app.core.chats import ChatPatch
from app.core.engines import EngineState
from app.core.events import ChatChanged, EngineChanged
from app.core.models import RegisterModel
from app.gui.net.remote_lists import Stores
from app.gui.screens.chat.model import ChatModel
from app.gui.shell.contract import Shell
from tests.demo import data, long_chat
from tests.demo.api import DemoApi


@pytest.fixture
def model(qtbot: QtBot, api: DemoApi, shell: Shell) -> ChatModel:
    api.replies |= long_chat.chat_replies()
    chat_model = ChatModel(Stores(api, shell), shell)
    api.flush()
    return chat_model


def test_a_new_chat_starts_with_the_model_used_last(model: ChatModel) -> None:
    model.chat_list.models = ["gone", long_chat.MODEL]
    assert model.model == long_chat.MODEL


def test_a_model_that_was_set_comes_first(model: ChatModel, api: DemoApi) -> None:
    row = next(row for row in data.default_settings() if row.name == "models.default")
    api.replies["GET /settings"] = [data.with_value(row, "gpt-oss-20b-mxfp4")]
    model._preferences.read()
    api.flush()
    assert model.model == "gpt-oss-20b-mxfp4"


def test_models_that_cannot_chat_or_cannot_be_used_are_not_the_usual_one(model: ChatModel, api: DemoApi) -> None:
    api.replies["GET /models"] = [item for item in data.MODELS if item.problem or not item.chats or item.is_builtin]
    model.library.read()
    api.flush()
    assert model.model == "guide"
    assert [item.name for item in model.chat_models()] == ["guide", "mistral-small-3.2"]


def test_the_chip_says_what_loads_and_how_far_it_is(model: ChatModel, shell: Shell) -> None:
    model.new_chat("gpt-oss-20b-mxfp4")
    chip = model.make_chip(now=10.0)
    assert (chip.words, chip.state, chip.fraction) == ("gpt-oss 20B", "Reading weights 63 %", 0.63)
    shell.event_received.emit(EngineChanged(status=replace(data.LOADING, progress=0.73)))
    assert model.make_chip(now=12.0).state == "Reading weights 73 %, 5 s left"


def test_the_chip_has_the_failure_as_a_sentence(model: ChatModel, shell: Shell) -> None:
    shell.event_received.emit(EngineChanged(status=data.FAILED))
    model.new_chat(data.FAILED.model)
    chip = model.make_chip(now=0.0)
    assert chip.failure is not None
    assert chip.failure.sentence.startswith("There is not enough memory")
    assert chip.color == "bad"


def test_the_meter_counts_the_last_answer_against_the_engine(model: ChatModel, api: DemoApi, shell: Shell) -> None:
    assert model.context_usage() is None
    model.open_chat("c1")
    api.flush()
    meter = model.context_usage()
    assert meter is not None
    assert meter.words == "69% of 8k"
    assert meter.fraction == (5200 + 412) / 8192
    shell.event_received.emit(EngineChanged(status=replace(data.READY, state=EngineState.STOPPED)))
    meter = model.context_usage()
    assert meter is not None
    assert (meter.words, meter.fraction) == ("5k tokens", None)


def test_a_draft_stays_with_its_chat(model: ChatModel, api: DemoApi) -> None:
    model.keep_draft("for a new one")
    model.open_chat("c1")
    api.flush()
    assert model.current_draft() == ""
    model.keep_draft("for c1")
    model.new_chat()
    assert model.current_draft() == "for a new one"
    model.open_chat("c1")
    assert model.current_draft() == "for c1"


def test_the_chosen_model_is_kept_with_the_chat(model: ChatModel, api: DemoApi) -> None:
    model.open_chat("c1")
    api.flush()
    model.conversation.choose_model("guide")
    api.flush()
    assert api.bodies_of("PATCH", "/chats/c1") == [ChatPatch(model="guide")]
    assert model.model == "guide"


def test_a_dropped_file_is_listed_and_asked(model: ChatModel, api: DemoApi) -> None:
    api.replies["POST /models"] = data.MODELS[1]
    model.run_file(Path("/models/new.gguf"))
    api.flush()
    assert api.bodies_of("POST", "/models") == [RegisterModel(path=str(Path("/models/new.gguf")))]
    assert model.conversation.model == data.MODELS[1].name


def test_a_chat_that_was_deleted_elsewhere_makes_room(model: ChatModel, api: DemoApi, shell: Shell) -> None:
    model.open_chat("c1")
    api.flush()
    shell.event_received.emit(ChatChanged(chat="c1", deleted=True))
    assert model.conversation.is_new


def test_the_open_chat_is_read_again_when_the_gateway_is_back(model: ChatModel, api: DemoApi, shell: Shell) -> None:
    model.open_chat("c1")
    api.flush()
    before = len([path for _, path, _ in api.calls if path == "/chats/c1"])
    shell.connected.emit()
    assert len([path for _, path, _ in api.calls if path == "/chats/c1"]) == before + 1


def test_a_chat_that_grew_elsewhere_is_read_again(model: ChatModel, api: DemoApi) -> None:
    model.open_chat("c1")
    api.flush()
    before = len([path for _, path, _ in api.calls if path == "/chats/c1"])
    for count in (5, 7):
        known_chat = model.chat_list.items[0]
        model.chat_list.items = [replace(known_chat, message_count=count)]
        model.chat_list.changed.emit()
    assert len([path for _, path, _ in api.calls if path == "/chats/c1"]) == before + 1


def test_the_guide_is_used_where_it_was_set_and_not_where_it_merely_is_the_default(
    model: ChatModel, api: DemoApi
) -> None:
    model.chat_list.models = [long_chat.MODEL]
    assert model.model == long_chat.MODEL
    row = next(row for row in data.default_settings() if row.name == "models.default")
    api.replies["GET /settings"] = [data.with_value(row, "guide")]
    model._preferences.read()
    api.flush()
    assert model.model == "guide"


def test_the_model_for_new_chats_is_found_however_it_is_written(model: ChatModel, api: DemoApi) -> None:
    row = next(row for row in data.default_settings() if row.name == "models.default")
    api.replies["GET /settings"] = [data.with_value(row, "GPT-OSS-20B-mxfp4")]
    model._preferences.read()
    api.flush()
    assert model.model == "gpt-oss-20b-mxfp4"
