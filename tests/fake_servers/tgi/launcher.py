"""Plays `text-generation-launcher`: its lines, a port that opens at last, and a key on what writes text only."""

import os
from typing import Any

from played import Server

_GUARDED = frozenset({"/generate", "/v1/chat/completions", "/v1/completions", "/tokenize"})


class Router(Server):
    """TGI's router."""

    async def app(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer, but what writes text only to those with the key."""
        authorization = dict(scope["headers"]).get(b"authorization", b"").decode()
        if scope["path"] in _GUARDED and authorization.lower() != f"bearer {os.environ['API_KEY']}".lower():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await super().app(scope, receive, send)


Router(
    [
        "2026-11-21T10:00:00.000000Z  INFO text_generation_launcher: Starting check and download process for /model",
        "2026-11-21T10:00:01.000000Z  INFO text_generation_launcher: Starting shard rank=0",
        "2026-11-21T10:00:11.000000Z  INFO text_generation_launcher: Waiting for shard to be ready... rank=0",
        "2026-11-21T10:00:12.000000Z  INFO text_generation_launcher: Starting Webserver",
    ]
).play()
