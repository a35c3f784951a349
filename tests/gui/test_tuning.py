"""One model's settings in the window: opened from its row, changed at once, refused in place, and left again."""

from typing import Any

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.core.advice import TryDrafts
from app.core.errors import ErrorBody
from app.core.events import DraftTrialChanged
from app.core.models import Companion, CompanionKind, ModelInfo, ModelSampling, ModelSettings, SetModel, TemplateReading
from app.gui.net.remote_lists import Stores
from app.gui.screens.benchmarks.plot_view import PlotView
from app.gui.screens.models import model_settings
from app.gui.screens.models.model_row_view import ModelRowView
from app.gui.screens.models.model_settings_view import ModelSettingsView
from app.gui.screens.models.view import ModelsScreen
from app.gui.shell.contract import PageId
from app.gui.theme.theme import Theme
from tests.demo import data
from tests.demo.api import DemoApi
from tests.demo.benchmarks import RECEIPTS
from tests.gui.conftest import QuietShell

MODEL = next(model for model in data.MODELS if model.name == data.READY.model)
PATH = f"/model-settings/{MODEL.name}"
SET = data.TUNED.settings


@pytest.fixture
def screen(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> ModelsScreen:
    screen = ModelsScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.show()
    api.flush()
    return screen


@pytest.fixture
def view(screen: ModelsScreen, api: DemoApi) -> ModelSettingsView:
    screen.model.model_settings.open_model(MODEL)
    api.flush()
    return screen.settings_view


def last_settings(api: DemoApi) -> ModelSettings:
    api.flush()
    last = api.bodies_of("POST", "/model-settings")[-1]
    assert isinstance(last, SetModel)
    assert last.model == MODEL.name
    return last.settings


def replace_settings(**changes: Any) -> ModelSettings:  # noqa: ANN401 -- fields of ModelSettings
    return msgspec.structs.replace(SET, **changes)


def shown_as(api: DemoApi, **changes: object) -> None:
    api.replies[f"GET {PATH}"] = msgspec.structs.replace(data.TUNED, **changes)


def test_a_models_menu_leads_to_its_settings_and_back(screen: ModelsScreen, api: DemoApi) -> None:
    assert not screen.settings_view.isVisible()
    screen.model.model_settings.open_model(MODEL)
    assert screen.settings_view.isVisible()
    assert not screen._library.isVisible()
    assert not screen._places.isVisible()
    api.flush()
    QTest.keyClick(screen.settings_view, Qt.Key.Key_Escape)
    assert not screen.settings_view.isVisible()
    assert screen._library.isVisible()
    row = screen._list.rows[MODEL.name]
    assert isinstance(row, ModelRowView)
    assert row._more.hasFocus()


@pytest.mark.slow
def test_what_was_measured_of_the_model_is_drawn(view: ModelSettingsView, api: DemoApi, shell: QuietShell) -> None:
    assert view.model.model is not None
    assert view.history.isVisibleTo(view)
    assert "measurement by measurement" in view.history.findChildren(PlotView)[0].accessibleName()
    assert view.measurement.text().startswith("Long documents with llama.cpp 2026.4: ")
    view.model.show_results()
    assert shell.pages[-1] is PageId.BENCHMARKS
    api.replies["GET /benchmarks"] = RECEIPTS[:1]
    view.model.open_model(view.model.model)
    api.flush()
    assert view.history.isVisibleTo(view), "one measurement is shown, though nothing can be drawn of it"
    api.replies["GET /benchmarks"] = []
    view.model.open_model(view.model.model)
    api.flush()
    assert not view.history.isVisibleTo(view)


@pytest.mark.slow
def test_what_is_set_and_what_the_model_recommends_are_told_apart(view: ModelSettingsView) -> None:
    fields = view.sampling.fields
    assert fields["temperature"].text() == "0.7"
    assert fields["top_k"].text() == ""
    assert fields["top_k"].placeholderText() == "model: 20"
    assert fields["repeat_penalty"].placeholderText() == "engine default"
    assert "temperature 0.6" in view.uses_own.help.text()
    assert "Qwen/Qwen3-8B" in view.uses_own.help.text()
    assert view.numbers["context"].field.text() == "16384"


@pytest.mark.slow
def test_a_number_counts_once_the_field_is_left(view: ModelSettingsView, api: DemoApi) -> None:
    field = view.numbers["context"].field
    field.setText("8192")
    field.editingFinished.emit()
    assert last_settings(api) == replace_settings(context=8192)
    field.setText("")
    field.editingFinished.emit()
    assert last_settings(api) == replace_settings(context=None)
    before = len(api.calls)
    field.setText("16384")
    field.editingFinished.emit()
    assert len(api.calls) == before, "nothing has changed"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "text"), [("context", "12"), ("context", "many"), ("slots", "0"), ("top_p", "3")])
