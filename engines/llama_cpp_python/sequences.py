"""What a slot knows and has still to compute: its sequence in llama.cpp's memory, and the request that runs in it.

llama.cpp's batch: tokens of several sequences that are computed in one go.

How the next token is drawn: a chain of llama.cpp's samplers for each request, with llama-server's defaults.
"""

import secrets
from collections.abc import Sequence
from typing import Any

from engines.serving.backend import BackendSampling, Token, WorkItem
from engines.serving.refusals import invalid_request


class Batch:
    """A native batch that is filled anew for every step."""

    def __init__(self, lib: Any, size: int) -> None:  # noqa: ANN401 -- the package, imported late
        self.native = lib.llama_batch_init(size, 0, 1)
        self._size = size

    @property
    def room(self) -> int:
        """How many more tokens fit in."""
        return self._size - int(self.native.n_tokens)

    def clear(self) -> None:
        """Empty it."""
        self.native.n_tokens = 0

    def add(self, tokens: Sequence[int], *, at: int, sequence: int, wants_output: bool) -> int:
        """Add tokens of a sequence from position `at` on; return where the last one's output will be, or -1."""
        native, start = self.native, int(self.native.n_tokens)
        for place, token in enumerate(tokens, start):
            native.token[place] = token
            native.pos[place] = at + place - start
            native.n_seq_id[place] = 1
            native.seq_id[place][0] = sequence
            native.logits[place] = 0
        native.n_tokens = start + len(tokens)
        if not tokens or not wants_output:
            return -1
        native.logits[native.n_tokens - 1] = 1
        return int(native.n_tokens) - 1


class Slot:
    """One sequence. `known` are the tokens in its memory, `ahead` those still to be read, the last one written too."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.known_tokens: list[int] = []
        self.ahead: list[int] = []
        self.work: WorkItem | None = None
        self.sampler: Any = None
        self.output = -1
        """Where in the last batch its next token can be drawn; -1 if its prompt is not read yet."""
        self._written_tokens = 0
        self._cached_tokens: int | None = None

    @property
    def is_full(self) -> bool:
        """Whether as many tokens are written as were asked for."""
        return self.work is not None and self._written_tokens >= self.work.max_tokens

    def prefix_match_length(self, prompt: Sequence[int]) -> int:
        """Return how many tokens of a prompt it knows already; one is always left to compute."""
        same = 0
        for ours, theirs in zip(self.known_tokens, prompt[:-1], strict=False):
            if ours != theirs:
                break
            same += 1
        return same

    def begin(self, work: WorkItem, sampler: Any, same: int) -> None:  # noqa: ANN401 -- a pointer
        """Take on a request of which it knows the first `same` tokens."""
        self.work, self.sampler, self._written_tokens, self._cached_tokens = work, sampler, 0, same
        self.known_tokens, self.ahead = list(work.prompt[:same]), list(work.prompt[same:])
        self.output = -1

    def add_to(self, batch: Batch) -> None:
        """Put as much of what is ahead into a batch as there is room for."""
        count = min(len(self.ahead), batch.room)
        now, self.ahead = self.ahead[:count], self.ahead[count:]
        self.output = batch.add(now, at=len(self.known_tokens), sequence=self.number, wants_output=not self.ahead)
        self.known_tokens += now

    def take_cached(self) -> int | None:
        """Return how much of the prompt it knew, once."""
        cached_tokens, self._cached_tokens = self._cached_tokens, None
        return cached_tokens

    def write(self, token: int) -> None:
        """Note a token that was drawn; it is read with the next batch."""
        self._written_tokens += 1
        self.ahead.append(token)

    def end(self) -> None:
        """Let go of the request; what was read stays known."""
        self.work = self.sampler = None
        self.ahead, self.output = [], -1


def choose_slot(slots: Sequence[Slot], prompt: Sequence[int]) -> Slot:
    """Return the free slot that knows most of a prompt; of those that know nothing, the one with least to lose."""
    free = [slot for slot in slots if slot.work is None]
    return max(free, key=lambda slot: (slot.prefix_match_length(prompt), -len(slot.known_tokens)))


_TEMPERATURE, _TOP_K, _TOP_P, _MIN_P = 0.8, 40, 0.95, 0.05
"""llama-server's, for what a client leaves open."""
_LAST_TOKENS = 64
"""How far back penalties look, as llama-server has it."""
_NEVER = float("-inf")


