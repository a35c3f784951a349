"""The machine page's state: the what-if that asks live, the calibration, the loads, the report. No window."""

from pathlib import Path
from types import NoneType
from typing import Any

import msgspec
import pytest
from pytestqt.qtbot import QtBot

from app.client.bundle import zip_bundle
from app.core.across import AcrossRequest
from app.core.advice import Counterfactual, Intent, Plan, PlanRequest
from app.core.engines import EngineState
from app.core.errors import ErrorBody
from app.core.events import CalibrationChanged, EngineChanged
from app.gui.net.api import gateway_gone
from app.gui.net.remote_lists import Stores
from app.gui.net.request_debouncer import RequestDebouncer
from app.gui.screens.machine.model import MachineModel
from app.gui.screens.machine.report import format_json
from app.gui.screens.machine.what_if import PlanForm, WhatIf
from app.gui.shell.contract import Shell
from tests.demo import advice, data, hub, machines
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell

REFUSED = ErrorBody(code="storage", sentence="The disk is full.", hint="Make room.", detail="ENOSPC")


@pytest.fixture
def model(api: DemoApi, shell: Shell) -> MachineModel:
    model = MachineModel(Stores(api, shell), shell)
    api.flush()
    return model


@pytest.fixture
def what_if(model: MachineModel) -> WhatIf:
    return model.what_if


def plans_asked(api: DemoApi) -> list[PlanRequest]:
    return [body for body in api.bodies_of("POST", "/plan") if isinstance(body, PlanRequest)]


def settle(what_if: WhatIf, api: DemoApi, qtbot: QtBot) -> None:
    """Wait for the rest after a change, and have everything answered."""
    qtbot.waitUntil(lambda: not what_if._plan_request._timer.isActive())
    api.flush()


def test_the_machine_is_read_and_looked_at_again(api: DemoApi, model: MachineModel) -> None:
    assert model.value == machines.LAPTOP
    model.probe_again()
    assert model.is_reading
    assert model.value is not None, "what is shown stays"
    api.flush()
    assert not model.is_reading
    assert ("GET", "/machine?fresh=1", None) in api.calls


def test_a_machine_that_cannot_be_read_is_said(api: DemoApi, shell: Shell) -> None:
    api.replies["GET /machine"] = REFUSED
    model = MachineModel(Stores(api, shell), shell)
    api.flush()
    assert model.error == REFUSED
    assert model.draw_pools() == []


def test_memory_is_looked_at_again_when_a_model_has_come_or_gone(api: DemoApi, model: MachineModel) -> None:
    before = len(api.bodies_of("GET", "/machine"))
    model.running.take(EngineChanged(status=msgspec.structs.replace(data.LOADING, progress=0.9)))
    api.flush()
    assert len(api.bodies_of("GET", "/machine")) == before, "that it loads on changes nothing yet"
    ready = msgspec.structs.replace(data.LOADING, state=EngineState.READY)
    model.running.take(EngineChanged(status=ready))
    api.flush()
    assert len(api.bodies_of("GET", "/machine")) == before + 1
    assert len(api.bodies_of("GET", "/loads")) == 2


def test_the_first_question_is_about_the_model_that_runs(api: DemoApi, what_if: WhatIf) -> None:
    assert {request.model for request in plans_asked(api)} == {data.READY.model}
    assert what_if.current_plan == what_if.usable_plans[0]
    assert what_if.estimate == what_if.usable_plans[0].estimate
    assert not what_if.is_asking


def test_without_a_running_model_the_usual_one_is_asked_about(api: DemoApi, shell: Shell) -> None:
    api.replies["GET /running"] = []
    usual = "gpt-oss-20b-mxfp4"
    api.replies["GET /settings"] = [
        data.with_value(row, usual) if row.name == "models.default" else row for row in data.default_settings()
    ]
    what_if = MachineModel(Stores(api, shell), shell).what_if
    api.flush()
    assert what_if.form.model == usual


def test_without_any_model_engines_are_planned_all_the_same(api: DemoApi, shell: Shell) -> None:
    api.replies |= {"GET /running": [], "GET /models": []}
    what_if = MachineModel(Stores(api, shell), shell).what_if
    api.flush()
    assert [request.model for request in plans_asked(api)] == [""]
    assert what_if.advice is not None


def test_quick_changes_ask_once(what_if: WhatIf, api: DemoApi, qtbot: QtBot) -> None:
    before = len(plans_asked(api))
    for users in (2, 3, 4):
        what_if.submit_form(msgspec.structs.replace(what_if.form, users=users))
    assert what_if.is_asking
    settle(what_if, api, qtbot)
    assert [request.users for request in plans_asked(api)[before:]] == [4]
    assert not what_if.is_asking