def test_a_number_that_makes_no_sense_is_said_and_not_sent(
    view: ModelSettingsView, api: DemoApi, name: str, text: str
) -> None:
    view.model.type_in(name, text)
    row = view.sampling if name == "top_p" else view.numbers[name]
    assert " takes " in row._wrong.text()
    assert row._wrong.isVisible()
    assert not api.bodies_of("POST", "/model-settings")


def test_sampling_is_changed_value_by_value_and_the_models_own_can_be_switched_off(
    view: ModelSettingsView, api: DemoApi
) -> None:
    field = view.sampling.fields["min_p"]
    field.setText("0,1")
    field.editingFinished.emit()
    assert last_settings(api).sampling == ModelSampling(temperature=0.7, min_p=0.1)
    view.uses_own.toggle.click()
    assert last_settings(api) == replace_settings(uses_model_sampling=False)
    shown_as(api, settings=replace_settings(uses_model_sampling=False))
    view.model.fetch_choices()
    api.flush()
    assert view.sampling.fields["top_k"].placeholderText() == "engine default"


@pytest.mark.slow
def test_a_share_of_memory_is_asked_for_where_the_engine_takes_one(view: ModelSettingsView, api: DemoApi) -> None:
    row = view.numbers["gpu_memory_fraction"]
    shown_as(api, takes=["gpu_memory_fraction"])
    view.model.fetch_choices()
    api.flush()
    assert row.isVisible()
    row.field.setText("0,4")
    row.field.editingFinished.emit()
    assert last_settings(api) == replace_settings(gpu_memory_fraction=0.4)
    view.model.type_in("gpu_memory_fraction", "4")
    assert "takes a number from 0.05 to 1" in row._wrong.text()
    shown_as(api, takes=[])
    view.model.fetch_choices()
    api.flush()
    assert not row.isVisible()


@pytest.mark.slow
def test_choices_are_sent_and_left_to_roundhouse_again(view: ModelSettingsView, api: DemoApi) -> None:
    view.draft.choice._choose_value("qwen3-0.6b-q8_0")
    assert last_settings(api) == replace_settings(draft="qwen3-0.6b-q8_0")
    view.kv_type.choice._choose_value("")
    assert last_settings(api) == replace_settings(kv_type=None)
    view.engine.choice._choose_value("vllm")
    assert last_settings(api) == replace_settings(engine="vllm")
    view.projector.choice._choose_value("none")
    assert last_settings(api) == replace_settings(projector="none")


@pytest.mark.slow
def test_drafts_say_why_and_can_be_tried(view: ModelSettingsView, api: DemoApi, shell: QuietShell) -> None:
    shown_as(api, draft_candidate="ngram", draft_reason="No trial was made with llama.cpp on this machine yet.")
    view.model.fetch_choices()
    api.flush()
    assert "Nothing drafts: No trial was made" in view.draft.help.text()
    assert view.model.choices is not None
    assert view.model.model is not None
    values = [value for value, _ in model_settings.draft_options(view.model.choices)]
    assert values[:3] == ["", "off", "ngram"]
    api.replies["POST /draft-trials"] = None
    view.draft.attempt.click()
    api.flush()
    name = view.model.model.runs_as
    assert api.bodies_of("POST", "/draft-trials") == [TryDrafts(model=view.model.model.name)]
    shell.broadcast_event(DraftTrialChanged(model=name, stage="Answering with drafts"))
    assert view.draft.help.text().startswith("Answering with drafts")
    assert view.draft.attempt.text() == "Stop"
    shell.broadcast_event(DraftTrialChanged(model="another", stage="Done", done=True))
    assert view.draft.attempt.text() == "Stop"
    shell.broadcast_event(DraftTrialChanged(model=name, stage="Ended", done=True, error="The trial was disturbed."))
    assert view.draft._wrong.text() == "The trial was disturbed."
    assert view.draft.attempt.text() == "Try"


@pytest.mark.slow
def test_what_the_gateway_refuses_stands_at_its_row_which_goes_back(view: ModelSettingsView, api: DemoApi) -> None:
    refusal = ErrorBody(code="invalid_value", sentence="It cannot draft: its tokens are others.", hint="Take another.")
    api.replies["POST /model-settings"] = refusal
    view.draft.choice._choose_value("qwen3-0.6b-q8_0")
    api.flush()
    assert view.draft._wrong.text() == "It cannot draft: its tokens are others. Take another."
    assert view.draft.choice.value == ""
    api.replies["POST /model-settings"] = SET
    view.draft.choice._choose_value("qwen3-0.6b-q8_0")
    api.flush()
    assert not view.draft._wrong.isVisible()


