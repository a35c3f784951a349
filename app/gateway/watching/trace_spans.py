"""From a request that has ended to its spans, in OpenTelemetry's words for HTTP and for generative models.

https://github.com/open-telemetry/semantic-conventions-genai (in development): a server's span for the client's request,
and below it a client's span for the call to the engine with all its repetitions. No prompt, no answer, and no sentence
of an engine, which may quote one, unless contents are wanted; then each is cut.
"""

import time
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from app.gateway.exchange.observer import ExchangeOutcome, Observation, figures_of
from app.gateway.exchange.trace_context import AttributeValue, RequestTrace
from app.gateway.watching.trace_encoding import CLIENT, INTERNAL, SERVER, Span, SpanEvent
from engines.api import Route

CONTENT_BYTES = 8 * 1024
"""Of a request and of its answer, where contents are wanted."""
_LARGEST_BODY = 64 * 1024
"""A longer request is not looked through for its parameters."""
_LONGEST_NAME = 200
_NS = 1_000_000_000
_OPERATIONS: Mapping[str, str] = {
    Route.CHAT: "chat",
    Route.RESPONSES: "chat",
    Route.MESSAGES: "chat",
    Route.COMPLETIONS: "text_completion",
    Route.RAW: "text_completion",
    Route.INFILL: "text_completion",
    Route.EMBEDDINGS: "embeddings",
}
"""The conventions' names; what they have none for has ours."""
_FINE = frozenset({ExchangeOutcome.OK, ExchangeOutcome.CLIENT_GONE, ExchangeOutcome.STOPPED})
_FAULTS = frozenset({ExchangeOutcome.ENGINE_FAILED, ExchangeOutcome.BUG})
_SERVER_ERROR = 500

Attributes = dict[str, AttributeValue]


class _Parameters(msgspec.Struct):
    """What a request may say, in whatever dialect the engine was asked; what is of another kind is not looked at."""

    model: object = None
    max_tokens: object = None
    max_completion_tokens: object = None
    temperature: object = None
    top_p: object = None
    top_k: object = None
    frequency_penalty: object = None
    presence_penalty: object = None
    seed: object = None
    n: object = None
    stop: object = None
    stream: object = None


def spans_of(exchange: Observation, *, has_contents: bool = False) -> list[Span]:
    """Return the spans of an exchange that has ended: none if it is no part of a trace that is recorded."""
    trace = exchange.trace
    if trace is None or not trace.is_sampled:
        return []
    server = [] if trace.is_further_call else [_make_server_span(exchange, trace, has_contents=has_contents)]
    return server if trace.called_at is None else [*server, _make_call_span(exchange, trace, has_contents=has_contents)]


def _make_server_span(exchange: Observation, trace: RequestTrace, *, has_contents: bool) -> Span:
    caller, status = exchange.caller, exchange.status
    agent = f"{caller.client}/{caller.client_version}" if caller.client_version else caller.client
    attributes: Attributes = {
        "http.request.method": "POST",
        "url.scheme": "http",
        "url.path": caller.path[:_LONGEST_NAME],
        "user_agent.original": agent,
        "roundhouse.request.id": caller.id,
        "roundhouse.dialect": caller.dialect,
        "roundhouse.outcome": str(exchange.outcome),
    }
    if status is not None:
        attributes["http.response.status_code"] = status
    if exchange.key_name:
        attributes["roundhouse.key"] = exchange.key_name
    # A client's own mistake is none of the server's: HTTP's conventions leave the status of such a span unset.
    is_error = (status or 0) >= _SERVER_ERROR or exchange.outcome in _FAULTS
    name = f"POST {caller.path[:_LONGEST_NAME]}"
    return _make_span(
        exchange,
        trace,
        (name, SERVER, trace.span_id, trace.parent_id),
        attributes | _error_attributes(exchange, is_error=is_error),
        (exchange.started_at, exchange.ended_at or exchange.last_at),
        is_error=is_error,
        error=exchange.error if has_contents and is_error else "",
    )


def _make_call_span(exchange: Observation, trace: RequestTrace, *, has_contents: bool) -> Span:
    operation = _OPERATIONS.get(exchange.route, exchange.route)
    parameters = _read_parameters(trace.request_body)
    model = parameters.model if isinstance(parameters.model, str) else exchange.model
    requested_model = model[:_LONGEST_NAME]
    is_error = exchange.outcome not in _FINE
    attributes: Attributes = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": exchange.engine or "unknown",
        "gen_ai.request.model": requested_model,
        "gen_ai.response.model": exchange.model,
        **_parameter_attributes(parameters),
        **_answer_attributes(exchange, trace),
        **_target_attributes(trace.target_url),
        **_error_attributes(exchange, is_error=is_error),
        **(_content_attributes(exchange) if has_contents else {}),
    }
    end = exchange.ended_at or exchange.last_at
    if exchange.first_at is not None and exchange.outcome is ExchangeOutcome.OK:
        end = exchange.last_at
    return _make_span(
        exchange,
        trace,
        (f"{operation} {requested_model}", CLIENT, trace.call_id, trace.span_id),
        attributes,
        (trace.called_at or exchange.started_at, end),
        is_error=is_error,
        error=exchange.error if has_contents and is_error else "",
    )


