"""Whether an engine's sentence says that the context is too short, and by how much, as each engine words it. Pure.

Each answers with another status and another body, but the sentences are their own. A limit on the answer alone is not
the context's, and is left as it is.
"""

import re

from app.gateway.canonical.overflow import Overflow

_LONGEST = 2000
"""Characters of a sentence that are looked at: whoever quotes the request does so after the counts."""


def _number_pattern(name: str) -> str:
    """Return the pattern of a count; some write commas into it, or a decimal that is none."""
    return rf"(?P<{name}>\d{{1,3}}(?:,\d{{3}})+|\d+)(?:\.0)?"


_CONTEXT, _PROMPT, _ANSWER = _number_pattern("context"), _number_pattern("prompt"), _number_pattern("answer")
_MAXIMUM = rf"maximum context length is {_CONTEXT} tokens"
_SENTENCES = tuple(
    re.compile(words, re.IGNORECASE | re.DOTALL)
    for words in (
        # llama.cpp, and our workers after it; for an embedding model the physical batch is the context
        rf"request \({_PROMPT} tokens\) exceeds the available context size \({_CONTEXT} tokens\)",
        rf"input \({_PROMPT} tokens\) is too large to process\..*?batch size: {_CONTEXT}",
        # MLX-LM, whose server has no words of its own, as our handler puts it
        rf"request has {_PROMPT} tokens, and the context holds {_CONTEXT}",
        # TGI, of its two limits
        (
            rf"`inputs` tokens \+ `max_new_tokens` must be <= {_CONTEXT}\. Given: {_PROMPT} `inputs` tokens"
            rf" and {_ANSWER} `max_new_tokens`"
        ),
        rf"`inputs` must have less than {_CONTEXT} tokens\. Given: {_PROMPT}",
        # vLLM, as its versions said it; then its input processor
        rf"is too large: {_ANSWER}\. This model's {_MAXIMUM} and your request has {_PROMPT} input tokens",
        (
            rf"{_MAXIMUM}\. However, you requested {_ANSWER} output tokens and your prompt contains"
            rf" (?:at least )?{_PROMPT} input tokens"
        ),
        rf"{_MAXIMUM}\. However, your request has {_PROMPT} input tokens",
        rf"{_MAXIMUM}, but the prompt contains {_PROMPT} input tokens",
        rf"prompt \(length {_PROMPT}\) is longer than the maximum model length of {_CONTEXT}",
        rf"prompt \(total length {_PROMPT}\) is too long to fit into the model \(context length {_CONTEXT}",
        # OpenAI, for chats and for completions; Dynamo and Roundhouse say it so too, and OpenRouter "about"
        (
            rf"{_MAXIMUM}[.,] however,? you requested (?:about )?[\d,]+ tokens"
            rf" \({_PROMPT} (?:in|of) [\w ]+[,;] {_ANSWER} (?:in|for) the"
        ),
        rf"{_MAXIMUM}[.,] however,? your [\w ]+ resulted in {_PROMPT} tokens",
        _MAXIMUM,
        # SGLang: its tokenizer's check, and its scheduler's
        rf"input \({_PROMPT} tokens\) is longer than the model's context length \({_CONTEXT}",
        (
            rf"exceeds the model's maximum context length of {_CONTEXT} tokens\. You requested a total of [\d,]+"
            rf" tokens: {_PROMPT} tokens from the input messages and {_ANSWER} tokens for the completion"
        ),
        rf"input length \({_PROMPT} tokens\) exceeds the maximum allowed length \({_CONTEXT}",
        # TensorRT-LLM: PyTorch's way, then the compiled engine's
        rf"sum of prompt length \({_PROMPT}\), query length \(\d+\) should not exceed max_num_tokens \({_CONTEXT}\)",
        rf"max_seq_len \({_CONTEXT}\) - `splited_prompt_len` \({_PROMPT}\)",
        rf"prompt length \({_PROMPT}\) exceeds maximum (?:input|sequence) length \({_CONTEXT}\)",
        # MLC LLM
        rf"prompt has {_PROMPT} tokens in total, larger than the model input length limit {_CONTEXT}",
        # OpenVINO Model Server
        rf"number of prompt tokens: {_PROMPT} exceeds model max length: {_CONTEXT}",
        # LM Studio, as its versions said it
        rf"keep the first {_PROMPT} tokens when context the overflows\..*?context length of only {_CONTEXT} tokens",
        rf"greater than the context length \(n_keep: {_PROMPT}\s*>=\s*n_ctx: {_CONTEXT}\)",
        # without all counts: llama.cpp before it told its batch, and of 2025; LM Studio, Ollama
        rf"input \({_PROMPT} tokens\) is too large to process",
        r"exceeds? the (?:available |model's )?context (?:size|length|window)",
        r"greater than the context length",
    )
)


def overflow_in(sentence: str) -> Overflow | None:
    """Return what a sentence tells of a context that is too short; None where it tells of something else."""
    shown = sentence[:_LONGEST]
    match = next((match for pattern in _SENTENCES if (match := pattern.search(shown))), None)
    if match is None:
        return None
    counts = {name: int(digits.replace(",", "")) for name, digits in match.groupdict().items() if digits is not None}
    if counts.get("prompt", 0) > counts.get("context", 0):
        counts.pop("answer", None)  # no shorter answer would help
    return Overflow(**counts)
