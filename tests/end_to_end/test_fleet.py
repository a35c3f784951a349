"""Fleets with real routers: smg and vllm-router from the package index before llama.cpp, through our own endpoint.

Replicas are killed, frozen, added and taken out while 2,000 chats go on (in depth 10,000): each is answered once, or
ends with an error.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple

import httpx
import psutil
import pytest

from app.client.http import GatewayClient
from app.core.fleets import StartFleet
from app.core.models import ModelInfo
from engines.api import LaunchOptions
from tests.depth import trials
from tests.end_to_end.conftest import Roundhouse
from tests.end_to_end.worker import KEY, Worker
from tests.patience import wait_until

pytestmark = [
    pytest.mark.engines,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(sys.platform != "linux", reason="the routers have wheels for Linux alone"),
]
GUIDE = Path(__file__).resolve().parents[2] / "resources" / "guide" / "guide-q8_0.gguf"
AT_ONCE = 16
SHARE = trials(334, deep=1667)
"""Chats between two events: 2,004 in all, and 10,002 in depth."""
SHARE_WITHIN_S = 900.0
FROZEN_S = 10.0
"""Longer than the router takes to notice."""

GIVEN_BACK_WITHIN_S = 300.0
_MOST_ERROR = 500
"""Characters."""


def start_replica(port: int | None = None) -> Worker:
    replica = Worker(GUIDE, LaunchOptions(context=2048, slots=4), port=port)
    assert replica.is_ready()
    return replica


@pytest.fixture
def replicas() -> Iterator[list[Worker]]:
    workers = [start_replica() for _ in range(3)]
    yield workers
    for worker in workers:
        worker.process.kill()
        worker.close()


def install(roundhouse: Roundhouse, router: str) -> None:
    result = roundhouse("engines", "install", router, within_s=300)
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module")
def fleet_client(client: GatewayClient, roundhouse: Roundhouse) -> GatewayClient:
    install(roundhouse, "smg")
    return client


def serve_over(
    client: GatewayClient, replicas: Sequence[Worker], policy: str = "cache_aware", *, router: str = "smg"
) -> None:
    addresses = ", ".join(f'"{replica.plan.base_url}"' for replica in replicas)
    text = f'model = "team"\nserves = "served"\nrouter = "{router}"\npolicy = "{policy}"\nreplicas = [{addresses}]\n'
    assert client.post("/fleets", StartFleet(text=text, key=KEY), ModelInfo).router == router


@cache
def http() -> httpx.Client:
    """Return what keeps its connections, as programs do: a new one for each chat costs more than its answer."""
    return httpx.Client(timeout=300, limits=httpx.Limits(max_connections=None))


@pytest.fixture(scope="module", autouse=True)
def shared_http_client() -> Iterator[None]:
    """Make it before threads do, each its own, and close it."""
    with http():
        yield
    http.cache_clear()


def chat(
    client: GatewayClient, messages: Sequence[dict[str, str]], *, stream: bool = False, tokens: int = 8
) -> httpx.Response:
    body: dict[str, Any] = {"model": "team", "messages": messages, "max_tokens": tokens, "temperature": 0}
    return http().post(f"{client.gateway.url}/v1/chat/completions", json={**body, "stream": stream})


class Outcome(NamedTuple):
    """What became of a chat, how long it took, and what it was told in place of an answer."""

    word: str
    seconds: float
    error: str = ""


def outcome_of(client: GatewayClient, number: int) -> Outcome:
    began = time.monotonic()
    question = {"role": "user", "content": f"Request {number}: what is GGUF?"}
    reply = chat(client, [question], stream=number % 2 == 0, tokens=2)
    word = word_for(reply, is_stream=number % 2 == 0)
    return Outcome(word, time.monotonic() - began, reply.text[:_MOST_ERROR] if word == "error" else "")


def word_for(reply: httpx.Response, *, is_stream: bool) -> str:
    if reply.status_code != httpx.codes.OK or '"error"' in reply.text:
        return "error"
    if not is_stream:
        return "answered" if len(reply.json()["choices"]) == 1 else "twice"
    finishes, ends = reply.text.count('"finish_reason":"'), reply.text.count("[DONE]")
    return {(1, 1): "answered"}.get((finishes, ends), "twice" if max(finishes, ends) > 1 else "lost")


def has_ended(chats: "Sequence[Future[Outcome]]", least: int) -> bool:
    return sum(chat.done() for chat in chats) >= least


def freeze(replica: Worker) -> None:
    """Stop it for a while, not until more chats end: every chat in flight may be with it, and none is taken back."""
    process = psutil.Process(replica.process.pid)
    process.suspend()
    Timer(FROZEN_S, process.resume).start()


def test_nothing_is_lost_or_answered_twice_while_replicas_come_and_go(
    fleet_client: GatewayClient, replicas: list[Worker]
) -> None:
    first, frozen_replica, killed_replica = replicas
    serve_over(fleet_client, replicas)
    events: list[Callable[[], object]] = [
        killed_replica.process.kill,
        lambda: freeze(frozen_replica),
        lambda: replicas.append(start_replica()),
        lambda: serve_over(fleet_client, replicas),
        lambda: serve_over(fleet_client, [replica for replica in replicas if replica is not first]),
    ]
    outcomes = chat_through(fleet_client, events, SHARE)
    assert outcomes["lost"] == outcomes["twice"] == 0
    assert outcomes["error"] <= AT_ONCE, "only what the killed replica was writing ends with an error"
    assert outcomes.total() == SHARE * (len(events) + 1)


def test_chats_at_a_replica_that_is_frozen_for_good_are_answered_by_others_or_end(
    fleet_client: GatewayClient, replicas: list[Worker]
) -> None:
    """It goes on accepting connections, and what was sent before it was noticed stays there."""
    serve_over(fleet_client, replicas, "round_robin")
    replica_process = psutil.Process(replicas[0].process.pid)
    began = time.monotonic()
    outcomes = chat_through(fleet_client, [replica_process.suspend], 150)
    replica_process.resume()
    assert outcomes["lost"] == outcomes["twice"] == 0
    assert outcomes["error"] <= AT_ONCE
    assert time.monotonic() - began < GIVEN_BACK_WITHIN_S


def chat_through(client: GatewayClient, events: Sequence[Callable[[], object]], share: int) -> Counter[str]:
    """Chat while things happen, so many chats between two of them, and return what became of the chats."""
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        going_on = [pool.submit(outcome_of, client, number) for number in range(share * (len(events) + 1))]
        for number, event in enumerate(events, start=1):
            wait_until(partial(has_ended, going_on, share * number), within_s=SHARE_WITHIN_S)
            event()
        outcomes = [future.result() for future in going_on]
    words = Counter(outcome.word for outcome in outcomes)
    slowest = max(outcome.seconds for outcome in outcomes)
    sys.stdout.write(f"{dict(words)} in {time.monotonic() - began:.0f} s, the slowest {slowest:.1f} s\n")
    return words


def test_vllm_router_answers_while_a_replica_is_killed_and_another_taken_out(
    client: GatewayClient, roundhouse: Roundhouse, replicas: list[Worker]
) -> None:
    install(roundhouse, "vllm-router")
    serve_over(client, replicas, router="vllm-router")
    replicas_left = replicas[1:]
    events = [replicas[2].process.kill, lambda: serve_over(client, replicas_left, router="vllm-router")]
    outcomes = chat_through(client, events, 100)
    assert outcomes["lost"] == outcomes["twice"] == 0
    assert outcomes["error"] <= AT_ONCE


def share_of_cached_tokens(client: GatewayClient, label: str) -> float:
    """Lead twelve conversations of six turns, four at a time; return what share of their prompts was in the cache."""
    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(lambda number: lead_conversation(client, f"{label} {number}"), range(12)))
    return sum(cached_tokens for cached_tokens, _ in counts) / sum(prompt for _, prompt in counts)


def lead_conversation(client: GatewayClient, label: str) -> tuple[int, int]:
    messages = [{"role": "system", "content": f"{label}: " + " ".join(f"{label} rule {rule}." for rule in range(20))}]
    cached_tokens = prompt = 0
    for turn in range(6):
        messages.append({"role": "user", "content": f"Turn {turn}: what is GGUF?"})
        answer = chat(client, messages).json()
        messages.append(answer["choices"][0]["message"])
        cached_tokens += answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        prompt += answer["usage"]["prompt_tokens"]
    return cached_tokens, prompt


def test_conversations_find_their_prefix_more_often_than_in_turns(
    fleet_client: GatewayClient, replicas: list[Worker]
) -> None:
    serve_over(fleet_client, replicas, "round_robin")
    in_turns = share_of_cached_tokens(fleet_client, "Oak")
    serve_over(fleet_client, replicas, "cache_aware")
    by_prefix = share_of_cached_tokens(fleet_client, "Elm")
    sys.stdout.write(f"cached prompt tokens: {in_turns:.2f} in turns, {by_prefix:.2f} by prefix\n")
    assert by_prefix > in_turns


def test_no_replica_left_is_said_and_mended_by_the_next_request(
    fleet_client: GatewayClient, replicas: list[Worker]
) -> None:
    serve_over(fleet_client, replicas)
    question = [{"role": "user", "content": "What is GGUF?"}]
    assert chat(fleet_client, question).status_code == httpx.codes.OK
    for replica in replicas:
        replica.process.kill()
        replica.process.wait()
    reply = chat(fleet_client, question)
    assert reply.status_code >= httpx.codes.INTERNAL_SERVER_ERROR
    assert reply.json()["error"]["message"]