@pytest.mark.slow
def test_adapters_are_switched_on_and_off(view: ModelSettingsView, api: DemoApi) -> None:
    rows = list(view.loras.rows.values())
    toggles = [row.toggle for row in rows if hasattr(row, "toggle")]
    assert [toggle.isChecked() for toggle in toggles] == [True, False]
    toggles[1].click()
    assert last_settings(api).loras == [*SET.loras, "/models/pirate-lora-f16.gguf"]
    toggles[0].click()
    assert last_settings(api).loras == []


@pytest.mark.slow
def test_a_template_begins_with_the_models_own_and_is_kept_on_request(view: ModelSettingsView, api: DemoApi) -> None:
    assert not view.template.edit.isVisible()
    view.template._own.click()
    assert view.template.edit.toPlainText() == data.TUNED.chat_template
    assert not api.bodies_of("POST", "/model-settings")
    view.template.keep.click()
    assert last_settings(api) == replace_settings(chat_template=data.TUNED.chat_template)
    shown_as(api, settings=replace_settings(chat_template="{{ messages }}"))
    view.model.fetch_choices()
    api.flush()
    assert view.template.edit.toPlainText() == "{{ messages }}"
    view.template._clear.click()
    assert last_settings(api) == replace_settings(chat_template=None)


@pytest.mark.slow
def test_a_template_that_was_changed_is_told_with_what_it_does(view: ModelSettingsView, api: DemoApi) -> None:
    assert view.template.help.text() == "Jinja. It is tested before it is saved."
    note = "What it writes depends on the date."
    template_reading = TemplateReading(base="the one of maker/base", is_changed=True, notes=[note])
    shown_as(api, template_reading=template_reading)
    view.model.fetch_choices()
    api.flush()
    _, change_line, last = view.template.help.text().splitlines()
    assert change_line == "This template was changed: it is not the same as the one of maker/base."
    assert last == note
    assert view.template.help.isVisibleTo(view)


@pytest.mark.slow
def test_names_are_kept_among_those_of_others(view: ModelSettingsView, api: DemoApi) -> None:
    rows = [
        data.with_value(info, ["claude-*=other", f"gpt-*={MODEL.name}"])
        if info.name == model_settings.ALIASES
        else info
        for info in data.default_settings()
    ]
    api.replies["GET /settings"] = rows
    view.model._preferences.read()
    api.flush()
    view.names.changed.emit(["gpt-4o"])
    api.flush()
    assert api.bodies_of("PATCH", "/settings") == [{model_settings.ALIASES: [f"gpt-4o={MODEL.name}", "claude-*=other"]}]


@pytest.mark.slow
def test_all_can_be_forgotten_and_brought_back(view: ModelSettingsView, api: DemoApi, shell: QuietShell) -> None:
    view._reset.click()
    assert last_settings(api) == ModelSettings(pinned=True)
    undo = shell.undos[-1]
    assert undo is not None
    undo()
    assert last_settings(api) == SET


@pytest.mark.slow
def test_a_model_that_runs_otherwise_can_be_loaded_again(view: ModelSettingsView, api: DemoApi) -> None:
    assert not view._again.isVisible()
    shown_as(api, needs_reload=True)
    view.model.fetch_choices()
    api.flush()
    assert view._again.isVisible()
    api.replies |= {"POST /unload": data.READY, "POST /load": data.READY}
    view.model.reload_model()
    api.flush()
    assert [path for method, path, _ in api.calls if method == "POST"] == ["/unload", "/load"]


@pytest.mark.slow
def test_a_failure_is_said_with_a_way_to_try_again(screen: ModelsScreen, api: DemoApi) -> None:
    api.replies[f"GET {PATH}"] = ErrorBody(code="gone", sentence="It is gone.")
    screen.model.model_settings.open_model(MODEL)
    api.flush()
    assert screen.settings_view._error.isVisible()
    assert not screen.settings_view._content.isVisible()
    shown_as(api)
    screen.model.model_settings.fetch_choices()
    api.flush()
    assert not screen.settings_view._error.isVisible()
    assert screen.settings_view._content.isVisible()


