"""How the next token is drawn: a chain of llama.cpp's samplers for each request, with llama-server's defaults."""

import secrets
from typing import Any

from engines.serving.backend import BackendSampling, Token, WorkItem
from engines.serving.refusals import invalid_request

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
