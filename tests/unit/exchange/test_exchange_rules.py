"""Rules of an exchange that need no engine: times and counts, what a body may hold, what a preset adds."""

import asyncio
import contextlib
import json
from typing import Any

import pytest

from app.core.errors import BadRequest, EngineFailed, RoundhouseError
from app.gateway.canonical.request import SamplingParams
from app.gateway.dialects.keep_alive import ModelLoadFields
from app.gateway.exchange.constraints import refuse_constraints, refuse_remote_media
from app.gateway.exchange.engine.request import _sampling_fields
from app.gateway.exchange.engine.stream import _PromptProgress
from app.gateway.exchange.handling import lease_options
from app.gateway.exchange.infilling import InfillContext, _surely_fits
from app.gateway.exchange.observer import (
    Caller,
    ExchangeOutcome,
    Observation,
    Observers,
    RequestStopped,
    figures_of,
    figures_so_far,
)
from app.supervisor.policy import LeaseOptions
from engines.api import Route


def exchange(
    *,
    leased_at: float | None = 2.0,
    first: float | None = 5.0,
    last: float = 9.0,
    load_s: float = 0.0,
    tail: bytes = b"",
) -> Observation:
    """Return one that began at 0 and has ended at 10, with what its engine sent last."""
    observation = Observation(Caller(), Observers([]))
    observation.started_at, observation.leased_at, observation.load_s = 0.0, leased_at, load_s
    observation.first_at, observation.last_at, observation.ended_at = first, last, 10.0
    observation._tail.append(tail)
    observation._events = 1
    return observation


USAGE = b'data: {"usage": {"prompt_tokens": 7, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 3}}}'


def test_the_times_of_an_exchange_add_up() -> None:
    figures = figures_of(exchange(load_s=1.5, tail=USAGE))
    assert (figures.queue_s, figures.load_s, figures.prefill_s, figures.decode_s) == (0.5, 1.5, 3.0, 4.0)
    assert (figures.total_s, figures.ttft_s) == (10.0, 5.0)
    assert (figures.prompt_tokens, figures.cached_tokens, figures.completion_tokens) == (7, 3, 5)
    assert figures.tokens_per_s == pytest.approx(1.0), "four intervals in four seconds"


def test_a_load_that_took_longer_than_a_request_waited_is_all_of_its_waiting() -> None:
    figures = figures_of(exchange(load_s=100.0))
    assert (figures.load_s, figures.queue_s) == (2.0, 0.0)


def test_one_that_never_had_an_engine_only_waited() -> None:
    figures = figures_of(exchange(leased_at=None, first=None))
    assert (figures.queue_s, figures.load_s, figures.prefill_s, figures.decode_s) == (10.0, 0.0, None, None)
    waiting_figures = figures_so_far(exchange(leased_at=None, first=None), 8.0, loading_since=5.0)
    assert (waiting_figures.queue_s, waiting_figures.load_s, waiting_figures.total_s) == (5.0, 3.0, 8.0)


def test_a_whole_answer_is_split_by_the_engines_own_clock() -> None:
    timed_figures = exchange(
        first=None, tail=b'{"timings": {"predicted_n": 6, "predicted_ms": 3000, "prompt_n": 4, "cache_n": 2}}'
    )
    figures = figures_of(timed_figures)
    assert (figures.prefill_s, figures.decode_s) == (5.0, 3.0)
    assert figures.tokens_per_s == pytest.approx(2.0)
    assert (figures.prompt_tokens, figures.completion_tokens) == (6, 6)
    longer = figures_of(exchange(first=None, tail=b'{"timings": {"predicted_n": 6, "predicted_ms": 90000}}'))
    assert (longer.prefill_s, longer.decode_s) == (0.0, 8.0), "never longer than the work"
    untimed_figures = figures_of(exchange(first=None))
    assert (untimed_figures.prefill_s, untimed_figures.decode_s, untimed_figures.tokens_per_s) == (None, 8.0, None)


