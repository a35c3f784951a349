"""`roundhouse tunnel`, and `plan --across`: what the service is asked, and what a person reads."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from app.cli import advice as advice_command
from app.cli import tunnel as command
from app.cli.main import roundhouse
from app.core.across import AcrossPlan, LayerShare, MemberState, TunnelMember, TunnelState

STATE = TunnelState(
    certificate="PEM\n",
    listens="0.0.0.0:7437",
    members=[
        MemberState(name="desk", address="10.0.0.2:7437", free_bytes=8 << 30, latency_ms=0.42, link_mb_s=110.0),
        MemberState(name="lap", address="10.0.0.3:7437", problem="It does not answer."),
    ],
)
PLAN = AcrossPlan(
    model="big",
    context=512,
    shares=[
        LayerShare(name=name, layers=4, needed_bytes=1 << 30, free_bytes=2 << 30, token_ms=1.5, arithmetic="1 / 2")
        for name in ("here", "desk")
    ],
    fits=True,
    sentence="It fits.",
    reasons=["One after another."],
)


class PlayedService:
    """Answers as the gateway does, and remembers what it was sent."""

    def __init__(self) -> None:
        self.requests: list[Any] = []

    def get(self, _path: str, _kind: Any, **_how: Any) -> TunnelState:  # noqa: ANN401 -- as the client's
        return STATE

    def post(self, path: str, body: Any, _kind: Any, **_how: Any) -> Any:  # noqa: ANN401 -- as the client's
        self.requests.append(body)
        return PLAN if path == "/plan/across" else body

    def delete(self, path: str) -> None:
        self.requests.append(path)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> PlayedService:
    played = PlayedService()
    for module in (command, advice_command):
        monkeypatch.setattr(module, "connect_gateway", lambda: played)
    return played


def run(*arguments: str) -> Result:
    return CliRunner().invoke(roundhouse, arguments)


@pytest.mark.usefixtures("service")
def test_the_list_says_where_memory_is_lent_and_what_each_machine_answers() -> None:
    output = run("tunnel").output
    assert "lent at 0.0.0.0:7437" in output
    assert "0.42 ms" in output
    assert "It does not answer." in output
    assert json.loads(run("tunnel", "--json").stdout)["tunnel"]["members"][0]["name"] == "desk"
    assert run("tunnel", "certificate").stdout == "PEM\n"


def test_a_machine_is_added_by_its_file_and_removed(service: PlayedService, tmp_path: Path) -> None:
    file = tmp_path / "desk.pem"
    file.write_text("PEM\n", encoding="ascii")
    assert run("tunnel", "add", "desk", "10.0.0.2:7437", str(file)).exit_code == 0
    assert run("tunnel", "add", "lap", "-", str(file)).exit_code == 0
    assert run("tunnel", "remove", "a b").exit_code == 0
    assert service.requests == [
        TunnelMember(name="desk", address="10.0.0.2:7437", certificate="PEM\n"),
        TunnelMember(name="lap", address="", certificate="PEM\n"),
        "/tunnel/members/a%20b",
    ]


def test_a_file_that_is_no_text_is_refused(service: PlayedService, tmp_path: Path) -> None:
    file = tmp_path / "desk.pem"
    file.write_bytes(b"\xff\xfe")
    assert run("tunnel", "add", "desk", "-", str(file)).exit_code != 0
    assert service.requests == []


def test_a_plan_over_machines_shows_layers_memory_and_arithmetic(service: PlayedService) -> None:
    result = run("plan", "big", "--across", "desk, lap", "--context", "512")
    assert result.exit_code == 0, result.output
    assert service.requests[0].across == ["desk", "lap"]
    assert service.requests[0].context == 512
    for words in ("It fits.", "1.50 ms", "1 / 2", "One after another."):
        assert words in result.output
    assert json.loads(run("plan", "big", "--across", "desk", "--json").stdout)["across"]["fits"] is True
