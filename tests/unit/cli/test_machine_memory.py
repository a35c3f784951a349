"""`roundhouse machines memory` and `lend`, and `plan --across`: what the service is asked, and what a person reads."""

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from app.cli import advice as advice_command
from app.cli import machines as command
from app.cli.main import roundhouse
from app.core.across import AcrossPlan, LayerShare, MachineMemory
from app.core.machines import ChangeMachine, MachineList, MachineStanding

LENDERS = [
    MachineMemory(name="desk", address="10.0.0.2:11643", free_bytes=8 << 30, latency_ms=0.42, link_mb_s=110.0),
    MachineMemory(name="lap", address="10.0.0.3:11643", problem="It does not answer.", hint="It may be asleep."),
]
DESK = MachineStanding(name="desk", fingerprint="7" * 64, host="10.0.0.2", port=11643, is_lender=True)
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

    def get(self, path: str, _kind: Any, **_how: Any) -> Any:  # noqa: ANN401 -- as the client's
        self.requests.append(path)
        if path == "/machines":
            return MachineList(name="lap", fingerprint="3" * 64, port=11643, machines=[DESK])
        return LENDERS

    def post(self, path: str, body: Any, _kind: Any, **_how: Any) -> Any:  # noqa: ANN401 -- as the client's
        self.requests.append(body)
        return PLAN if path == "/plan/across" else body

    def patch(self, path: str, body: ChangeMachine, _kind: Any, **_how: Any) -> MachineStanding:  # noqa: ANN401 -- as the client's
        self.requests.append((path, body.lends_memory))
        return MachineStanding(
            name="desk", fingerprint="7" * 64, host="10.0.0.2", port=11643, lends_memory=body.lends_memory
        )


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> PlayedService:
    played_service = PlayedService()
    for module in (command, advice_command):
        monkeypatch.setattr(module, "connect_gateway", lambda: played_service)
    return played_service


def run(*arguments: str) -> Result:
    return CliRunner().invoke(roundhouse, arguments)


@pytest.mark.usefixtures("service")
def test_each_machine_says_what_it_lends_or_why_not() -> None:
    result = run("machines", "memory")
    for words in ("8.0 GiB", "0.42 ms", "110 MB/s", "lends memory", "It does not answer.", "It may be asleep."):
        assert words in result.output
    memory = json.loads(run("machines", "memory", "--json").stdout)["machine_memory"]
    assert [lender["name"] for lender in memory] == ["desk", "lap"]
    assert "lent by it" in run("machines").output


def test_memory_is_asked_for_a_model(service: PlayedService) -> None:
    assert run("machines", "memory", "--for", "my model").exit_code == 0
    assert service.requests == ["/machines/memory?model=my%20model"]


def test_memory_is_lent_and_taken_back(service: PlayedService) -> None:
    assert "lends memory to desk" in run("machines", "lend", "my desk").output
    assert "lends no memory to desk" in run("machines", "lend", "desk", "--off").output
    assert service.requests == [("/machines/my%20desk", True), ("/machines/desk", False)]


def test_the_list_of_its_own_is_gone() -> None:
    assert run("tunnel", "add", "desk", "10.0.0.2:7437", "desk.pem").exit_code != 0


def test_a_plan_over_machines_shows_layers_memory_and_arithmetic(service: PlayedService) -> None:
    result = run("plan", "big", "--across", "desk, lap", "--context", "512")
    assert result.exit_code == 0, result.output
    assert service.requests[0].across == ["desk", "lap"]
    assert service.requests[0].context == 512
    for words in ("It fits.", "1.50 ms", "1 / 2", "One after another."):
        assert words in result.output
    assert json.loads(run("plan", "big", "--across", "desk", "--json").stdout)["across"]["fits"] is True
