"""State of the pages, without a window: what they ask, what they show, and the way back."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from pytestqt.qtbot import QtBot

from app.core.api import SettingInfo
from app.core.engines import EngineState, EngineStatus
from app.core.errors import ErrorBody
from app.core.events import EngineChanged, LogLine, ModelsChanged, SettingChanged
from app.core.models import LoadModel, RegisterModel
from app.gui import phrases
from app.gui.net.remote_lists import Stores
from app.gui.screens.models.model import ModelRow, ModelsModel, buttons_of
from app.gui.screens.server.log_model import LogModel
from app.gui.screens.server.model import ServerModel, SnippetKind
from app.gui.screens.settings.model import InvalidText, SettingsModel, parse_value
from app.gui.shell.contract import Shell
from tests.demo import data
from tests.demo.api import DemoApi

Undo = Callable[[], object]
REFUSED = ErrorBody(code="conflict", sentence="Not now.", hint="Later.")


def engine(state: EngineState, **more: object) -> EngineStatus:
    return msgspec.structs.replace(data.READY, state=state, **more)


def row(state: EngineState | None, **model: object) -> ModelRow:
    status = engine(state) if state else None
    return ModelRow(msgspec.structs.replace(data.MODELS[1], **model), status)


@pytest.mark.parametrize(
    ("table_row", "buttons"),
    [
        (row(None), ("chat", "load")),
        (row(None, chats=False), ("load",)),
        (row(EngineState.READY), ("chat", "unload")),
        (row(EngineState.LOADING), ("chat", "unload")),
        (row(EngineState.FAILED), ("again",)),
        (row(None, problem="It is cut off."), ()),
    ],
)
def test_what_can_be_done_with_a_model(table_row: ModelRow, buttons: tuple[str, ...]) -> None:
    assert buttons_of(table_row) == buttons


def test_models_are_read_once_connected_and_joined_with_what_runs(api: DemoApi, shell: Shell) -> None:
    model = ModelsModel(Stores(api, shell), shell)
    assert not model.library.is_known
    api.flush()
    rows = {row.model.name: row for row in model.list_rows()}
    assert rows["qwen3-8b-q4_k_m"].is_loaded
    assert rows["gpt-oss-20b-mxfp4"].is_busy
    assert model.list_rows()[-1].model.problem, "what cannot be used comes last"


def test_nothing_is_asked_before_there_is_a_gateway(api: DemoApi, shell: Shell) -> None:
    shell.is_connected = False
    ModelsModel(Stores(api, shell), shell)
    assert api.calls == []
    shell.connected.emit()
    assert ("GET", "/models", None) in api.calls


def test_models_are_read_again_when_the_list_changed(api: DemoApi, shell: Shell) -> None:
    model = ModelsModel(Stores(api, shell), shell)
    api.flush()
    api.replies["GET /models"] = [*data.MODELS, data.LONG_MODEL]
    shell.broadcast_event(ModelsChanged())
    api.flush()
    assert data.LONG_MODEL.name in {row.model.name for row in model.list_rows()}


def test_a_search_needs_every_word(api: DemoApi, shell: Shell) -> None:
    model = ModelsModel(Stores(api, shell), shell)
    api.flush()
    model.set_search("q4 qwen")
    assert [row.model.title for row in model.list_rows()] == ["Qwen3 8B"]
    model.set_search("qwen zebra")
    assert model.list_rows() == []


def test_unloading_can_be_undone(api: DemoApi, shell: Shell, qtbot: QtBot) -> None:
    model = ModelsModel(Stores(api, shell), shell)
    api.flush()
    with qtbot.waitSignal(model.toast_requested) as said_signal:
        model.unload_model("qwen3-8b-q4_k_m")
        api.flush()
    undo: Undo = said_signal.args[1]
    undo()
    assert api.bodies_of("POST", "/load") == [LoadModel(model="qwen3-8b-q4_k_m", wait=False)]


def test_a_file_is_listed_where_it_lies_and_taken_off_by_undo(api: DemoApi, shell: Shell, qtbot: QtBot) -> None:
    api.replies |= {"POST /models": data.LONG_MODEL}
    model = ModelsModel(Stores(api, shell), shell)
    api.flush()
    with qtbot.waitSignal(model.toast_requested) as said_signal:
        model.register_file(Path("long.gguf"))
        api.flush()
    assert api.bodies_of("POST", "/models") == [RegisterModel(path="long.gguf")]
    said_signal.args[1]()
    deleted_paths = [path for method, path, _ in api.calls if method == "DELETE"]
    assert deleted_paths == ["/models/" + data.LONG_MODEL.name.replace("/", "%2F")]


def test_forgetting_is_undone_by_listing_the_file_again(api: DemoApi, shell: Shell, qtbot: QtBot) -> None:
    api.replies["DELETE /models/qwen3-8b-q4_k_m"] = None
    model = ModelsModel(Stores(api, shell), shell)
    api.flush()
    with qtbot.waitSignal(model.toast_requested) as said_signal:
        model.forget_model(data.MODELS[1])
        api.flush()
    said_signal.args[1]()
    assert api.bodies_of("POST", "/models") == [RegisterModel(path=str(Path(data.MODELS[1].path)))]


def test_a_folder_is_added_to_those_there_are(api: DemoApi, shell: Shell, qtbot: QtBot) -> None:
    settings = [
        data.with_value(info, ["/a"]) if info.name == "models.folders" else info for info in data.default_settings()
    ]
    api.replies["GET /settings"] = settings
    model = ModelsModel(Stores(api, shell), shell)
    api.flush()
    with qtbot.waitSignal(model.toast_requested) as said_signal:
        model.add_folder(Path("b"))
        api.flush()
    said_signal.args[1]()
    assert api.bodies_of("PATCH", "/settings") == [{"models.folders": ["/a", "b"]}, {"models.folders": ["/a"]}]


def test_a_refusal_reaches_the_page(api: DemoApi, shell: Shell, qtbot: QtBot) -> None:
    api.replies["POST /load"] = REFUSED
    model = ModelsModel(Stores(api, shell), shell)
    with qtbot.waitSignal(model.failed) as failure_signal:
        model.load_model("guide")
        api.flush()
    assert failure_signal.args == [REFUSED]


def test_an_unreadable_library_keeps_what_was_there(api: DemoApi, shell: Shell) -> None:
    model = ModelsModel(Stores(api, shell), shell)
    api.flush()
    api.replies["GET /models"] = REFUSED
    shell.connected.emit()
    api.flush()
    assert model.error == REFUSED
    assert len(model.list_rows()) == len(data.MODELS)


def test_events_replace_one_engine_in_its_place(api: DemoApi, shell: Shell) -> None:
    server = ServerModel(Stores(api, shell), shell)
    api.flush()
    shell.broadcast_event(EngineChanged(status=engine(EngineState.DRAINING)))
    assert [(item.model, item.state) for item in server.list_engines()] == [
        ("qwen3-8b-q4_k_m", EngineState.DRAINING),
        ("gpt-oss-20b-mxfp4", EngineState.LOADING),
    ]
    shell.broadcast_event(EngineChanged(status=engine(EngineState.STOPPED)))
    assert [item.model for item in server.list_engines()] == ["gpt-oss-20b-mxfp4"]


@pytest.mark.parametrize("dialect", SnippetKind)
def test_a_snippet_names_the_address_and_a_loaded_model(api: DemoApi, shell: Shell, dialect: SnippetKind) -> None:
    server = ServerModel(Stores(api, shell), shell)
    api.flush()
    snippet = server.format_snippet(dialect)
    assert "http://127.0.0.1:11434/v1" in snippet
    assert "qwen3-8b-q4_k_m" in snippet
    assert "{{" not in snippet


def test_a_snippet_names_no_replica_of_a_fleet(api: DemoApi, shell: Shell) -> None:
    replica = msgspec.structs.replace(engine(EngineState.READY), model="team#1")
    api.replies["GET /running"] = [replica, engine(EngineState.READY)]
    server = ServerModel(Stores(api, shell), shell)
    api.flush()
    assert "team#1" not in server.format_snippet(SnippetKind.CURL)
    assert "qwen3-8b-q4_k_m" in server.format_snippet(SnippetKind.CURL)


def test_a_snippet_falls_back_on_the_guide(api: DemoApi, shell: Shell) -> None:
    api.replies["GET /running"] = []
    server = ServerModel(Stores(api, shell), shell)
    api.flush()
    assert '"guide"' in server.format_snippet(SnippetKind.PYTHON)


def line(text: str, model: str = "m", at: float = 0.0) -> LogLine:
    return LogLine(model=model, stream="err", text=text, at=at)


@pytest.fixture
def log(api: DemoApi, shell: Shell) -> LogModel:
    api.replies["GET /logs"] = [line("second", at=2), line("first", at=1)]
    log = LogModel(api, shell)
    log.start_watching()
    api.flush()
    return log


def test_the_log_is_in_order_and_goes_on(log: LogModel, api: DemoApi) -> None:
    api.send_event("/events?logs=1", line("third"))
    api.send_event("/events?logs=1", SettingChanged(name="x"))
    assert log.visible_text() == "first\nsecond\nthird"


def test_the_log_is_only_followed_while_it_is_looked_at(api: DemoApi, shell: Shell) -> None:
    log = LogModel(api, shell)
    shell.connected.emit()
    assert api.streams == {}
    log.start_watching()
    assert "/events?logs=1" in api.streams


def test_a_paused_log_holds_lines_back(log: LogModel, api: DemoApi) -> None:
    log.set_paused(is_paused=True)
    api.send_event("/events?logs=1", line("third"))
    assert log.visible_text() == "first\nsecond"
    log.set_paused(is_paused=False)
    assert log.visible_text() == "first\nsecond\nthird"


def test_the_log_can_be_filtered_by_words_and_model(log: LogModel, api: DemoApi) -> None:
    api.send_event("/events?logs=1", line("other", model="Qwen"))
    log.set_filter("qwen")
    assert log.visible_text() == "other"
    log.set_filter("SEC")
    assert log.visible_text() == "second"


def test_the_log_keeps_a_bounded_number_of_lines(log: LogModel, api: DemoApi) -> None:
    log.set_paused(is_paused=True)
    for number in range(6000):
        api.send_event("/events?logs=1", line(str(number)))
    log.set_paused(is_paused=False)
    assert len(log.visible_lines()) == 5000
    assert log.visible_lines()[-1].text == "5999"


def info(name: str) -> SettingInfo:
    return next(info for info in data.default_settings() if info.name == name)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [("gateway.port", " 8080 ", 8080), ("models.default", "qwen", "qwen"), ("a.newer", "anything", "anything")],
)
def test_typed_text_means_a_value(name: str, text: str, value: object) -> None:
    row = info(name) if name != "a.newer" else msgspec.structs.replace(info("models.default"), name=name)
    assert parse_value(row, text) == value


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("gateway.port", "70000", "65535"),
        ("gateway.port", "x", "whole number"),
        ("gateway.host", "a.example", "numeric address"),
    ],
)
def test_typed_text_that_does_not_fit_says_why(name: str, text: str, word: str) -> None:
    value = parse_value(info(name), text)
    assert isinstance(value, InvalidText)
    assert word in value.sentence


@pytest.fixture
def settings(api: DemoApi, shell: Shell) -> SettingsModel:
    model = SettingsModel(Stores(api, shell), shell)
    api.flush()
    return model


def test_settings_come_by_section_in_table_order(settings: SettingsModel) -> None:
    assert list(settings.group_by_section()) == [
        "Endpoint",
        "Your other computers",
        "Models",
        "Chats",
        "Coding agents",
        "Documents",
        "Engines",
        "Network",
        "Catalogue",
        "Updates",
        "Downloads",
        "Inspector",
        "Traces",
        "Responses",
        "Window",
    ]


def test_a_wrong_value_is_said_and_not_sent(settings: SettingsModel, api: DemoApi, qtbot: QtBot) -> None:
    with qtbot.waitSignal(settings.problem) as problem:
        settings.type_in(info("gateway.port"), "99999", is_final=False)
    assert problem.args[0] == "gateway.port"
    assert "65535" in problem.args[1]
    settings.type_in(info("gateway.port"), "99999", is_final=True)
    settings.change(info("gateway.port"), 99999)
    assert api.bodies_of("PATCH", "/settings") == []


def test_a_right_value_is_sent_when_the_typing_is_over(settings: SettingsModel, api: DemoApi) -> None:
    settings.type_in(info("gateway.port"), "8080", is_final=False)
    assert api.bodies_of("PATCH", "/settings") == []
    settings.type_in(info("gateway.port"), "8080", is_final=True)
    assert api.bodies_of("PATCH", "/settings") == [{"gateway.port": 8080}]
    assert settings.waits_for_restart == {"gateway.port"}


def test_a_new_gateway_has_read_everything(settings: SettingsModel, shell: Shell) -> None:
    settings.change(info("gateway.port"), 8080)
    shell.connected.emit()
    assert settings.waits_for_restart == set()


def test_the_same_value_is_not_sent(settings: SettingsModel, api: DemoApi) -> None:
    settings.change(info("gateway.port"), 11434)
    assert api.bodies_of("PATCH", "/settings") == []


def test_reset_sends_nothing_as_the_value(settings: SettingsModel, api: DemoApi) -> None:
    settings.reset(info("models.context"))
    assert api.bodies_of("PATCH", "/settings") == [{"models.context": None}]
    assert settings.waits_for_restart == set()


def test_a_refused_change_says_the_gateways_sentence(settings: SettingsModel, api: DemoApi, qtbot: QtBot) -> None:
    api.replies["PATCH /settings"] = REFUSED
    said_here: list[tuple[str, str]] = []
    settings.problem.connect(lambda name, sentence: said_here.append((name, sentence)))
    settings.change(info("gateway.port"), 8080)
    api.flush()
    assert said_here[-1] == ("gateway.port", "Not now. Later.")
    assert settings.waits_for_restart == set()


def test_an_answer_with_one_setting_keeps_the_others(settings: SettingsModel, api: DemoApi) -> None:
    api.replies["PATCH /settings"] = [data.with_value(info("models.slots"), 8)]
    settings.change(info("models.slots"), 8)
    api.flush()
    assert settings.preferences.get("models.slots", 0) == 8
    assert settings.preferences.get("models.default", "") == "guide"


@pytest.mark.parametrize(("value", "by", "next_"), [(4, 1, 5), (256, 1, 256), (1, -1, 1)])
def test_steps_stay_within_the_limits(settings: SettingsModel, value: int, by: int, next_: int) -> None:
    assert settings.step_value(data.with_value(info("models.slots"), value), by) == next_


def test_states_in_words() -> None:
    assert phrases.engine_state(data.LOADING) == ("accent", "Reading weights 63 %")
    assert phrases.engine_state(engine(EngineState.READY)) == ("ok", "Ready")
    assert all(phrases.engine_state(engine(state))[1] for state in EngineState)


def test_unknown_figures_are_left_out() -> None:
    bare = msgspec.structs.replace(data.MODELS[1], parameters=None, trained_context=None, architecture="")
    assert phrases.model_facts(bare) == "4.7 GiB"
    assert phrases.engine_facts(data.LOADING) == "llama.cpp b11549"
