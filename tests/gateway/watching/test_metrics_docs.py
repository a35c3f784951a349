"""`docs/reference/metrics.md` lists what `/metrics` really says: every name with its kind and labels, and no other."""

import asyncio
import re
from pathlib import Path

from app.core.engines import EngineState, EngineStatus
from app.core.fleets import Fleet, FleetReplica, ReplicaState
from app.core.requests import Peer, RequestInfo, RequestState
from app.gateway.exchange.observer import Caller, ExchangeFigures, ExchangeOutcome, Observation, Observers
from app.gateway.watching.metrics import EngineGauges, GatewayMetrics, prefill_rate
from engines.api import Gauge

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "reference" / "metrics.md"
ENGINE = EngineStatus(
    model="m", engine="e", state=EngineState.READY, memory_bytes=7, slots=4, buffers={"kv": 3}, restarts=1
)
FIGURES = ExchangeFigures(
    queue_s=0.0,
    load_s=0.0,
    prefill_s=2.0,
    decode_s=1.0,
    total_s=3.0,
    tokens_per_s=9.0,
    prompt_tokens=30,
    cached_tokens=10,
    completion_tokens=9,
)
RUNNING = RequestInfo(
    id="1",
    at=0.0,
    client="c",
    peer=Peer.NETWORK,
    dialect="openai",
    path="/",
    route="chat",
    model="m",
    state=RequestState.DECODING,
    total_s=3.0,
)

FLEET = Fleet(
    model="team",
    router="smg",
    policy="cache_aware",
    replicas=[
        FleetReplica(url="u", name="1", load=3),
        FleetReplica(url="v", name="2", state=ReplicaState.FAILED),
    ],
    requests=5,
)


def record_exchange(metrics: GatewayMetrics, outcome: ExchangeOutcome) -> None:
    """Have the metrics told of one exchange."""

    async def exchange() -> None:
        observers = Observers([metrics])
        end_exchange(Observation(Caller(), observers), outcome)
        observers.notify()

    asyncio.run(exchange())


def end_exchange(exchange: Observation, outcome: ExchangeOutcome) -> None:
    exchange.note_model("chat", "m")
    exchange.figures, exchange.outcome = FIGURES, outcome
    for _ in range(6):
        exchange.note_piece(b'data: {"usage":{"prompt_tokens":30,"completion_tokens":9}}\n\n')
    exchange.end()


def exposition() -> str:
    metrics = GatewayMetrics()
    record_exchange(metrics, ExchangeOutcome.OK)
    return metrics.format_exposition(
        [ENGINE], [RUNNING], [EngineGauges(model="m", engine="e", gauges=dict.fromkeys(Gauge, 0.5))], [FLEET]
    )


def read_metrics() -> dict[str, tuple[str, str]]:
    """Return kind and labels by name, as the text has them."""
    text = exposition()
    documented_metrics = {}
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        labels = re.search(rf"^{name}(?:_count)?{{([^}}]*)}}", text, re.MULTILINE)
        assert labels, f"{name} has no sample"
        documented_metrics[name] = (kind, ", ".join(re.findall(r'(\w+)="', labels[1])))
    return documented_metrics


def test_the_document_lists_exactly_what_is_exposed() -> None:
    rows = re.findall(r"^\| `(roundhouse_\w+)` \| (\w+) \| ([\w, ]+) \|", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    assert {name: (kind, labels) for name, kind, labels in rows} == read_metrics()


def test_every_help_text_is_a_sentence() -> None:
    helps = re.findall(r"^# HELP \S+ (.*)$", exposition(), re.MULTILINE)
    assert len(helps) == len(read_metrics())
    assert all(help_text.endswith(".") for help_text in helps)


def test_a_fleet_says_how_many_replicas_are_in_each_state_and_what_each_has() -> None:
    lines = [line for line in exposition().splitlines() if line.startswith("roundhouse_fleet_")]
    assert 'roundhouse_fleet_requests{model="team"} 5' in lines
    assert 'roundhouse_fleet_replicas{model="team",state="failed"} 1' in lines
    assert 'roundhouse_fleet_replicas{model="team",state="drained"} 0' in lines
    assert 'roundhouse_fleet_replica_up{model="team",replica="2"} 0' in lines
    assert [line for line in lines if "replica_requests" in line] == [
        'roundhouse_fleet_replica_requests{model="team",replica="1"} 3'
    ]


def test_the_rate_of_reading_leaves_out_what_was_cached() -> None:
    assert prefill_rate(FIGURES) == 10.0


def test_only_whole_answers_are_observed() -> None:
    metrics = GatewayMetrics()
    record_exchange(metrics, ExchangeOutcome.ENGINE_FAILED)
    assert "roundhouse_e2e_seconds_count" not in metrics.format_exposition([])
