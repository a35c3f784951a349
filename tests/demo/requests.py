"""Requests as the demo gateway tells them: one in each state. Invented, and only shown in screenshots."""

import time
from collections.abc import Mapping
from datetime import date, timedelta

from app.core.requests import KeyDay, Peer, RequestDetail, RequestInfo, RequestState, Usage, UsageRow
from app.core.traces import TracesState

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


def _key_day(ago: int, key: str, key_id: str, requests: int, **fields: int | bool) -> KeyDay:
    return KeyDay(
        day=(date.today() - timedelta(days=ago)).isoformat(),  # noqa: DTZ011 -- days of this computer's clock
        key=key,
        key_id=key_id,
        requests=requests,
        prompt_tokens=requests * 2140,
        cached_tokens=requests * 1800,
        completion_tokens=requests * 91,
        **{"failed": 0, "held_back": 0, **fields},  # type: ignore[arg-type]
    )


_WORK = (14, 31, 0, 0, 22, 18, 27, 40, 9, 0, 0, 35, 21, 12, 6)
KEY_DAYS = [
    *(_key_day(ago, "laptop", "5f0e2a6b91cd", count) for ago, count in enumerate(_WORK) if count),
    _key_day(0, "intern", "77b1d0a3f2e5", 3),
    _key_day(1, "intern", "77b1d0a3f2e5", 25, held_back=12, failed=1),
    _key_day(1, "", "", 8),
    _key_day(26, "old phone", "b3d90e11f7a2", 17, is_revoked=True),
]


def request_replies() -> Mapping[str, object]:
    """Return the answers of the inspector's routes."""
    return {
        "GET /requests": REQUESTS,
        "GET /traces": TracesState(sentence="Traces are not sent anywhere."),
        "GET /usage": USAGE,
        "GET /usage/keys": KEY_DAYS,
        "DELETE /requests": None,
        **{f"POST /requests/{request.id}/cancel": request for request in REQUESTS},
        **{f"GET /requests/{request.id}": RequestDetail(request=request) for request in REQUESTS},
    }
