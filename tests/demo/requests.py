"""Requests as the demo gateway tells them: one in each state. Invented, and only shown in screenshots."""

import time
from collections.abc import Mapping

from app.core.requests import Peer, RequestDetail, RequestInfo, RequestState, Usage, UsageRow

_S = RequestState
_NOW = time.time()
_PATHS = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages", "ollama": "/api/chat"}


def _make_request(number: int, client: str, dialect: str, state: RequestState, **fields: object) -> RequestInfo:
    usual: dict[str, object] = {
        "id": f"req_{number:024x}",
        "at": _NOW - 40.0 * number - 10,
        "peer": Peer.THIS_COMPUTER,
        "path": _PATHS[dialect],
        "route": "chat",
        "model": "qwen3-8b-q4_k_m",
        "engine": "llama.cpp",
        "queue_s": 0.04,
        "load_s": 0.0,
        "total_s": 12.0,
    }
    return RequestInfo(**{**usual, **fields, "client": client, "dialect": dialect, "state": state})  # type: ignore[arg-type]


def _make_done_request(number: int, client: str, dialect: str, speed: float) -> RequestInfo:
    decode_s = 90 / speed
    return _make_request(
        number,
        client,
        dialect,
        _S.DONE,
        prefill_s=0.2 + number % 3,
        decode_s=decode_s,
        ttft_s=0.24 + number % 3,
        total_s=decode_s + 0.24 + number % 3,
        tokens_per_s=speed,
        prompt_tokens=2140,
        cached_tokens=1800,
        saved_s=2.4,
        completion_tokens=91,
        status=200,
        outcome="ok",
    )


REQUESTS = [
    _make_request(0, "claude-cli", "anthropic", _S.DECODING, prefill_s=3.1, decode_s=6.2, ttft_s=3.2),
    _make_request(1, "Continue", "ollama", _S.LOADING, model="gpt-oss-20b-mxfp4", queue_s=0.0, load_s=7.5),
    *(_make_done_request(number, "aider", "openai", 9.0 + number % 4) for number in range(2, 8)),
    _make_request(
        8,
        "OpenAI/Python",
        "openai",
        _S.FAILED,
        model="",
        route="",
        queue_s=None,
        load_s=None,
        total_s=0.002,
        status=404,
        outcome="refused",
        error="There is no model 'gpt-4o'. There are guide, qwen3-8b-q4_k_m.",
    ),
    _make_request(9, "Zed", "openai", _S.CANCELLED, prefill_s=0.8, outcome="client_gone", peer=Peer.NETWORK),
]

_AIDER = UsageRow(
    client="aider",
    model="qwen3-8b-q4_k_m",
    requests=6,
    failed=0,
    prompt_tokens=12_840,
    cached_tokens=10_800,
    completion_tokens=546,
)
USAGE = Usage(
    today=[_AIDER],
    week=[
        UsageRow(
            client="claude-cli",
            model="qwen3-8b-q4_k_m",
            requests=212,
            failed=3,
            prompt_tokens=8_412_300,
            cached_tokens=7_900_112,
            completion_tokens=96_204,
        ),
        _AIDER,
    ],
)


def request_replies() -> Mapping[str, object]:
    """Return the answers of the inspector's routes."""
    return {
        "GET /requests": REQUESTS,
        "GET /usage": USAGE,
        "DELETE /requests": None,
        **{f"POST /requests/{request.id}/cancel": request for request in REQUESTS},
        **{f"GET /requests/{request.id}": RequestDetail(request=request) for request in REQUESTS},
    }
