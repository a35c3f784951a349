"""One request in mistral.rs: what the library is asked, and what its chunks say."""

import queue
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from engines.serving.backend import BackendFinish, BackendSampling, StepOutcome, Token, WorkItem
from engines.serving.refusals import RequestRefused, engine_failure, invalid_request

_FINISHES = {"length": BackendFinish.LENGTH}
"""All other reasons are an end that the model chose."""
_BAD_GRAMMAR = "Invalid grammar"


class TokenizedPrompt(list[int]):
    """A prompt's tokens, and its text: the library takes only that, and makes the same tokens of it."""

    def __init__(self, tokens: list[int], text: str) -> None:
        super().__init__(tokens)
        self.text = text


class ReaderNews(NamedTuple):
    """What a reader brings: a chunk, an error, or neither at its end."""

    work: int
    chunk: Any = None
    error: str = ""


class NewsBox:
    """What readers have brought and nobody has taken yet.

    Whoever waits for it is woken by what is due at once, and not by every chunk: each of those comes to a thread that
    must wait for the interpreter, which takes the processor from the library.
    """

    def __init__(self) -> None:
        self._news: deque[ReaderNews] = deque()
        self._signals: queue.SimpleQueue[None] = queue.SimpleQueue()

    def put(self, news: ReaderNews, *, is_due: bool) -> None:
        """Add what a reader brings; called on the readers' threads."""
        self._news.append(news)
        if is_due:
            self._signals.put(None)

    def take_all(self, within_s: float) -> Sequence[ReaderNews]:
        """Return all there is once something is due, or after a time."""
        with suppress(queue.Empty):
            self._signals.get(timeout=within_s)
            while True:
                self._signals.get_nowait()
        return [self._news.popleft() for _ in range(len(self._news))]


class ChunkReader:
    """Reads one answer's chunks on a thread of its own, since the library's stream waits for the next.

    Letting go of the stream is what ends the work in the library; between two chunks nothing can. The first chunk and
    the end are due at once.
    """

    def __init__(self, work: int, stream: Iterator[Any], news: NewsBox) -> None:
        self._work = work
        self._stream: Iterator[Any] | None = stream
        self._news = news
        self._is_cancelled = False

    def start(self) -> None:
        """Begin to read."""
        threading.Thread(target=self._read, name=f"answer {self._work}", daemon=True).start()

    def cancel(self) -> None:
        """Have it end with the next chunk."""
        self._is_cancelled = True

    def _read(self) -> None:
        stream, self._stream = self._stream, None
        is_first = True
        try:
            for chunk in stream or ():
                self._news.put(ReaderNews(self._work, chunk), is_due=is_first)
                is_first = False
                if self._is_cancelled:
                    break
        except Exception as error:  # noqa: BLE001 -- the library's own kinds; told to whoever waits for the answer
            text = first_line(error) or type(error).__name__
            self._news.put(ReaderNews(self._work, error=text), is_due=True)
        del stream
        self._news.put(ReaderNews(self._work), is_due=True)


class RunningAnswer:
    """What came of one request so far."""

    def __init__(self, work: WorkItem) -> None:
        self.work = work
        self._written_tokens = 0

    def read_chunk(self, chunk: Any) -> StepOutcome:  # noqa: ANN401 -- the wheel's own type
        """Return what a chunk brings. Special tokens come without one, and are counted when the library says so."""
        (choice,) = chunk.choices
        finish = None if choice.finish_reason is None else _FINISHES.get(choice.finish_reason, BackendFinish.STOP)
        is_end_token = finish is BackendFinish.STOP and not choice.delta.content
        tokens = [] if is_end_token else [self._token(choice)]
        self._written_tokens += len(tokens)
        if chunk.usage is None:
            return StepOutcome(self.work.id, tokens, finish)
        silent = chunk.usage.completion_tokens - self._written_tokens - is_end_token
        tokens[:0] = [Token(0, text="")] * max(0, silent)
        details = chunk.usage.prompt_tokens_details
        return StepOutcome(self.work.id, tokens, finish, cached=0 if details is None else int(details.cached_tokens))

    def _token(self, choice: Any) -> Token:  # noqa: ANN401 -- the wheel's own type
        text = choice.delta.content or ""
        if self.work.logprobs is None or choice.logprobs is None:
            return Token(0, text=text)
        figures = choice.logprobs
        top = [(int(entry.token), float(entry.logprob)) for entry in figures.top_logprobs]
        return Token(0, float(figures.logprob), top[: self.work.logprobs], text)


def read_error(work: WorkItem, message: str) -> RequestRefused:
    """Return what a client is told of an error in the library."""
    if work.schema is not None and message.startswith(_BAD_GRAMMAR):
        return invalid_request(
            f"mistral.rs cannot follow this schema: {message}", "response_format", code="invalid_schema"
        )
    return engine_failure(f"mistral.rs failed: {message}")


def request_arguments(work: WorkItem, text: str) -> Mapping[str, object]:
    """Turn a request into the library's fields."""
    arguments: dict[str, object] = {
        "messages": text,
        "model": "default",
        "stream": True,
        "max_tokens": work.max_tokens,
        "ignore_eos": work.ignores_end,
        **_sampling_arguments(work.sampling),
    }
    if work.logprobs is not None:
        arguments |= {"logprobs": True, "top_logprobs": max(1, work.logprobs)}
    if work.schema is not None:
        arguments |= {"grammar": work.schema, "grammar_type": "json_schema"}
    return arguments


def _sampling_arguments(sampling: BackendSampling) -> dict[str, object]:
    """Return the library's names. A seed is left out: it has none for a request."""
    arguments: dict[str, object] = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k if sampling.top_k is None or sampling.top_k > 0 else None,
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repetition_penalty,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "logit_bias": dict(sampling.logit_bias) or None,
    }
    if sampling.top_p == 0:
        arguments |= {"top_k": 1, "top_p": None}
    return {name: value for name, value in arguments.items() if value is not None}


def first_line(error: Exception) -> str:
    """Return what an error says, without the library's own stack behind it."""
    return str(error).partition("\n   0: ")[0].strip()
