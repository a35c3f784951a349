"""Metrics, the watch and the log, without a socket."""

import asyncio
import logging
from pathlib import Path
from typing import cast

import msgspec
import pytest
from aiohttp.http_exceptions import BadHttpMessage

from app.core.engines import EngineState, EngineStatus
from app.core.errors import BadRequest, EngineFailed
from app.gateway.exchange.observer import Caller, ExchangeSink, Observation, Observers
from app.gateway.exchange.upstream import with_fields
from app.gateway.loading.requested_model import ResolvedModel, ResolvedModelCache
from app.gateway.watching.journal import HIDDEN, JsonLines, is_ours_to_mend, open_journal
from app.gateway.watching.metrics import GatewayMetrics, count_values


def test_histograms_are_cumulative_and_labels_escaped() -> None:
    metrics = GatewayMetrics()
    series = metrics.ttft.series_of(("chat", 'a"b\\c\n'))
    count_values((series, seconds) for seconds in (0.001, None, 0.04, 500.0))
    lines = metrics.format_exposition([]).splitlines()
    labels = 'route="chat",model="a\\"b\\\\c\\n"'
    assert f'roundhouse_ttft_seconds_bucket{{{labels},le="0.01"}} 1' in lines
    assert f'roundhouse_ttft_seconds_bucket{{{labels},le="0.05"}} 2' in lines
    assert f'roundhouse_ttft_seconds_bucket{{{labels},le="120.0"}} 2' in lines
    assert f'roundhouse_ttft_seconds_bucket{{{labels},le="+Inf"}} 3' in lines
    assert f"roundhouse_ttft_seconds_count{{{labels}}} 3" in lines
    assert f"roundhouse_ttft_seconds_sum{{{labels}}} 500.041" in lines


def test_engines_are_up_when_ready() -> None:
    statuses = [
        EngineStatus(model=state, engine="llama.cpp", state=state, restarts=2)
        for state in (EngineState.READY, EngineState.FAILED)
    ]
    lines = GatewayMetrics().format_exposition(statuses).splitlines()
    assert 'roundhouse_engine_up{model="ready",engine="llama.cpp"} 1' in lines
    assert 'roundhouse_engine_up{model="failed",engine="llama.cpp"} 0' in lines
    assert 'roundhouse_engine_restarts_total{model="ready",engine="llama.cpp"} 2' in lines


def watch(*sinks: ExchangeSink) -> Observation:
    """Return an exchange that nobody has answered yet."""
    return Observation(Caller(), Observers(sinks))


def test_tokens_are_what_the_engine_says_last() -> None:
    exchange = watch()
    exchange.note_piece(b'data: {"usage":{"prompt_tokens":5,"completion_tokens":1}}\n\n')
    exchange.note_piece(b'data: {"usage":{"prompt_tokens":5, "completion_')
    exchange.note_piece(b'tokens": 12}}\n\ndata: [DONE]\n\n')
    assert (exchange.tokens.prompt, exchange.tokens.completion) == (5, 12)


def test_without_usage_events_stand_in_for_tokens_and_comments_do_not() -> None:
    exchange = watch()
    exchange.note_piece(b": waiting\n\n")
    assert exchange.first_at is None
    for _ in range(13):
        exchange.note_piece(b"data: {}\n\n")
        exchange.note_piece(b": waiting\n\n")
    assert exchange.tokens.completion is None
    assert exchange.first_at is not None
    assert exchange.tpot_s == pytest.approx((exchange.last_at - exchange.first_at) / 9)
    assert watch().tpot_s is None


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (EngineFailed("It died."), "engine_failed"),
        (BadRequest("No."), "refused"),
        (ConnectionResetError(), "client_gone"),
        (asyncio.CancelledError(), "client_gone"),
        (ZeroDivisionError(), "bug"),
    ],
)
async def test_an_exchange_that_breaks_off_is_counted_under_its_cause(error: BaseException, outcome: str) -> None:
    metrics = GatewayMetrics()
    exchange = watch(metrics)
    exchange.note_model("chat", "m")
    with pytest.raises(type(error)), exchange:
        raise error
    exchange.end()
    await asyncio.sleep(0)
    lines = metrics.format_exposition([]).splitlines()
    assert f'roundhouse_requests_total{{route="chat",model="m",outcome="{outcome}"}} 1' in lines
    assert 'roundhouse_requests_in_flight{route="chat",model="m"} 0' in lines


