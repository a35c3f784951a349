"""`/api/v0`: the engine's bytes, recorded from llama-server, with LM Studio's three blocks at their end."""

import itertools
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import EngineFailed
from app.gateway.dialects.lmstudio.answers import (
    LmStudioAnswerInfo,
    LmStudioModelInfo,
    LmStudioRuntime,
    LmStudioV0Form,
    decode_figures,
)

ABOUT = LmStudioAnswerInfo(
    LmStudioModelInfo(arch="granite", quant="Q4_K_M", format="gguf", context_length=4096),
    LmStudioRuntime(name="llama.cpp-linux-x86_64-cpu", version="1.0", supported_formats=["gguf"]),
)
TIMINGS = '"timings":{"cache_n":0,"prompt_n":24,"prompt_ms":111.0,"predicted_n":50,"predicted_ms":1000.0}'
WHOLE = (
    b'{"choices":[{"finish_reason":"stop","index":0,"message":{"role":"assistant","content":"Hi"}}],'
    b'"created":1731990317,"model":"granite","object":"chat.completion",'
    b'"usage":{"completion_tokens":50,"prompt_tokens":24,"total_tokens":74},"id":"chatcmpl-1",'
    + TIMINGS.encode()
    + b"}"
)
BLOCKS = {
    "stats": {
        "tokens_per_second": 50.0,
        "time_to_first_token": 0.111,
        "generation_time": 1.0,
        "stop_reason": "eosFound",
    },
    "model_info": {"arch": "granite", "quant": "Q4_K_M", "format": "gguf", "context_length": 4096},
    "runtime": {"name": "llama.cpp-linux-x86_64-cpu", "version": "1.0", "supported_formats": ["gguf"]},
}


def chunk(delta: str, finish: str = "null", more: str = "") -> bytes:
    choices = f'[{{"finish_reason":{finish},"index":0,"delta":{delta}}}]' if delta else "[]"
    return f'data: {{"choices":{choices},"id":"1","object":"chat.completion.chunk"{more}}}\n\n'.encode()


USAGE = ',"usage":{"completion_tokens":50,"prompt_tokens":24,"total_tokens":74}'
DONE = b"data: [DONE]\n\n"
TEXTS = [
    chunk('{"role":"assistant","content":null}'),
    chunk(json.dumps({"content": 'Say "finish_reason":"stop" to me'}, separators=(",", ":"))),
    chunk('{"content":" é\\n"}'),
]
PLAIN = [*TEXTS, chunk("{}", '"stop"', "," + TIMINGS), DONE]
WITH_USAGE = [*TEXTS, chunk("{}", '"stop"'), chunk("", more=USAGE + "," + TIMINGS), DONE]


def form(now: float = 10.0) -> LmStudioV0Form:
    return LmStudioV0Form(lambda: ABOUT, started_at=8.0, clock=lambda: now)


def edit_chunks(chunks: Sequence[bytes]) -> bytes:
    edit = form().editor()
    return b"".join(map(edit, chunks))


def last_before_done(stream: bytes) -> dict[str, Any]:
    *_, last, done_line, rest = stream.split(b"\n\n")
    assert (done_line, rest) == (b"data: [DONE]", b"")
    body: dict[str, Any] = json.loads(last.removeprefix(b"data: "))
    return body


def test_a_whole_answer_keeps_its_bytes_and_gains_the_blocks() -> None:
    answer = form().whole(WHOLE)
    assert answer.startswith(WHOLE[:-1])
    assert json.loads(answer) == {**json.loads(WHOLE), **BLOCKS}


@pytest.mark.parametrize("chunks", [PLAIN, WITH_USAGE])
def test_a_stream_says_at_its_end_what_the_whole_answer_says(chunks: list[bytes]) -> None:
    stream = edit_chunks(chunks)
    last = last_before_done(stream)
    assert {name: last[name] for name in BLOCKS} == BLOCKS
    assert stream.startswith(b"".join(TEXTS))
    assert stream.count(b'"stats"') == 1


@given(
    st.lists(st.integers(0, 2000), max_size=8), st.sampled_from([PLAIN, WITH_USAGE]), st.sampled_from([b"\n", b"\r\n"])
)
def test_where_the_network_cuts_a_stream_changes_nothing(cuts: list[int], chunks: list[bytes], line_end: bytes) -> None:
    stream = b"".join(chunks).replace(b"\n", line_end)
    at = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    whole = edit_chunks([stream])
    assert edit_chunks([stream[begin:end] for begin, end in itertools.pairwise(at)]) == whole
    assert b'"stats"' in whole


def test_texts_go_on_at_once_and_only_the_end_waits_for_the_end() -> None:
    edit = form().editor()
    assert [edit(text) for text in TEXTS] == TEXTS
    assert edit(WITH_USAGE[3]) == b""
    assert edit(WITH_USAGE[4]) == WITH_USAGE[3]
    assert edit(DONE).endswith(DONE)


def test_an_error_of_the_engine_and_comments_pass_unchanged() -> None:
    error = b'data: {"error":{"code":500,"message":"no"}}\n\n'
    assert edit_chunks([*TEXTS, b": ping\n\n", error]) == b"".join([*TEXTS, b": ping\n\n", error])


@pytest.mark.parametrize(
    ("finish", "usage", "reason"),
    [
        ("stop", (24, 5), "eosFound"),
        ("length", (24, 5), "maxPredictedTokensReached"),
        ("length", (4000, 96), "contextLengthReached"),
        ("tool_calls", (24, 5), "toolCalls"),
    ],
)
def test_why_it_ended_is_said_in_lm_studios_words(finish: str, usage: tuple[int, int], reason: str) -> None:
    prompt, completion = usage
    document = {
        "choices": [{"finish_reason": finish}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": completion},
    }
    assert json.loads(form().whole(json.dumps(document).encode()))["stats"]["stop_reason"] == reason


def test_an_engine_without_a_clock_is_timed_here() -> None:
    stats = json.loads(form().whole(b'{"usage":{"completion_tokens":50}}'))["stats"]
    assert stats == {"tokens_per_second": 25.0, "generation_time": 2.0}


@pytest.mark.parametrize("body", [b"", b"[]", b"nonsense", b'{"choices": 1}'])
def test_what_is_no_answer_stays_as_it_is(body: bytes) -> None:
    assert form().whole(body) == body


def test_an_empty_object_stays_json() -> None:
    assert set(json.loads(form().whole(b"{}"))) == set(BLOCKS)


def test_errors_have_openais_shape() -> None:
    refusal = form().refusal(b'{"error":{"code":400,"message":"no","type":"invalid_request_error"}}', 400)
    assert refusal.status == 400
    assert set(json.loads(refusal.body)["error"]) >= {"message", "type", "param", "code"}
    event = form().in_band(EngineFailed("It died."))
    assert form().is_complete(event)
    assert decode_figures(msgspec.json.encode({"choices": []})) is not None