def test_an_attached_model_has_only_what_counts_for_it(screen: ModelsScreen, api: DemoApi) -> None:
    far = ModelInfo(name="far", title="far", path="/a.json", format="remote", size_bytes=0, attached="http://box/v1")
    choices = msgspec.structs.replace(
        data.TUNED, model="far", settings=ModelSettings(), companions=[], chat_template=""
    )
    api.replies["GET /model-settings/far"] = choices
    screen.model.model_settings.open_model(far)
    api.flush()
    visible = [section.accessibleName() for section in screen.settings_view._sections if section.isVisible()]
    assert visible == ["Sampling", "Unloading", "Names"]


def test_words_for_choices() -> None:
    companion = Companion(
        kind=CompanionKind.PROJECTOR, name="/m/p.gguf", title="p.gguf", size_bytes=1 << 20, is_used=True
    )
    choices = msgspec.structs.replace(data.TUNED, companions=[companion])
    assert model_settings.projector_options(choices)[0] == ("", "The one next to the model, p.gguf")
    assert model_settings.projector_options(choices)[-1] == ("/m/p.gguf", "p.gguf, 1.0 MiB")
    assert model_settings.engine_options(data.TUNED)[0] == ("", "Best, llama.cpp")
    assert model_settings.engine_options(data.TUNED)[-1] == ("vllm", "vLLM, not installed")
    silent = msgspec.structs.replace(data.TUNED, sampling=ModelSampling())
    assert model_settings.recommendation_text(silent).startswith("The model recommends nothing.")


@pytest.mark.slow
def test_code_runs_only_after_a_question_that_says_what_it_means(
    view: ModelSettingsView, api: DemoApi, shell: QuietShell
) -> None:
    assert not view._code.isVisible(), "this engine runs none, and it brings none"
    shown_as(api, brings_code=True, takes=["allows_code"])
    view.model.fetch_choices()
    api.flush()
    assert view._code.isVisible()
    assert "with your permissions" in view.code.help.text()
    view.code.toggle.click()
    api.flush()
    assert not view.code.toggle.isChecked()
    assert not api.bodies_of("POST", "/model-settings")
    title, sentence, confirmed_action = shell.confirmations[-1]
    assert title.startswith("Allow the code of ")
    assert "with your permissions" in sentence
    confirmed_action.run()
    assert last_settings(api) == replace_settings(allows_code=True)


@pytest.mark.slow
def test_code_is_taken_back_at_once(view: ModelSettingsView, api: DemoApi, shell: QuietShell) -> None:
    shown_as(api, settings=replace_settings(allows_code=True))
    view.model.fetch_choices()
    api.flush()
    assert view.code.toggle.isChecked()
    view.code.toggle.click()
    assert last_settings(api) == replace_settings(allows_code=False)
    assert not shell.confirmations


@pytest.mark.slow
def test_parsers_are_named_where_the_engine_has_them(view: ModelSettingsView, api: DemoApi) -> None:
    assert not view._parsers.isVisible()
    shown_as(api, takes=["tool_parser", "reasoning_parser"], tool_parser="hermes")
    view.model.fetch_choices()
    api.flush()
    calls, reasoning = view.parsers
    assert view._parsers.isVisible()
    assert (calls.field.placeholderText(), reasoning.field.placeholderText()) == ("hermes", "none")
    calls.field.setText("mistral")
    calls.field.editingFinished.emit()
    assert last_settings(api) == replace_settings(tool_parser="mistral")
    shown_as(api, settings=replace_settings(tool_parser="mistral"))
    view.model.fetch_choices()
    api.flush()
    assert calls.field.text() == "mistral"
    calls.field.setText("")
    calls.field.editingFinished.emit()
    assert last_settings(api) == replace_settings(tool_parser=None)


@pytest.mark.slow
def test_further_arguments_are_one_line(view: ModelSettingsView, api: DemoApi) -> None:
    field = view.arguments.field
    field.setText("--seed=7 --note 'two words' C:\\x")
    field.editingFinished.emit()
    assert last_settings(api) == replace_settings(extra_args=["--seed=7", "--note", "two words", "C:\\x"])
    shown_as(api, settings=replace_settings(extra_args=["--note", "it's"]))
    view.model.fetch_choices()
    api.flush()
    before = len(api.bodies_of("POST", "/model-settings"))
    field.editingFinished.emit()
    assert model_settings._split_words(field.text()) == ["--note", "it's"]
    assert len(api.bodies_of("POST", "/model-settings")) == before
    field.setText("--note 'open")
    field.editingFinished.emit()
    assert view.arguments._wrong.text() == "A quotation mark is not closed."