async def test_a_sink_that_fails_harms_neither_the_exchange_nor_other_sinks(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(ExchangeSink):
        def on_request(self, exchange: Observation) -> None:
            raise ZeroDivisionError(exchange.model)

        def on_end(self, exchange: Observation) -> None:
            raise ZeroDivisionError(exchange.model)

    metrics = GatewayMetrics()
    exchange = watch(Broken(), metrics)
    with exchange:
        exchange.note_model("chat", "m")
    exchange.end()
    await asyncio.sleep(0)
    assert "roundhouse_requests_total" in metrics.format_exposition([])
    assert [record.message for record in caplog.records] == ["An exchange could not be noted"] * 2
    caplog.clear()


def test_aiohttps_reports_about_clients_are_left_out_and_about_us_are_not() -> None:
    def is_reported(error: Exception) -> bool:
        return is_ours_to_mend(logging.makeLogRecord({"exc_info": (type(error), error, None)}))

    assert not is_reported(BadHttpMessage("no HTTP"))
    assert not is_reported(ConnectionResetError())
    assert is_reported(ZeroDivisionError())
    assert is_ours_to_mend(logging.makeLogRecord({}))


def test_what_was_found_counts_for_a_moment_only() -> None:
    resolved_model = cast("ResolvedModel", object())
    remembering_cache, forgetful = ResolvedModelCache(kept_s=60.0), ResolvedModelCache(kept_s=0.0)
    for recent in (remembering_cache, forgetful):
        assert recent.get("a") is None
        recent.put("a", resolved_model)
    assert remembering_cache.get("a") is resolved_model
    assert forgetful.get("a") is None
    assert forgetful.get("a", lambda known_model: known_model is resolved_model) is resolved_model
    for number in range(100):
        remembering_cache.put(number, resolved_model)
    assert remembering_cache.get("a") is None


def test_a_model_name_is_replaced_even_if_its_key_is_written_oddly() -> None:
    assert (
        with_fields(b'{"\\u006dodel":"a","b":[1.0,{"model":"a"}]}', {"model": 'q"'})
        == b'{"model":"q\\"","b":[1.0,{"model":"a"}]}'
    )


def _log_record(**extra: object) -> dict[str, object]:
    record = logging.makeLogRecord({"name": "app.x", "levelname": "INFO", "msg": "Said %s", "args": ("so",), **extra})
    return msgspec.json.decode(JsonLines().format(record), type=dict[str, object])


def test_a_record_is_one_line_of_json_without_secrets() -> None:
    log_line = _log_record(
        model="guide",
        api_key="sk-1",
        headers={"Authorization": "Bearer sk-1", "Accept": "*"},
        tries=[{"hf_token": "hf_1"}],
        tokens_per_s=3,
        path=Path("a"),
    )
    assert (log_line["message"], log_line["from"], log_line["level"]) == ("Said so", "app.x", "info")
    assert (log_line["model"], log_line["tokens_per_s"], log_line["path"]) == ("guide", 3, "a")
    assert log_line["api_key"] == HIDDEN
    assert log_line["headers"] == {"Authorization": HIDDEN, "Accept": "*"}
    assert log_line["tries"] == [{"hf_token": HIDDEN}]


def test_the_journal_writes_lines_and_says_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before = list(root.handlers)
    root.handlers = []
    try:
        journal = open_journal(tmp_path / "gateway.jsonl")
        logging.getLogger("app.x").warning("Mind the gap", extra={"token": "t"})
        journal.close()
    finally:
        root.handlers = before
    (line,) = (tmp_path / "gateway.jsonl").read_text(encoding="utf-8").splitlines()
    assert msgspec.json.decode(line, type=dict[str, str])["token"] == HIDDEN
    assert capsys.readouterr().err == "WARNING: Mind the gap\n"
