"""`roundhouse deploy render`: what it asks the service, where it writes, and what it leaves alone."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from app.cli import deploy as command
from app.cli.main import roundhouse
from app.core.deployments import Deployment, DeploymentFile, DeploymentRequest

FILES = [DeploymentFile(name="a.yaml", text="a: 1\n"), DeploymentFile(name="b.yaml", text="b: 2\n")]


class PlayedService:
    """Answers as the gateway does, and remembers what it was asked."""

    def __init__(self) -> None:
        self.requests: list[DeploymentRequest] = []

    def post(self, path: str, body: DeploymentRequest, _kind: Any) -> Deployment:  # noqa: ANN401 -- a type
        assert path == "/deployments/render"
        self.requests.append(body)
        return Deployment(name="q", files=FILES, notes=["Make the Secret first."])


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> PlayedService:
    played_service = PlayedService()
    monkeypatch.setattr(command, "connect_gateway", lambda: played_service)
    return played_service


def run_render(*arguments: str) -> Result:
    return CliRunner().invoke(roundhouse, ["deploy", "render", "o/m", *arguments])


def test_options_are_the_requests_fields_and_files_are_printed_apart_from_notes(service: PlayedService) -> None:
    result = run_render(
        "--engine", "sglang", "--target", "compose", "--replicas", "3", "--cards", "2", "--context", "9"
    )
    assert result.stdout == "# a.yaml\na: 1\n# b.yaml\nb: 2\n"
    assert "Make the Secret first." in result.stderr
    expected_request = DeploymentRequest(model="o/m", engine="sglang", target="compose", replicas=3, cards=2, context=9)
    assert service.requests == [expected_request]


def test_without_options_the_request_is_as_the_api_has_it(service: PlayedService) -> None:
    assert run_render("--json").exit_code == 0
    assert service.requests == [DeploymentRequest(model="o/m")]


def test_json_has_the_files_as_texts(service: PlayedService) -> None:
    answer = json.loads(run_render("--json").stdout)
    assert [file["text"] for file in answer["deployment"]["files"]] == [file.text for file in FILES]
    assert len(service.requests) == 1


@pytest.mark.usefixtures("service")
def test_a_file_that_is_there_is_overwritten_with_force_only(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    assert run_render("--out", str(folder)).exit_code == 0
    assert [(folder / file.name).read_bytes() for file in FILES] == [b"a: 1\n", b"b: 2\n"]
    (folder / "a.yaml").unlink()
    (folder / "b.yaml").write_text("mine", encoding="utf-8")
    refusal = run_render("--out", str(folder))
    assert refusal.exit_code == 2
    assert "Already there" in refusal.stderr
    assert not (folder / "a.yaml").exists(), "all or none"
    assert (folder / "b.yaml").read_text(encoding="utf-8") == "mine"
    assert run_render("--out", str(folder), "--force").exit_code == 0
    assert (folder / "b.yaml").read_text(encoding="utf-8") == "b: 2\n"


@pytest.mark.usefixtures("service")
def test_a_disk_that_fills_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.yaml").write_text("mine", encoding="utf-8")
    write_text = Path.write_text

    def fill_disk(path: Path, text: str, **options: str) -> int:
        if path.name == "b.yaml":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_text(path, text, **options)

    monkeypatch.setattr(Path, "write_text", fill_disk)
    result = run_render("--out", str(tmp_path), "--force")
    assert result.exit_code == 1
    assert "No space left" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.yaml"]
    assert (tmp_path / "a.yaml").read_text(encoding="utf-8") == "mine"


@pytest.mark.usefixtures("service")
def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    result = run_render("--out", str(tmp_path / "file" / "below"))
    assert result.exit_code == 1
    assert "cannot be written to" in result.stderr


def test_alone_it_lists_what_there_are_files_for() -> None:
    shown_text = CliRunner().invoke(roundhouse, ["deploy"]).stdout
    assert shown_text.splitlines()[-1].split() == ["dynamo", "kubernetes"]
    answer = json.loads(CliRunner().invoke(roundhouse, ["deploy", "--json"]).stdout)
    assert answer["targets"]["vllm"] == ["kubernetes", "compose"]