def test_the_old_answer_stays_until_the_new_one_is_there(what_if: WhatIf, api: DemoApi, qtbot: QtBot) -> None:
    old = what_if.advice
    what_if.submit_form(msgspec.structs.replace(what_if.form, kv_type="q8_0"))
    assert what_if.advice is old
    settle(what_if, api, qtbot)
    assert what_if.usable_plans[0].kv_type == "q8_0"


def test_an_answer_to_an_old_question_is_dropped(what_if: WhatIf, api: DemoApi, qtbot: QtBot) -> None:
    what_if.submit_form(msgspec.structs.replace(what_if.form, context=16384))
    qtbot.waitUntil(lambda: not what_if._plan_request._timer.isActive())
    what_if.submit_form(msgspec.structs.replace(what_if.form, context=32768))
    api.flush()
    assert what_if.usable_plans[0].context == 8192, "the answer for 16k came too late to be shown"
    settle(what_if, api, qtbot)
    assert what_if.usable_plans[0].context == 32768


def test_a_refusal_is_said_in_place_and_asked_again(what_if: WhatIf, api: DemoApi, qtbot: QtBot) -> None:
    api.replies["POST /plan"] = data.NO_SUCH_MODEL
    what_if.submit_form(msgspec.structs.replace(what_if.form, model="qwen-9-mega"), is_typing=True)
    settle(what_if, api, qtbot)
    assert what_if.error == data.NO_SUCH_MODEL
    assert (what_if.advice, what_if.estimate) == (None, None)
    api.replies["POST /plan"] = advice.answer_plan
    what_if.ask_again()
    api.flush()
    assert what_if.error is None
    assert what_if.advice is not None


def test_without_a_model_the_best_of_the_catalogue_is_named(what_if: WhatIf, api: DemoApi, qtbot: QtBot) -> None:
    assert what_if.form.model
    assert what_if.recommendation == "", "a model was asked about"
    recommendation = advice.answer_plan(PlanRequest())
    advised_machine = msgspec.structs.replace(recommendation, recommended=hub.PICKS[:2])
    api.replies["POST /plan"] = advised_machine
    what_if.submit_form(msgspec.structs.replace(what_if.form, model=""))
    settle(what_if, api, qtbot)
    assert what_if.recommendation == f"Qwen3.8 27B: {hub.PICKS[0].reason}"
    api.replies["POST /plan"] = msgspec.structs.replace(advised_machine, recommended=[], note="Nobody knows.")
    what_if.ask_again()
    api.flush()
    assert what_if.recommendation == "Nobody knows."


def test_a_plan_without_sums_has_them_asked_for(what_if: WhatIf, api: DemoApi) -> None:
    onnx = what_if.usable_plans[2]
    what_if.look_at(onnx)
    api.flush()
    (request,) = api.bodies_of("POST", "/estimate")
    assert (request.engine, request.context, request.slots) == ("onnxruntime-genai", 8192, 4)  # type: ignore[attr-defined]
    assert what_if.estimate is not None
    what_if.look_at(what_if.usable_plans[0])
    assert what_if.estimate == what_if.usable_plans[0].estimate


def test_sums_that_cannot_be_had_are_said(what_if: WhatIf, api: DemoApi) -> None:
    api.replies["POST /estimate"] = REFUSED
    what_if.look_at(what_if.usable_plans[2])
    api.flush()
    assert (what_if.estimate, what_if.estimate_error) == (None, REFUSED)


def test_the_plan_that_is_looked_at_stays_in_the_next_answer(what_if: WhatIf, api: DemoApi, qtbot: QtBot) -> None:
    what_if.look_at(what_if.usable_plans[1])
    what_if.submit_form(msgspec.structs.replace(what_if.form, context=16384))
    settle(what_if, api, qtbot)
    assert what_if.current_plan is not None
    assert (what_if.current_plan.backend, what_if.current_plan.context) == ("vulkan", 16384)


def counterfactual(what_if: WhatIf, name: str) -> Counterfactual:
    return next(change for change in what_if.usable_plans[0].counterfactuals if name in change.change)


