"""mistral.rs' worker without the library: what it asks, what chunks say, and the template in a GGUF file."""

import struct
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.config.paths import RESOURCES
from engines.mistral_rs.gguf_template import read_gguf_template
from engines.mistral_rs.requests import (
    ChunkReader,
    NewsBox,
    ReaderNews,
    RunningAnswer,
    read_error,
    request_arguments,
)
from engines.mistral_rs.worker import MistralRsBackend
from engines.serving.backend import BackendFinish, BackendSampling, StepOutcome, Token, WorkItem
from tests.patience import PATIENCE_S

GUIDE = RESOURCES / "guide" / "guide-q8_0.gguf"


def work(number: int = 1, **changes: Any) -> WorkItem:  # noqa: ANN401 -- any field
    return WorkItem(**{"id": number, "prompt": [1], "max_tokens": 9, "sampling": BackendSampling(), **changes})


def chunk(
    text: str | None, finish: str | None = None, written_tokens: int | None = None, cached_tokens: int | None = None
) -> Any:  # noqa: ANN401 -- as the library's
    details = None if cached_tokens is None else SimpleNamespace(cached_tokens=cached_tokens)
    usage = (
        None
        if written_tokens is None
        else SimpleNamespace(completion_tokens=written_tokens, prompt_tokens_details=details)
    )
    choice = SimpleNamespace(finish_reason=finish, delta=SimpleNamespace(content=text), logprobs=None)
    return SimpleNamespace(choices=[choice], usage=usage)


def test_tokens_without_a_chunk_are_counted_at_the_end() -> None:
    answer = RunningAnswer(work())
    assert answer.read_chunk(chunk("a")).tokens == [Token(0, text="a")]
    last = answer.read_chunk(chunk("b", "length", 5, cached_tokens=3))
    assert (len(last.tokens), last.tokens[-1].text, last.finish, last.cached) == (4, "b", BackendFinish.LENGTH, 3)


def test_the_end_token_is_no_token_of_the_answer() -> None:
    answer = RunningAnswer(work())
    answer.read_chunk(chunk("a"))
    assert answer.read_chunk(chunk("", "stop", 2)) == StepOutcome(1, [], BackendFinish.STOP, cached=0)


def test_what_is_not_asked_for_is_left_to_the_library() -> None:
    arguments = request_arguments(work(), "Hello")
    assert set(arguments) == {"messages", "model", "stream", "max_tokens", "ignore_eos"}
    sampling = BackendSampling(temperature=0.5, top_p=0, top_k=-1, seed=4, logit_bias={3: -1.0})
    arguments = request_arguments(work(sampling=sampling, logprobs=0, schema="{}"), "Hello")
    assert (arguments["temperature"], arguments["top_k"], "top_p" in arguments) == (0.5, 1, False)
    assert (arguments["logit_bias"], arguments["top_logprobs"]) == ({3: -1.0}, 1)
    assert (arguments["grammar"], arguments["grammar_type"]) == ("{}", "json_schema")
    assert "seed" not in arguments


def test_only_a_schema_that_cannot_be_followed_is_the_client_s_mistake() -> None:
    assert read_error(work(schema="{}"), "Invalid grammar. Invalid type: nonsense").status == 400
    assert read_error(work(schema="{}"), "input tensor is not contiguous").status == 500
    assert read_error(work(), "Invalid grammar.").status == 500


class PlayedRunner:
    """Streams that say nothing until they are told to; what was asked, in order."""

    def __init__(self) -> None:
        self.requests: list[Any] = []

    def send_chat_completion_request(self, request: Any) -> Any:  # noqa: ANN401 -- as the library's
        self.requests.append(request)
        return iter([chunk("a"), chunk("", "stop", 2)])

    def detokenize_text(self, tokens: list[int], _skips: bool) -> str:  # noqa: FBT001 -- as the library's
        return " ".join(map(str, tokens))


@pytest.fixture
def backend() -> MistralRsBackend:
    library_backend = MistralRsBackend()
    library_backend._runner = PlayedRunner()
    library_backend._library = SimpleNamespace(ChatCompletionRequest=lambda **fields: fields)
    return library_backend


def outcomes_of(backend: MistralRsBackend, until: int) -> list[StepOutcome]:
    outcomes: list[StepOutcome] = []
    while sum(outcome.finish is not None for outcome in outcomes) < until:
        outcomes += backend.step()
    return outcomes


def test_prompts_of_a_folder_are_given_to_it_together(backend: MistralRsBackend) -> None:
    backend._reads_together = True
    for number in (1, 2, 3):
        backend.start(work(number))
    assert len(backend._runner.requests) == 3
    assert {outcome.work for outcome in outcomes_of(backend, 3)} == {1, 2, 3}


def test_prompts_of_a_file_are_read_one_after_the_other(backend: MistralRsBackend) -> None:
    for number in (1, 2, 3):
        backend.start(work(number))
    assert len(backend._runner.requests) == 1
    assert {outcome.work for outcome in outcomes_of(backend, 3)} == {1, 2, 3}
    assert len(backend._runner.requests) == 3


def test_a_prompt_that_waits_is_never_read_once_it_is_let_go(backend: MistralRsBackend) -> None:
    backend.start(work(1))
    backend.start(work(2))
    backend.cancel(2)
    assert {outcome.work for outcome in outcomes_of(backend, 1)} == {1}
    assert len(backend._runner.requests) == 1


def test_an_answer_that_is_let_go_before_the_first_step_is_read_to_its_end(backend: MistralRsBackend) -> None:
    """Its reader lets go of the library's stream, and nobody steps any more."""
    backend.start(work(1))
    backend.cancel(1)
    assert backend._news.take_all(PATIENCE_S)
    assert not backend._resting_readers


def test_what_comes_after_the_first_words_waits_for_the_end() -> None:
    news = NewsBox()
    reader = ChunkReader(1, iter([chunk("a"), chunk("b"), chunk("c", "length", 3)]), news)
    reader._read()
    assert [each.chunk is None for each in news.take_all(0)] == [False, False, False, True]
    news.put(ReaderNews(1, chunk("d")), is_due=False)
    began = time.monotonic()
    assert [each.chunk.choices[0].delta.content for each in news.take_all(0.05)] == ["d"]
    assert time.monotonic() - began >= 0.05


def test_a_leading_token_is_not_doubled(backend: MistralRsBackend) -> None:
    backend._lead_text = "7 "
    backend.start(work(prompt=[7, 8]))
    assert backend._runner.requests[0]["messages"] == "8"


def test_the_guide_s_template_is_read_from_its_file() -> None:
    template, specials = read_gguf_template(GUIDE)
    assert template is not None
    assert "<|im_start|>" in template
    assert specials["eos_token"] == "<|im_end|>"


@pytest.mark.parametrize("at", [0, 3, 4, 20, 24, 40, 1000, 5000])
def test_a_header_that_is_cut_is_refused_or_has_no_template(tmp_path: Path, at: int) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(GUIDE.read_bytes()[:at])
    with pytest.raises(RuntimeError, match="GGUF"):
        read_gguf_template(cut)


def test_a_length_without_end_costs_nothing(tmp_path: Path) -> None:
    hostile = tmp_path / "hostile.gguf"
    hostile.write_bytes(b"GGUF" + struct.pack("<IQQQ", 3, 0, 2**60, 2**62) + b"name")
    with pytest.raises(RuntimeError, match="shorter"):
        read_gguf_template(hostile)