@pytest.mark.parametrize(
    ("tail", "first", "tpot_s"),
    [(USAGE, 5.0, 1.0), (USAGE, None, None), (USAGE, 9.0, None), (b'{"completion_tokens": 1}', 5.0, None)],
)
def test_the_time_per_token_takes_two_tokens_and_two_moments(
    tail: bytes, first: float | None, tpot_s: float | None
) -> None:
    assert exchange(tail=tail, first=first).tpot_s == tpot_s


def test_events_stand_in_for_tokens_where_the_engine_counts_none() -> None:
    observation = exchange()
    observation._events = 7
    assert observation.tpot_s == pytest.approx(4.0 / 3), "three of the events carry no token"


@pytest.mark.parametrize(
    ("tail", "prompt", "cached_tokens", "completion"),
    [
        (b"nothing", None, None, None),
        (USAGE, 7, 3, 5),
        (b'{"input_tokens": 4, "cache_read_input_tokens": 3, "output_tokens": 2}', 7, 3, 2),
        (b'{"input_tokens": 4, "output_tokens": 1} {"output_tokens": 2}', 4, None, 2),
        (b'{"cache_read_input_tokens": 3}', 3, 3, None),
        (b'{"timings": {"cache_n": 3}}', None, 3, None),
    ],
)
def test_tokens_are_read_in_every_dialects_words_and_the_last_count(
    tail: bytes, prompt: int | None, cached_tokens: int | None, completion: int | None
) -> None:
    tokens = exchange(tail=tail).tokens
    assert (tokens.prompt, tokens.cached, tokens.completion) == (prompt, cached_tokens, completion)


def test_counts_are_kept_once_nothing_more_will_come() -> None:
    observation = exchange(tail=USAGE)
    observation.ended_at = None
    assert observation.tokens.prompt == 7
    observation._tail.append(b'{"prompt_tokens": 8}')
    assert observation.tokens.prompt == 8
    observation.outcome = ExchangeOutcome.OK
    assert observation.tokens.prompt == 8
    observation._tail.append(b'{"prompt_tokens": 9}')
    assert observation.tokens.prompt == 8


@pytest.mark.parametrize(
    ("total", "cache", "processed_tokens", "fraction"),
    [
        (10, 0, 5, 0.5),
        (10, 6, 8, 0.5),
        (10, 6, 6, 0.0),
        (10, 6, 4, 0.0),
        (10, 6, 12, 1.0),
        (10, 10, 10, None),
        (0, 0, 0, None),
    ],
)
def test_progress_is_of_what_had_to_be_read(
    total: int, cache: int, processed_tokens: int, fraction: float | None
) -> None:
    assert _PromptProgress(total=total, cache=cache, processed=processed_tokens).fraction == fraction


def nest_lists(depth: int) -> bytes:
    """Return a chat whose picture lies so deep in lists of contents."""
    inner: Any = {"type": "image_url", "image_url": {"url": "data:,x"}}
    for _ in range(depth):
        inner = {"content": [inner]}
    return json.dumps({"messages": [inner]}).encode()


def test_parts_may_lie_in_parts_but_not_without_end() -> None:
    refuse_remote_media(nest_lists(5))
    with pytest.raises(BadRequest, match="nested too deeply"):
        refuse_remote_media(nest_lists(12))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {}, "minItems": 3, "maxItems": 2},
        {"type": "string", "minLength": 3, "maxLength": 2},
        {"type": "array", "items": {}, "maxItems": 10**9},
        {"type": "string", "pattern": "(("},
    ],
)
def test_each_kind_of_impossible_constraint_is_noticed_alone(schema: dict[str, object]) -> None:
    response_format = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    with pytest.raises(BadRequest):
        refuse_constraints(json.dumps({"messages": [], "response_format": response_format}).encode())


def test_a_penalty_goes_by_both_names_and_what_is_not_wished_is_not_sent() -> None:
    assert _sampling_fields(SamplingParams()) == {}
    fields = _sampling_fields(SamplingParams(repeat_penalty=1.1, temperature=0.0))
    assert fields == {"repeat_penalty": 1.1, "repetition_penalty": 1.1, "temperature": 0.0}