def _make_span(  # noqa: PLR0913 -- what a span consists of
    exchange: Observation,
    trace: RequestTrace,
    identity: tuple[str, int, str, str],
    attributes: Attributes,
    times: tuple[float, float],
    *,
    is_error: bool,
    error: str,
) -> Span:
    """Return a span. `identity` is its name, kind, own and parent's identifier."""
    name, kind, span_id, parent_id = identity
    is_call = kind == CLIENT
    return Span(
        trace_id=trace.trace_id,
        span_id=span_id,
        parent_id=parent_id,
        state=trace.state,
        name=name,
        kind=kind,
        start_ns=_unix_ns(exchange, times[0]),
        end_ns=_unix_ns(exchange, max(times)),
        attributes=attributes,
        events=_events_of(exchange, trace) if is_call or trace.called_at is None else (),
        is_error=is_error,
        error=error,
        has_remote_parent=not is_call and bool(parent_id),
    )


def _unix_ns(exchange: Observation, at: float) -> int:
    """Return a reading of `time.perf_counter()` as Unix time, by when the request came."""
    return int((exchange.at + at - exchange.started_at) * _NS)


def _events_of(exchange: Observation, trace: RequestTrace) -> tuple[SpanEvent, ...]:
    events = [SpanEvent(event.name, _unix_ns(exchange, event.at), event.attributes) for event in trace.events]
    if exchange.first_at is not None:
        events.append(SpanEvent("gen_ai.first_chunk", _unix_ns(exchange, exchange.first_at)))
    return tuple(events)


def _read_parameters(body: bytes) -> _Parameters:
    if not body or len(body) > _LARGEST_BODY:
        return _Parameters()
    try:
        return msgspec.json.decode(body, type=_Parameters)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Parameters()


def _parameter_attributes(parameters: _Parameters) -> Attributes:
    limit = parameters.max_completion_tokens if parameters.max_tokens is None else parameters.max_tokens
    stops = [parameters.stop] if isinstance(parameters.stop, str) else parameters.stop
    attributes: Attributes = {}
    for name, value in (("max_tokens", limit), ("top_k", parameters.top_k), ("seed", parameters.seed)):
        if isinstance(value, int) and not isinstance(value, bool):
            attributes[f"gen_ai.request.{name}"] = value
    for name in ("temperature", "top_p", "frequency_penalty", "presence_penalty"):
        value = getattr(parameters, name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            attributes[f"gen_ai.request.{name}"] = float(value)
    if isinstance(parameters.n, int) and parameters.n > 1:
        attributes["gen_ai.request.choice.count"] = parameters.n
    if parameters.stream is True:
        attributes["gen_ai.request.stream"] = True
    if isinstance(stops, list) and stops:
        attributes["roundhouse.request.stop_sequences"] = len(stops)  # their words may be the prompt's
    return attributes


def _answer_attributes(exchange: Observation, trace: RequestTrace) -> Attributes:
    figures = figures_of(exchange)
    values: Mapping[str, AttributeValue | None] = {
        "gen_ai.usage.input_tokens": figures.prompt_tokens,
        "gen_ai.usage.cache_read.input_tokens": figures.cached_tokens,
        "gen_ai.usage.output_tokens": figures.completion_tokens,
        "gen_ai.response.finish_reasons": trace.finish_reasons or None,
        "gen_ai.response.time_to_first_chunk": _first_chunk_s(exchange, trace),
        "roundhouse.queue_s": figures.queue_s,
        "roundhouse.load_s": figures.load_s,
        "roundhouse.tokens_per_s": figures.tokens_per_s,
    }
    return {name: value for name, value in values.items() if value is not None}


def _first_chunk_s(exchange: Observation, trace: RequestTrace) -> float | None:
    if exchange.first_at is None or trace.called_at is None:
        return None
    return exchange.first_at - trace.called_at


def _target_attributes(url: str) -> Attributes:
    where = urlsplit(url)
    if not where.hostname:
        return {}
    usual = 443 if where.scheme == "https" else 80
    return {"server.address": where.hostname, "server.port": where.port or usual}


def _error_attributes(exchange: Observation, *, is_error: bool) -> Attributes:
    if not is_error:
        return {}
    kind = exchange.code_in_stream or exchange.error_code or (str(exchange.status) if exchange.status else "")
    return {"error.type": kind or str(exchange.outcome)}


def _content_attributes(exchange: Observation) -> Attributes:
    """Return what was said, cut: the bodies as they are, in the dialects of the client and of the engine."""
    contents = {"request": exchange.kept_request, "response": exchange.kept_answer}
    return {
        f"roundhouse.{name}.body": content[:CONTENT_BYTES].decode("utf-8", "replace")
        for name, content in contents.items()
        if content
    }


def make_test_span() -> Span:
    """Return a span that says only that it could be sent."""
    trace, now_ns = RequestTrace(None), time.time_ns()
    return Span(
        trace_id=trace.trace_id,
        span_id=trace.span_id,
        parent_id="",
        state="",
        name="roundhouse traces test",
        kind=INTERNAL,
        start_ns=now_ns,
        end_ns=now_ns,
        attributes={},
    )