def test_a_counterfactual_is_applied_and_undone(what_if: WhatIf, api: DemoApi, qtbot: QtBot) -> None:
    ways_back: list[Any] = []
    what_if.toast_requested.connect(lambda _sentence, undo: ways_back.append(undo))
    before = what_if.form
    what_if.apply_change(counterfactual(what_if, "kv_type"))
    settle(what_if, api, qtbot)
    assert what_if.form.kv_type == "q8_0"
    assert what_if.estimate is not None
    assert what_if.estimate.kv_type == "q8_0"
    ways_back[0]()
    settle(what_if, api, qtbot)
    assert what_if.form == before
    assert not what_if.can_apply(counterfactual(what_if, "quantization"))


def test_a_file_keeps_its_quantisation_and_a_name_does_not(what_if: WhatIf, api: DemoApi, qtbot: QtBot) -> None:
    assert not what_if.can_apply(counterfactual(what_if, "quantization"))
    what_if.submit_form(msgspec.structs.replace(what_if.form, model="Qwen3 8B"))
    settle(what_if, api, qtbot)
    what_if.apply_change(counterfactual(what_if, "quantization"))
    assert what_if.form.model == "Qwen3 8B-Q5_K_M"


def test_starting_over_leaves_the_model(what_if: WhatIf, api: DemoApi, qtbot: QtBot) -> None:
    what_if.submit_form(msgspec.structs.replace(what_if.form, intent=Intent.AGENT, users=9, kv_type="q4_0"))
    assert what_if.can_reset
    what_if.reset_form()
    settle(what_if, api, qtbot)
    assert not what_if.can_reset
    assert what_if.form.model == data.READY.model


def test_what_is_wished_for_outlives_a_new_list_of_models(what_if: WhatIf, api: DemoApi) -> None:
    what_if.submit_form(msgspec.structs.replace(what_if.form, model="llama 3 8b"))
    what_if.library.read()
    api.flush()
    assert what_if.form.model == "llama 3 8b"


def test_no_plan_is_shown_when_all_are_refused(what_if: WhatIf, api: DemoApi) -> None:
    refused_plans: list[Plan] = advice.REFUSED
    api.replies["POST /plan"] = msgspec.structs.replace(advice.answer_plan(PlanRequest()), plans=refused_plans)
    what_if.ask_again()
    api.flush()
    assert what_if.current_plan is None
    assert what_if.plan_refusals == refused_plans
    assert what_if.estimate is None


def test_a_question_that_is_forgotten_is_not_answered(api: DemoApi, shell: Shell) -> None:
    replies: list[object] = []
    question = RequestDebouncer(
        lambda body, then, on_error: api.post("/plan", body, kind=NoneType, then=then, on_error=on_error), shell
    )
    question.answered.connect(replies.append)
    question.send_now(PlanRequest())
    question.cancel_request()
    api.flush()
    assert replies == []
    assert not question.is_waiting


def test_calibrating_is_followed_and_learned_from(api: DemoApi, model: MachineModel, shell: QuietShell) -> None:
    calibration = model.calibration
    calibration.start()
    api.flush()
    assert calibration.is_running
    shell.broadcast_event(CalibrationChanged(stage="Reading", fraction=0.4))
    assert calibration.progress == CalibrationChanged(stage="Reading", fraction=0.4)
    plans, read = len(plans_asked(api)), len(api.bodies_of("GET", "/calibration"))
    shell.broadcast_event(CalibrationChanged(stage="", done=True))
    api.flush()
    assert not calibration.is_running
    assert len(api.bodies_of("GET", "/calibration")) == read + 1
    assert len(plans_asked(api)) == plans + 1, "what was learned changes the predictions"


def test_a_calibration_can_be_cancelled(api: DemoApi, model: MachineModel) -> None:
    model.calibration.start()
    model.calibration.cancel()
    api.flush()
    assert api.bodies_of("DELETE", "/calibrate") == [None]
    assert not model.calibration.is_running


@pytest.mark.parametrize("by", ["refusal", "event"])
def test_a_calibration_that_fails_says_why(api: DemoApi, model: MachineModel, shell: QuietShell, by: str) -> None:
    if by == "refusal":
        api.replies["POST /calibrate"] = REFUSED
    model.calibration.start()
    api.flush()
    if by == "event":
        shell.broadcast_event(CalibrationChanged(stage="", done=True, error="The engine ended."))
    assert not model.calibration.is_running
    assert model.calibration.error is not None


