"""The server page's files for a cluster: what they are asked for with, shown as, and saved where."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.core.deployments import Deployment, DeploymentRequest
from app.core.errors import ErrorBody
from app.engine_store.recipe import read_recipes
from app.gateway.deploying.rendering import render_deployment, stable_versions
from app.gui.net.remote_lists import Stores
from app.gui.screens.server.deployment_model import DeploymentModel
from app.gui.screens.server.deployment_view import DeploymentForm, DeploymentSection
from app.gui.theme.theme import Theme
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell

RENDER = "POST /deployments/render"
MODEL = "Qwen/Qwen3-8B"


def render_request(request: DeploymentRequest) -> Deployment:
    return render_deployment(request, stable_versions(read_recipes()))


@pytest.fixture
def form(api: DemoApi, shell: QuietShell, theme: Theme, qtbot: QtBot) -> Iterator[DeploymentForm]:
    api.replies[RENDER] = render_request(DeploymentRequest(model=MODEL))
    section = DeploymentSection(theme, DeploymentModel(Stores(api, shell), shell))
    qtbot.addWidget(section)
    assert section.form.isHidden()
    section.open_button.click()
    yield section.form
    section.close()  # whose form it is: it lives until then


def show_files(form: DeploymentForm, api: DemoApi) -> Deployment:
    form.choices.model.setText(MODEL)
    form.render_button.click()
    api.flush()
    assert form._model.deployment is not None
    return form._model.deployment


def test_the_files_are_those_that_the_gateway_writes(form: DeploymentForm, api: DemoApi) -> None:
    assert not form.render_button.isEnabled()
    deployment = show_files(form, api)
    assert api.bodies_of("POST", "/deployments/render") == [DeploymentRequest(model=MODEL)]
    for file in deployment.files:
        form.file._choose_value(file.name)
        assert form.text._text.toPlainText() == file.text.rstrip("\n") or form.text._text.toPlainText() == file.text
    assert form.notes.text().splitlines() == deployment.notes


def test_every_choice_is_a_field_of_the_request(form: DeploymentForm, api: DemoApi) -> None:
    choices = form.choices
    choices.engine._choose_value("sglang")
    choices.target._choose_value("compose")
    choices.replicas._change_to(3)
    choices.cards._change_to(2)
    choices.disk._change_to(300)
    choices.context.setText("32768")
    choices.name.setText(" team ")
    show_files(form, api)
    expected_request = DeploymentRequest(
        model=MODEL, engine="sglang", target="compose", replicas=3, cards=2, context=32_768, name="team", disk_gib=300
    )
    assert api.bodies_of("POST", "/deployments/render") == [expected_request]
    choices.engine._choose_value("dynamo")
    assert choices.read_request().target == "kubernetes", "Dynamo has no compose file"


def test_files_of_earlier_choices_are_not_shown_with_new_ones(form: DeploymentForm, api: DemoApi) -> None:
    show_files(form, api)
    form.choices.replicas._change_to(5)
    assert form.text.isHidden()
    assert form.save.isHidden()
    form.render_button.click()
    form.choices.replicas._change_to(6)
    api.flush()
    assert form._model.deployment is None
    assert form.render_button.isEnabled()


def test_a_refusal_is_said(form: DeploymentForm, api: DemoApi) -> None:
    api.replies[RENDER] = ErrorBody(code="bad_deployment", sentence="'x' is not a repository on Hugging Face.")
    form.choices.model.setText("x")
    form.render_button.click()
    api.flush()
    assert "not a repository" in form.error._sentence.text()
    assert form.text.isHidden()
    form.choices.model.setText(MODEL)
    assert form.error.isHidden()


def test_files_are_saved_and_replace_others_once_that_is_confirmed(
    form: DeploymentForm, api: DemoApi, shell: QuietShell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, *_ = show_files(form, api).files
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_arguments: str(tmp_path))
    form.save.click()
    assert (tmp_path / first.name).read_text(encoding="utf-8") == first.text
    (tmp_path / first.name).write_text("mine", encoding="utf-8")
    form.save.click()
    assert (tmp_path / first.name).read_text(encoding="utf-8") == "mine"
    shell.confirmations[-1][2].run()
    assert (tmp_path / first.name).read_text(encoding="utf-8") == first.text


def test_a_folder_that_cannot_be_written_to_is_said(
    form: DeploymentForm, api: DemoApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    show_files(form, api)
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_arguments: str(file))
    form.save.click()
    assert "cannot be written to" in form.error._sentence.text()
    assert not form.text.isHidden(), "what was written is not lost"
