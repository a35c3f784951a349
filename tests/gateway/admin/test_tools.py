"""Wiring tools over HTTP and from the command line: what a gateway offers them, and whether it answers as they ask."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from app.cli import connect as command
from app.core.tools import ToolChange, ToolInfo, ToolProbe
from tests.gateway.admin.real_gateway import RealGateway, run_gateway
from tests.gateway.played import Gateway

PREFIX = "/roundhouse/v1"
HEADERS = {"Authorization": "Bearer token"}


async def test_a_probe_asks_as_the_tool_asks_and_says_what_answered(gateway: Gateway) -> None:
    paths: list[str] = []

    async def play(request: web.Request) -> web.StreamResponse:
        paths.append(request.path)
        return web.json_response({"choices": [{"message": {"content": "Hi"}}]})

    gateway.upstream.play = play
    object.__setattr__(gateway.services.identity, "url", gateway.url)
    where = f"{gateway.url}{PREFIX}/tools"
    async with gateway.http.post(f"{where}/aider/probe", json={}, headers=HEADERS) as reply:
        body = await reply.json()
    assert body["ok"], body
    assert body["route"] == "/v1/chat/completions"
    assert json.loads(gateway.upstream.bodies[-1])["max_tokens"] == 1


async def test_a_probe_passes_a_refusal_on(gateway: Gateway) -> None:
    async def play(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "too much", "code": 400}}, status=400)

    gateway.upstream.play = play
    object.__setattr__(gateway.services.identity, "url", gateway.url)
    async with gateway.http.post(f"{gateway.url}{PREFIX}/tools/llm/probe", json={}, headers=HEADERS) as reply:
        body = await reply.json()
    assert (body["ok"], body["status"]) == (False, 400)
    assert "too much" in body["sentence"]


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("emacs/preview", {}, 404, "tool_unknown"),
        ("codex/preview", {"model": "no-such-model"}, 404, "model_not_found"),
        ("codex/undo", None, 409, "tool_not_wired"),
        ("codex/connect", {"modell": "x"}, 400, "invalid_value"),
    ],
)
async def test_bad_requests_are_said(gateway: Gateway, path: str, body: object, status: int, code: str) -> None:
    async with gateway.http.post(f"{gateway.url}{PREFIX}/tools/{path}", json=body, headers=HEADERS) as reply:
        assert reply.status == status, await reply.text()
        if status != 400:
            assert (await reply.json())["code"] == code


@pytest.fixture
def real(tmp_path: Path, unused_port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealGateway]:
    with run_gateway(tmp_path, unused_port) as gateway:
        monkeypatch.setattr(command, "connect_gateway", lambda: gateway.client)
        yield gateway


@pytest.mark.slow
def test_the_command_lists_previews_wires_and_undoes(
    real: RealGateway, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "person" / ".codex" / "config.toml"

    def output_of(*arguments: str) -> str:
        command.connect.main([*arguments], standalone_mode=False)
        return capsys.readouterr().out

    assert "codex" in output_of()
    assert "Nothing has been written" in output_of("codex", "--model", "quick", "--dry-run")
    assert not file.exists()
    assert "was written" in output_of("codex", "--model", "quick")
    assert 'model = "quick"' in file.read_text()
    assert "needs no change" in output_of("codex", "--model", "quick")
    assert json.loads(output_of("--json"))["tools"][0]["model"] == "quick"
    assert "quick answered" in output_of("opencode", "--model", "quick", "--probe")
    assert "were restored" in output_of("codex", "--undo")
    assert not file.parent.exists()
    assert "Base URL: " + real.port_file.url + "/v1" in output_of("roo-code", "--model", "quick")


def test_the_types_are_those_of_the_replies(lent_gateway: RealGateway) -> None:
    client = lent_gateway.client
    assert client.get("/tools", list[ToolInfo])
    assert client.post("/tools/zed/preview", {"model": "quick"}, ToolChange).diff
    assert client.post("/tools/zed/probe", {"model": "broken"}, ToolProbe).ok is False