def test_a_calibration_is_told_by_device_and_age(model: MachineModel) -> None:
    at = advice.CALIBRATIONS[0].measured_at
    (row,) = model.calibration.list_rows(model.value, now=at + 3 * 86400 + 5)
    assert row.title == "AMD Ryzen 7 7840U with llama.cpp b11549 processor"
    assert row.quiet == "84 % of 66 GB/s · device table: 56 GB/s · 41 µs per layer · 14 answers · 3 days ago"
    assert model.calibration.list_rows(None, now=at + 30)[0].quiet.endswith("just now")
    assert model.calibration.list_rows(None, now=at + 300)[0].quiet.endswith("5 min 0 s ago")


def test_loads_are_listed_latest_first(model: MachineModel) -> None:
    assert [row.truth.model for row in model.loads.rows] == ["qwen3-8b-q4_k_m", "gemma-3-12b-it-q4_0"]


def test_loads_that_cannot_be_read_are_said(api: DemoApi, model: MachineModel) -> None:
    api.replies["GET /loads"] = gateway_gone()
    model.loads.read()
    api.flush()
    assert model.loads.error == gateway_gone()
    assert model.loads.rows, "what was there stays"


def test_the_report_is_shown_before_it_is_saved(api: DemoApi, model: MachineModel, tmp_path: Path) -> None:
    report = model.report
    report.open()
    assert report.is_reading
    api.flush()
    assert '"left_out": [' in report.text
    assert "raw outputs" in report.parts
    report.save(tmp_path / report.file_name)
    saved_report = (tmp_path / report.file_name).read_bytes()
    assert msgspec.json.decode(saved_report) == advice.REPORT
    report.close()
    assert (report.is_open, report.text) == (False, "")


def test_a_report_that_cannot_be_saved_says_where(api: DemoApi, model: MachineModel, tmp_path: Path) -> None:
    model.report.open()
    api.flush()
    model.report.save(tmp_path / "missing" / "report.json")
    assert model.report.error is not None
    assert "missing" in model.report.error.sentence
    assert model.report.text, "the report is still there to be saved elsewhere"


def test_logs_and_settings_are_shown_before_they_are_saved(api: DemoApi, model: MachineModel, tmp_path: Path) -> None:
    report = model.report
    report.open(is_bundle=True)
    api.flush()
    assert report.parts == [file.name for file in advice.BUNDLE.files]
    assert all(f"{file.name}: {file.why}" in report.text and file.text in report.text for file in advice.BUNDLE.files)
    assert report.file_name.endswith(".zip")
    report.save(tmp_path / report.file_name)
    assert (tmp_path / report.file_name).read_bytes() == zip_bundle(advice.BUNDLE)
    report.save(tmp_path / "missing" / "x.zip")
    assert report.error is not None
    report.open()
    api.flush()
    assert not report.is_bundle
    assert report.file_name.endswith(".json")
    assert "raw outputs" in report.parts


def test_an_answer_that_comes_too_late_is_passed_over(api: DemoApi, model: MachineModel) -> None:
    model.report.open(is_bundle=True)
    model.report.open()
    model.report.open(is_bundle=True)
    api.flush()
    assert model.report.parts == [file.name for file in advice.BUNDLE.files]


def test_a_report_that_came_as_text_is_shown_as_it_is() -> None:
    assert format_json(b'"line one\\nline two"') == "line one\nline two"


def test_a_model_of_an_endpoint_is_not_asked_about(api: DemoApi, shell: Shell) -> None:
    ready = msgspec.structs.replace(data.READY, model=data.FAR_MODEL.name)
    api.replies |= {"GET /running": [ready], "GET /models": [data.FAR_MODEL]}
    what_if = MachineModel(Stores(api, shell), shell).what_if
    api.flush()
    assert [request.model for request in plans_asked(api)] == [""]
    assert what_if.error is None


def test_the_model_that_is_wished_for_is_planned_over_computers_that_are_chosen(
    api: DemoApi, shell: Shell, qtbot: QtBot
) -> None:
    stores = Stores(api, shell)
    model = MachineModel(stores, shell)
    api.flush()
    stores.machines.read()
    api.flush()
    own = next(item for item in model.what_if.own_models if item.format == "gguf" and item.chats)
    model.what_if.submit_form(PlanForm(model=own.name, context=8192))
    settle(model.what_if, api, qtbot)
    assert model.across.is_offered
    assert model.across.lenders is not None
    model.across.choose_machine("desk", is_chosen=True)
    api.flush()
    assert api.bodies_of("POST", "/plan/across") == [AcrossRequest(model=own.name, across=["desk"], context=8192)]
    model.what_if.submit_form(PlanForm(model="a name that is not here"))
    settle(model.what_if, api, qtbot)
    assert not model.across.is_offered
