"""A JSON schema as a filter of ExLlamaV2's sampler, by llguidance, which ExLlamaV3 has a filter of its own for.

ExLlamaV2 takes any object with these methods; while three requests or more are answered it asks for their masks on
threads of its own, each request's on one. The filter that lm-format-enforcer 0.11 brings for it was written for an
earlier ExLlamaV2 and lacks most of them.
"""

import importlib
from pathlib import Path
from typing import Any

from engines.serving.refusals import RequestRefused, invalid_request


def unknown_schema(problem: str) -> RequestRefused:
    """Return the answer to a schema that llguidance does not understand."""
    return invalid_request(f"This schema cannot be followed: {problem}.", "response_format", code="invalid_schema")


class SchemaFilterFactory:
    """The vocabulary as llguidance knows it. Making it takes about a second for a large one, so it is made once."""

    def __init__(self, torch: Any, folder: Path, ends: list[int]) -> None:  # noqa: ANN401 -- the libraries' own types
        self._torch = torch
        self._library: Any = importlib.import_module("llguidance")
        text = (folder / "tokenizer.json").read_text(encoding="utf-8")
        self._tokenizer = self._library.LLTokenizer(text, eos_token=ends)

    def make_filter(self, schema: str) -> "SchemaFilter":
        """Return what holds one answer to a schema. Raises Refused for a schema nobody understands."""
        matcher = self._library.LLMatcher
        grammar = matcher.grammar_from_json_schema(schema)
        problem = matcher.validate_grammar(grammar, self._tokenizer)
        if problem:
            raise unknown_schema(problem)
        return SchemaFilter(self._torch, matcher(self._tokenizer, grammar))


class SchemaFilter:
    """What `exllamav2.generator.filters.ExLlamaV2Filter` has that its generator and its sampler call."""

    def __init__(self, torch: Any, matcher: Any) -> None:  # noqa: ANN401 -- the libraries' own types
        self._torch = torch
        self._matcher = matcher

    @property
    def problem(self) -> str:
        """Why the schema can be followed no further, in its first line; empty while it can."""
        return str(self._matcher.get_error()).partition("\n")[0] if self._matcher.is_error() else ""

    def begin(self, _prefix: str) -> None:
        """Start anew."""
        self._matcher.reset()

    def feed(self, token: Any) -> None:  # noqa: ANN401 -- a tensor of one number
        """Take the token that was chosen."""
        self._matcher.consume_token(int(token.item()))

    def use_background_worker(self) -> bool:
        """Tell that a mask is made at once: it takes microseconds."""
        return False

    def background_drop(self) -> None:
        """Forget what was begun beforehand, which is nothing."""

    def can_mask_logits(self) -> bool:
        """Tell that it masks, instead of naming the tokens that may come."""
        return True

    def get_next(self, mask: bool = False) -> bool:  # noqa: FBT001, FBT002, ARG002 -- called so by the sampler
        """Tell that the mask can be asked for."""
        return True

    def mask_logits(self, logits: Any) -> Any:  # noqa: ANN401 -- tensors
        """Return the logits with what may not come at minus infinity. They are copied: figures are made of them."""
        torch, least = self._torch, float("-inf")
        may = torch.frombuffer(bytearray(self._matcher.compute_logit_bias()), dtype=torch.uint8)
        known_tokens = min(len(may), len(logits))  # a model's last layer may be wider than its vocabulary
        masked_logits = torch.full_like(logits, least)
        masked_logits[:known_tokens] = logits[:known_tokens].masked_fill(may[:known_tokens] == 0, least)
        return masked_logits
