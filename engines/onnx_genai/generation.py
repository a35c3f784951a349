"""One request with ONNX Runtime's generator: its prompt in pieces, then a token at a time."""

import json
import secrets
from collections.abc import Sequence
from typing import Any

from engines.serving.backend import Finish, Outcome, Sampling, Token, Work

PROMPT_PIECE = 512
"""Tokens of a prompt that are read in one go: between two pieces others get their turn, and a client may give up."""


class Generation:
    """A request that is computed. Raises RuntimeError for what the library does not take."""

    def __init__(self, genai: Any, model: Any, ends: Sequence[int], work: Work) -> None:  # noqa: ANN401 -- as imported
        parameters = genai.GeneratorParams(model)
        length = len(work.prompt) + work.max_tokens
        least = {"min_length": length} if work.ignores_end else {}
        parameters.set_search_options(max_length=length, **least, **_search(work.sampling))
        if work.schema is not None:
            parameters.set_guidance("json_schema", _without_spaces(work.schema))
        self._work = work
        self._ends = frozenset(int(end) for end in ends)
        self._generator = genai.Generator(model, parameters)
        self._read = 0

    def step(self) -> Outcome | None:
        """Read a piece of the prompt, or write a token; None while there is nothing to tell."""
        prompt = self._work.prompt
        if self._read < len(prompt):
            piece = prompt[self._read : self._read + PROMPT_PIECE]
            self._generator.append_tokens(piece)
            self._read += len(piece)
            return None
        return self._written()

    def _written(self) -> Outcome:
        logits = None if self._work.logprobs is None else self._generator.get_logits()
        self._generator.generate_next_token()
        token = int(self._generator.get_next_tokens()[0])
        is_done = self._generator.is_done()
        if is_done and token in self._ends and not self._work.ignores_end:
            return Outcome(self._work.id, (), Finish.STOP)
        told = Token(token) if logits is None else _likely(token, logits, self._work.logprobs or 0)
        return Outcome(self._work.id, (told,), self._finish(is_done=is_done))

    def _finish(self, *, is_done: bool) -> Finish | None:
        if not is_done:
            return None
        is_full = self._generator.token_count() >= len(self._work.prompt) + self._work.max_tokens
        return Finish.LENGTH if is_full else Finish.STOP


def _without_spaces(schema: str) -> str:
    """Leave out the spaces JSON allows anywhere: small models write them without end."""
    said = json.loads(schema)
    return json.dumps({**said, "x-guidance": {"whitespace_flexible": False}}) if isinstance(said, dict) else schema


def _search(sampling: Sampling) -> dict[str, float | int | bool]:
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


def _likely(token: int, logits: Any, count: int) -> Token:  # noqa: ANN401 -- a NumPy array
    """Return the token with its logarithm of probability, and the likeliest others."""
    import numpy as np  # noqa: PLC0415 -- comes with onnxruntime-genai

    row = logits.reshape(-1, logits.shape[-1])[-1].astype(np.float64)
    row -= row.max()
    row -= np.log(np.exp(row).sum())
    best = np.argpartition(-row, min(count, len(row) - 1))[:count] if count else []
    top = sorted(((int(one), float(row[one])) for one in best), key=lambda pair: -pair[1])
    return Token(token, float(row[token]), top)
