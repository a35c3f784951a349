"""Whether an engine's sentence says that the context is too short, and by how much, as each engine words it. Pure.

Each answers with another status and another body, but the sentences are their own: llama-server's embedding, TGI's
validation (422), vLLM's and SGLang's checks. A limit on the answer alone is not the context's, and is left as it is.
"""

import re

import msgspec


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens. `prompt` is None where nobody said; `answer` is what was asked for, where the sum is what is too much."""

    context: int
    prompt: int | None = None
    answer: int | None = None

    @property
    def told(self) -> str | None:
        """OpenAI's own words, for which clients that shorten and try again look; None without a prompt's count."""
        if self.prompt is None:
            return None
        said = f"This model's maximum context length is {self.context} tokens. However, "
        if self.answer is None:
            return f"{said}your prompt has {self.prompt} tokens."
        total = self.prompt + self.answer
        return (
            f"{said}you requested {total} tokens ({self.prompt} in the messages, {self.answer} in the completion). "
            "Please reduce the length of the messages or completion."
        )


_LONGEST = r"maximum context length is (?P<context>\d+) tokens"
_SENTENCES = tuple(
    re.compile(words, re.IGNORECASE | re.DOTALL)
    for words in (
        # llama-server: for an embedding model the physical batch is the context
        r"input \((?P<prompt>\d+) tokens\) is too large to process\..*?batch size: (?P<context>\d+)",
        # TGI, of its two limits
        (
            r"`inputs` tokens \+ `max_new_tokens` must be <= (?P<context>\d+)\. Given: (?P<prompt>\d+) `inputs` tokens"
            r" and (?P<answer>\d+) `max_new_tokens`"
        ),
        r"`inputs` must have less than (?P<context>\d+) tokens\. Given: (?P<prompt>\d+)",
        # vLLM, as its versions said it
        rf"is too large: (?P<answer>\d+)\. This model's {_LONGEST} and your request has (?P<prompt>\d+) input tokens",
        (
            rf"{_LONGEST}\. However, you requested \d+ tokens"
            r" \((?P<prompt>\d+) in the messages, (?P<answer>\d+) in the completion\)"
        ),
        (
            rf"{_LONGEST}\. However, you requested (?P<answer>\d+) output tokens"
            r" and your prompt contains (?:at least )?(?P<prompt>\d+) input tokens"
        ),
        rf"{_LONGEST}\. However, your request has (?P<prompt>\d+) input tokens",
        _LONGEST,
        # SGLang
        r"input \((?P<prompt>\d+) tokens\) is longer than the model's context length \((?P<context>\d+)",
        (
            r"exceeds the model's maximum context length of (?P<context>\d+) tokens\. You requested a total of \d+"
            r" tokens: (?P<prompt>\d+) tokens from the input messages and (?P<answer>\d+) tokens for the completion"
        ),
    )
)


def counts_in(sentence: str) -> Counts | None:
    """Return what a sentence tells of a context that is too short; None where it tells of something else."""
    found = next((match for pattern in _SENTENCES if (match := pattern.search(sentence))), None)
    if found is None:
        return None
    numbers = {name: int(digits) for name, digits in found.groupdict().items() if digits is not None}
    if numbers.get("prompt", 0) > numbers["context"]:
        numbers.pop("answer", None)  # no shorter answer would help
    return Counts(**numbers)