class SamplerFactory:
    """Makes chains for one vocabulary."""

    def __init__(self, lib: Any, vocabulary: Any) -> None:  # noqa: ANN401 -- the package, and a pointer
        self._lib = lib
        self._vocabulary = vocabulary
        self._size = lib.llama_vocab_n_tokens(vocabulary)
        self._ends: Any = None

    def make_chain(self, work: WorkItem) -> Any:  # noqa: ANN401 -- a pointer
        """Return a chain, to be freed. Raises Refused for a schema that llama.cpp cannot follow."""
        lib, sampling = self._lib, work.sampling
        grammar = self._grammar(work.schema) if work.schema is not None else None
        chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
        if work.ignores_end:
            ends = self._end_biases()
            lib.llama_sampler_chain_add(chain, lib.llama_sampler_init_logit_bias(self._size, len(ends), ends))
        if grammar is not None:
            lib.llama_sampler_chain_add(chain, grammar)
        for sampler in self._selection_samplers(sampling):
            lib.llama_sampler_chain_add(chain, sampler)
        return chain

    def _selection_samplers(self, sampling: BackendSampling) -> list[Any]:
        lib = self._lib
        penalties = (
            sampling.repetition_penalty or 1.0,
            sampling.frequency_penalty or 0.0,
            sampling.presence_penalty or 0.0,
        )
        samplers = []
        if penalties != (1.0, 0.0, 0.0):
            samplers.append(lib.llama_sampler_init_penalties(self._size, _LAST_TOKENS, *penalties))
        temperature = _TEMPERATURE if sampling.temperature is None else sampling.temperature
        if temperature == 0:
            return [*samplers, lib.llama_sampler_init_greedy()]
        seed = secrets.randbits(32) if sampling.seed is None else sampling.seed % 2**32
        return [
            *samplers,
            lib.llama_sampler_init_top_k(_TOP_K if sampling.top_k is None else sampling.top_k),
            lib.llama_sampler_init_top_p(_TOP_P if sampling.top_p is None else sampling.top_p, 1),
            lib.llama_sampler_init_min_p(_MIN_P if sampling.min_p is None else sampling.min_p, 1),
            lib.llama_sampler_init_temp(temperature),
            lib.llama_sampler_init_dist(seed),
        ]

    def _grammar(self, schema: str) -> Any:  # noqa: ANN401 -- a pointer
        from llama_cpp.llama_grammar import json_schema_to_gbnf  # noqa: PLC0415 -- as in the worker

        try:
            text = json_schema_to_gbnf(schema)
        except (AssertionError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise _bad_schema(str(error)) from error
        grammar = self._lib.llama_sampler_init_grammar(self._vocabulary, text.encode(), b"root")
        if not grammar:
            raise _bad_schema("its grammar is not understood")
        return grammar

    def _end_biases(self) -> Any:  # noqa: ANN401 -- a ctypes array
        """Return what keeps a model from ending: made once, as it looks at the whole vocabulary."""
        if self._ends is None:
            lib = self._lib
            ends = [token for token in range(self._size) if lib.llama_vocab_is_eog(self._vocabulary, token)]
            self._ends = (lib.llama_logit_bias * len(ends))(*((token, _NEVER) for token in ends))
        return self._ends


def token_with_alternatives(token: int, logits: Any, size: int, count: int) -> Token:  # noqa: ANN401 -- a ctypes array
    """Return the token with its logarithm of probability, and the likeliest others."""
    import numpy as np  # noqa: PLC0415 -- comes with llama-cpp-python

    row = np.ctypeslib.as_array(logits, shape=(size,)).astype(np.float64)
    row -= row.max()
    row -= np.log(np.exp(row).sum())
    best = np.argsort(-row)[:count]
    return Token(token, float(row[token]), [(int(index), float(row[index])) for index in best])


def _bad_schema(why: str) -> Exception:
    return invalid_request(f"llama.cpp cannot follow this schema: {why}.", "response_format", code="invalid_schema")
