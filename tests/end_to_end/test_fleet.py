"""A fleet with the real router: smg from the package index in front of llama.cpp replicas, through our own endpoint.

Replicas are killed, frozen, added and taken out while chats go on: each chat is answered once, or ends with an error.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Timer
from typing import Any

import httpx
import psutil
import pytest

from app.client.http import GatewayClient
from app.core.fleets import StartFleet
from app.core.models import ModelInfo
from engines.api import LaunchOptions
from tests.end_to_end.conftest import Roundhouse
from tests.end_to_end.worker import KEY, Worker
from tests.patience import wait_until

pytestmark = [
    pytest.mark.engines,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="smg has wheels for Linux alone"),
]
GUIDE = Path(__file__).resolve().parents[2] / "resources" / "guide" / "guide-q8_0.gguf"
AT_ONCE = 8
SHARE = 60
"""Chats between two events."""
FROZEN_S = 10.0
"""Longer than the router takes to notice."""


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


@pytest.fixture(scope="module")
def fleet_client(client: GatewayClient, roundhouse: Roundhouse) -> GatewayClient:
    done = roundhouse("engines", "install", "smg", within_s=300)
    assert done.returncode == 0, done.stderr
    return client


def serve_over(client: GatewayClient, replicas: Sequence[Worker], policy: str = "cache_aware") -> None:
    addresses = ", ".join(f'"{replica.plan.base_url}"' for replica in replicas)
    text = f'model = "team"\nserves = "served"\npolicy = "{policy}"\nreplicas = [{addresses}]\n'
    assert client.post("/fleets", StartFleet(text=text, key=KEY), ModelInfo).router == "smg"


def chat(client: GatewayClient, messages: Sequence[dict[str, str]], *, stream: bool = False) -> httpx.Response:
    body: dict[str, Any] = {"model": "team", "messages": messages, "max_tokens": 8, "temperature": 0, "stream": stream}
    return httpx.post(f"{client.gateway.url}/v1/chat/completions", json=body, timeout=300)


def outcome_of(client: GatewayClient, number: int) -> str:
    reply = chat(client, [{"role": "user", "content": f"Request {number}: what is GGUF?"}], stream=number % 2 == 0)
    if reply.status_code != httpx.codes.OK or '"error"' in reply.text:
        return "error"
    if number % 2:
        return "answered" if len(reply.json()["choices"]) == 1 else "twice"
    return "answered" if reply.text.count('"finish_reason":"') == reply.text.count("[DONE]") == 1 else "twice"


def has_ended(chats: "Sequence[Future[str]]", least: int) -> bool:
    return sum(chat.done() for chat in chats) >= least


def freeze(replica: Worker) -> None:
    """Stop it for a while, not until more chats end: every chat in flight may be with it, and none is taken back."""
    process = psutil.Process(replica.process.pid)
    process.suspend()
    Timer(FROZEN_S, process.resume).start()


def test_nothing_is_lost_or_answered_twice_while_replicas_come_and_go(
    fleet_client: GatewayClient, replicas: list[Worker]
) -> None:
    first, frozen, killed = replicas
    serve_over(fleet_client, replicas)
    events: list[Callable[[], object]] = [
        killed.process.kill,
        lambda: freeze(frozen),
        lambda: replicas.append(start_replica()),
        lambda: serve_over(fleet_client, replicas),
        lambda: serve_over(fleet_client, [replica for replica in replicas if replica is not first]),
    ]
    outcomes: Counter[str] = Counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        going_on = [pool.submit(outcome_of, fleet_client, number) for number in range(SHARE * (len(events) + 1))]
        for number, event in enumerate(events, start=1):
            wait_until(partial(has_ended, going_on, SHARE * number))
            event()
        outcomes.update(future.result() for future in going_on)
    assert outcomes["twice"] == 0
    assert outcomes["error"] <= AT_ONCE, "only what the killed replica was writing ends with an error"
    assert outcomes.total() == len(going_on)


def share_of_cached_tokens(client: GatewayClient, label: str) -> float:
    """Lead six conversations of six turns, three at a time, and return what share of their prompts was in the cache."""
    with ThreadPoolExecutor(3) as pool:
        counts = list(pool.map(lambda number: lead_conversation(client, f"{label} {number}"), range(6)))
    return sum(cached for cached, _ in counts) / sum(prompt for _, prompt in counts)


def lead_conversation(client: GatewayClient, label: str) -> tuple[int, int]:
    messages = [{"role": "system", "content": f"{label}: " + " ".join(f"{label} rule {rule}." for rule in range(20))}]
    cached = prompt = 0
    for turn in range(6):
        messages.append({"role": "user", "content": f"Turn {turn}: what is GGUF?"})
        answer = chat(client, messages).json()
        messages.append(answer["choices"][0]["message"])
        cached += answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        prompt += answer["usage"]["prompt_tokens"]
    return cached, prompt


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