def test_what_an_engine_answers_beside_its_work_takes_no_slot() -> None:
    assert lease_options(ModelLoadFields(), Route.CHAT) == LeaseOptions()
    assert lease_options(ModelLoadFields(), Route.TOKENIZE) == LeaseOptions(takes_slot=False)


@pytest.mark.parametrize(
    ("prefix", "suffix", "prompt", "fits"),
    [
        (299, 96, 0, True),
        (300, 96, 0, False),
        (299, 97, 0, False),
        (0, 0, 96, True),
        (0, 0, 97, False),
        (0, 48, 48, True),
    ],
)
def test_a_gap_fits_for_sure_while_every_byte_might_be_a_token(
    prefix: int, suffix: int, prompt: int, *, fits: bool
) -> None:
    around = InfillContext(input_prefix="x" * prefix, input_suffix="y" * suffix, prompt="z" * prompt)
    assert _surely_fits(around, 400) == fits


@pytest.mark.parametrize(
    ("address", "passes"),
    [
        ("data:image/png;base64,AAAA", True),
        ("A" * 64, True),
        ("AAA=", True),
        ("", True),
        ("/9j/" + "A" * 64, True),
        ("/etc/" + "A" * 64, False),
        ("picture", False),
        ("file.png", False),
        ("https://example.com/a.png", False),
        ("file:///etc/passwd", False),
    ],
)
def test_a_picture_comes_along_or_not_at_all(address: str, *, passes: bool) -> None:
    part = {"type": "image_url", "image_url": {"url": address}}
    body = json.dumps({"messages": [{"role": "user", "content": [part]}]}).encode()
    if passes:
        refuse_remote_media(body)
    else:
        with pytest.raises(BadRequest):
            refuse_remote_media(body)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, ExchangeOutcome.CLIENT_GONE),
        (ConnectionResetError("gone"), ExchangeOutcome.CLIENT_GONE),
        (BadRequest("No."), ExchangeOutcome.REFUSED),
        (EngineFailed("It crashed.", code="crashed"), ExchangeOutcome.ENGINE_FAILED),
        (ValueError("a slip"), ExchangeOutcome.BUG),
    ],
)
def test_what_a_request_raises_decides_what_became_of_it(error: Exception | None, outcome: ExchangeOutcome) -> None:
    observation = Observation(Caller(), Observers([]))
    with contextlib.suppress(Exception), observation:
        if error is not None:
            raise error
    assert observation.outcome is outcome
    assert (observation.error == str(error)) == isinstance(error, RoundhouseError)


async def test_a_request_that_is_stopped_by_hand_breaks_off_its_engine_or_ends_its_task() -> None:
    broken_engines: list[str] = []

    class Connection:
        def break_off(self, error: EngineFailed | None = None) -> None:
            broken_engines.append("connection" if error is None else error.code)

    observation = Observation(Caller(), Observers([]))
    observation.note_connection(Connection())
    observation.stop()
    observation.stop()
    assert broken_engines == ["connection"], "once"
    over = Observation(Caller(), Observers([]))
    over.note_connection(Connection())
    over.ended_at = 1.0
    over.stop()
    assert (over.is_stopped, broken_engines) == (False, ["connection"])
    over.break_off(EngineFailed("It is gone.", code="engine_broke_off"))
    assert (over.is_stopped, broken_engines) == (False, ["connection", "engine_broke_off"])

    wait_event = asyncio.Event()

    async def work() -> None:
        with Observation(Caller(), Observers([]), asyncio.current_task()) as own:
            running_requests.append(own)
            wait_event.set()
            await asyncio.Event().wait()

    running_requests: list[Observation] = []
    task = asyncio.create_task(work())
    await wait_event.wait()
    running_requests[0].stop()
    with pytest.raises(RequestStopped):
        await task
