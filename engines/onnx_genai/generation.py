"""One request with ONNX Runtime's generator: its prompt in pieces, then a token at a time."""

import json
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from engines.serving.backend import BackendFinish, BackendSampling, StepOutcome, Token, WorkItem

PROMPT_PIECE = 512
"""Tokens of a prompt that are read in one go: between two pieces others get their turn, and a client may give up."""


class OnnxGeneration:
    """A request that is computed. Raises RuntimeError for what the library does not take."""

    def __init__(self, genai: Any, model: Any, ends: Sequence[int], work: WorkItem) -> None:  # noqa: ANN401 -- as imported
        parameters = genai.GeneratorParams(model)
        length = len(work.prompt) + work.max_tokens
        least = {"min_length": length} if work.ignores_end else {}
        parameters.set_search_options(max_length=length, **least, **_search(work.sampling))
        if work.schema is not None:
            parameters.set_guidance("json_schema", _without_spaces(work.schema))
        self._work = work
        self._ends = frozenset(int(end) for end in ends)
        self._generator = genai.Generator(model, parameters)
        self._reported_count = 0
        """Tokens of prompt and answer that were read, or told of."""

    @property
    def is_steady(self) -> bool:
        """Whether it can write several tokens on end: its first has been told, and nobody asks how likely they are."""
        return self._reported_count > len(self._work.prompt) and self._work.logprobs is None

    @property
    def turn(self) -> tuple[Callable[[], None], Callable[[], bool]]:
        """The library's own calls that write a token and tell whether it was the last."""
        return self._generator.generate_next_token, self._generator.is_done

    def step(self) -> StepOutcome | None:
        """Read a piece of the prompt, or write a token; None while there is nothing to tell."""
        prompt = self._work.prompt
        if self._reported_count < len(prompt):
            piece = prompt[self._reported_count : self._reported_count + PROMPT_PIECE]
            self._generator.append_tokens(piece)
            self._reported_count += len(piece)
            return None
        logits = None if self._work.logprobs is None else self._generator.get_logits()
        self._generator.generate_next_token()
        return self.take_outcome(logits)

    def take_outcome(self, logits: Any = None) -> StepOutcome:  # noqa: ANN401 -- a NumPy array
        """Return what was written since this was last asked; `logits` are what one token was chosen by."""
        written_tokens = self._generator.get_sequence(0)[self._reported_count :].tolist()
        is_done = self._generator.is_done()
        if is_done and written_tokens and written_tokens[-1] in self._ends and not self._work.ignores_end:
            written_tokens.pop()  # not every provider leaves it out by itself
        self._reported_count += len(written_tokens)
        if logits is None:
            tokens = [Token(token) for token in written_tokens]
        else:
            tokens = [_token_with_alternatives(token, logits, self._work.logprobs or 0) for token in written_tokens]
        return StepOutcome(self._work.id, tokens, self._finish() if is_done else None)

    def _finish(self) -> BackendFinish:
        return (
            BackendFinish.LENGTH
            if self._reported_count >= len(self._work.prompt) + self._work.max_tokens
            else BackendFinish.STOP
        )


def step_together(generations: Sequence[OnnxGeneration], until: float) -> Iterator[StepOutcome]:
    """Have each write a token in turn, until that time of `time.perf_counter()` or until one is done.

    A step of the library leaves little of ours in the processor's caches, so that every call between two of them costs
    microseconds. What was written is therefore asked for at the end, once.
    """
    turns = [generation.turn for generation in generations]
    is_over = False
    while not is_over:
        for generate, is_done in turns:
            generate()
            is_over |= is_done()
        is_over |= time.perf_counter() >= until
    return (generation.take_outcome() for generation in generations)


def _without_spaces(schema: str) -> str:
    """Leave out the spaces JSON allows anywhere: small models write them without end."""
    document = json.loads(schema)
    return (
        json.dumps({**document, "x-guidance": {"whitespace_flexible": False}}) if isinstance(document, dict) else schema
    )


def _search(sampling: BackendSampling) -> dict[str, float | int | bool]:
    """Return the library's options. Without `do_sample` it takes the likeliest token, whatever else is said."""
    options: dict[str, float | int | bool] = {}
    if sampling.temperature is not None:
        options["do_sample"] = sampling.temperature > 0
        if sampling.temperature > 0:
            options["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        options["top_p"] = sampling.top_p
    if sampling.top_k is not None:
        options["top_k"] = max(0, sampling.top_k)
    if sampling.repetition_penalty is not None:
        options["repetition_penalty"] = sampling.repetition_penalty
    options["random_seed"] = secrets.randbits(31) if sampling.seed is None else sampling.seed % 2**31
    return options


def _token_with_alternatives(token: int, logits: Any, count: int) -> Token:  # noqa: ANN401 -- a NumPy array
    """Return the token with its logarithm of probability, and the likeliest others."""
    import numpy as np  # noqa: PLC0415 -- comes with onnxruntime-genai

    row = logits.reshape(-1, logits.shape[-1])[-1].astype(np.float64)
    row -= row.max()
    row -= np.log(np.exp(row).sum())
    best = np.argpartition(-row, min(count, len(row) - 1))[:count] if count else []
    top = sorted(((int(index), float(row[index])) for index in best), key=lambda pair: -pair[1])
    return Token(token, float(row[token]), top)
