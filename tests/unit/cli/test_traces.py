"""`roundhouse traces` as a person reads it, and what it asks the service."""

import json
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from app.cli import traces as command
from app.cli.machine import trace_lines
from app.cli.main import roundhouse
from app.core.traces import SetTraceHeaders, TracesState

ON = TracesState(is_on=True, sentence="Traces are sent to 127.0.0.1:4318.", header_names=["Authorization"])


class TraceService:
    """Answers as the gateway does, and remembers what it was asked."""

    def __init__(self) -> None:
        self.state, self.calls = ON, list[tuple[str, str, Any]]()

    def get(self, path: str, _kind: object) -> TracesState:
        self.calls.append(("GET", path, None))
        return self.state

    def post(self, path: str, body: object, _kind: object) -> TracesState:
        self.calls.append(("POST", path, body))
        return self.state

    def delete(self, path: str) -> None:
        self.calls.append(("DELETE", path, None))


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> TraceService:
    trace_service = TraceService()
    monkeypatch.setattr(command, "connect_gateway", lambda: trace_service)
    return trace_service


def run(*arguments: str, text: str = "") -> Any:  # noqa: ANN401 -- click's result
    return CliRunner().invoke(roundhouse, ["traces", *arguments], input=text)


def test_it_says_where_traces_go_and_never_a_header_s_value(service: TraceService) -> None:
    lines = run().stdout.splitlines()
    assert lines == ["Traces are sent to 127.0.0.1:4318.", "Headers: Authorization"]
    service.state = msgspec.structs.replace(ON, has_contents=True)
    assert "Prompts and answers are in them." in run().stdout
    assert json.loads(run("--json").stdout)["traces"]["is_on"] is True


def test_off_it_says_how_to_begin(service: TraceService) -> None:
    service.state = TracesState(sentence="Traces are not sent anywhere.")
    assert "traces.endpoint" in run().stderr


def test_headers_come_from_a_pipe(service: TraceService) -> None:
    assert run("headers", "set", text="Authorization: Bearer a:b\nX-Scope: one\n").exit_code == 0
    headers = {"Authorization": "Bearer a:b", "X-Scope": "one"}
    assert service.calls == [("POST", "/traces/headers", SetTraceHeaders(headers=headers))]


def test_what_is_no_header_is_refused_before_it_is_sent(service: TraceService) -> None:
    result = run("headers", "set", text="s3cr3t\n")
    assert result.exit_code != 0
    assert "s3cr3t" not in result.output
    assert service.calls == []


def test_headers_are_forgotten_and_a_span_is_sent(service: TraceService) -> None:
    run("headers", "forget")
    run("test")
    assert service.calls == [
        ("DELETE", "/traces/headers", None),
        ("GET", "/traces", None),
        ("POST", "/traces/test", None),
    ]


def test_doctor_says_whether_they_are_taken() -> None:
    assert list(trace_lines(TracesState())) == []
    assert list(trace_lines(ON)) == ["Traces      Traces are sent to 127.0.0.1:4318."]
