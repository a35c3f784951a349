"""Claude Code's picker: it lists models whose names begin with `claude`, and asks for what was picked by that name."""

import json
from typing import Any

from aiohttp import web

from tests.gateway.played import Gateway

HEADERS = {"anthropic-version": "2023-06-01", "User-Agent": "claude-cli/2.1.197 (external, cli)"}


async def list_models(gateway: Gateway, headers: dict[str, str]) -> list[dict[str, Any]]:
    async with gateway.http.get(f"{gateway.url}/v1/models?limit=1000", headers=headers) as reply:
        assert reply.status == 200
        data: list[dict[str, Any]] = (await reply.json())["data"]
        return data


async def test_only_claude_code_is_told_names_of_anthropics_kind(gateway: Gateway) -> None:
    plain = await list_models(gateway, {"anthropic-version": "2023-06-01"})
    picked_names = await list_models(gateway, HEADERS)
    names = [card["id"] for card in plain]
    assert names
    assert not any(name.startswith("claude") for name in names)
    assert {f"claude-{name}" for name in names} >= {
        card["id"] for card in picked_names if card["id"].startswith("claude-")
    }
    assert any(card["id"].startswith("claude-") for card in picked_names)
    assert [card["display_name"] for card in picked_names] == [card["display_name"] for card in plain]


async def test_what_was_picked_answers_and_any_other_claude_is_the_model_in_use(gateway: Gateway) -> None:
    async def play(_request: web.Request) -> web.StreamResponse:
        return web.json_response(
            {
                "id": "1",
                "type": "message",
                "role": "assistant",
                "content": [{"type": "text", "text": "Hi"}],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }
        )

    gateway.upstream.play = play
    names = [card["id"] for card in await list_models(gateway, HEADERS) if card["id"].startswith("claude-")]
    for name in (names[0], names[0].upper(), "claude-opus-4-8"):
        body = {"model": name, "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}
        async with gateway.http.post(f"{gateway.url}/v1/messages", json=body, headers=HEADERS) as reply:
            assert reply.status == 200, await reply.text()
        assert json.loads(gateway.upstream.bodies[-1])["model"] == names[0].removeprefix("claude-")
