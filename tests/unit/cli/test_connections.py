"""`roundhouse connections` as a person reads it, and what it asks the service."""

from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner

from app.cli import connections as command
from app.cli.connections import connection_lines
from app.cli.main import roundhouse
from app.core.connections import Connection, ConnectionList, ConnectionReason, Program

FETCHED = Connection(
    id="cn_1",
    host="cdn.example",
    port=443,
    why=ConnectionReason.DOWNLOAD,
    about="org/model",
    by=Program.DOWNLOADER,
    count=1000,
    received_bytes=3 << 30,
    first_at=0.0,
    last_at=10.0,
)
KEPT_BACK = Connection(
    id="cn_2",
    host="hub.example",
    port=8443,
    why=ConnectionReason.SEARCH,
    refused=True,
    count=2,
    first_at=20.0,
    last_at=21.0,
)


class Service:
    """Answers as the gateway does, and remembers what it was asked."""

    def __init__(self) -> None:
        self.requests: list[str] = []

    def get(self, path: str, _kind: type) -> ConnectionList:
        self.requests.append(f"GET {path}")
        return ConnectionList(offline=True, connections=[KEPT_BACK, FETCHED])

    def delete(self, path: str) -> None:
        self.requests.append(f"DELETE {path}")


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    played_service = Service()
    monkeypatch.setattr(command, "connect_running", lambda: played_service)
    return played_service


def run_connections(*args: str) -> Any:  # noqa: ANN401 -- click's Result
    return CliRunner().invoke(roundhouse, ["connections", *args])


def plain(listing: ConnectionList) -> list[str]:
    return [" ".join(click.unstyle(line).split()) for line in connection_lines(listing)]


def test_a_connection_is_a_line_with_host_reason_and_count() -> None:
    head, line = plain(ConnectionList(offline=False, connections=[FETCHED]))
    assert head == "LAST HOST WHY TIMES RECEIVED FOR"
    assert line.endswith("cdn.example Download a model 1000 3.0 GiB org/model")


def test_the_last_is_at_the_end_where_a_person_reads() -> None:
    lines = plain(ConnectionList(offline=True, connections=[KEPT_BACK, FETCHED]))
    assert lines[0] == "Roundhouse is offline: it does not connect to other computers."
    assert "hub.example:8443 Search for models 2 refused -" in lines[-1]


def test_failures_are_counted_beside() -> None:
    some = msgspec.structs.replace(FETCHED, count=5, failed=2)
    assert " 5, 2 failed " in plain(ConnectionList(offline=False, connections=[some]))[-1]


def test_nothing_is_said_to_be_nothing() -> None:
    assert plain(ConnectionList(offline=False, connections=[])) == ["There were no connections to other computers."]


def test_json_is_versioned_and_whole(service: Service) -> None:
    result = run_connections("--json", "--limit", "7")
    read = msgspec.json.decode(result.stdout)
    assert read["version"] == 1
    assert read["offline"] is True
    assert read["connections"][1]["received_bytes"] == 3 << 30
    assert service.requests == ["GET /connections?limit=7"]


def test_the_list_can_be_cleared(service: Service) -> None:
    result = run_connections("--clear")
    assert result.exit_code == 0
    assert service.requests == ["DELETE /connections", "GET /connections?limit=50"]


@pytest.mark.parametrize("args", [("--limit", "0"), ("--limit", "many"), ("--follow", "--json")])
def test_what_makes_no_sense_is_refused(service: Service, args: tuple[str, ...]) -> None:
    assert run_connections(*args).exit_code == 2
    assert service.requests == []
