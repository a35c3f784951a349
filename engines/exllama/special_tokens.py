"""Which tokens end an answer and begin a text, by the files of a model.

ExLlamaV2 reads one end, the first of `config.json`, where Llama 3 has its chats end with the last of three; both
libraries put a token in front of a text whenever they are asked to, also for models that were trained without one.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from engines.serving.templates import object_in


def read_end_tokens(folder: Path) -> frozenset[int]:
    """Return the tokens that end an answer, as `config.json` and `generation_config.json` have them."""
    end_tokens = [object_in(folder / name).get("eos_token_id") for name in ("config.json", "generation_config.json")]
    lists = [tokens if isinstance(tokens, list) else [tokens] for tokens in end_tokens]
    return frozenset(token for tokens in lists for token in tokens if isinstance(token, int))


def reads_begin_token(folder: Path) -> bool:
    """Tell whether the model's tokeniser puts a token in front of a text."""
    adds_begin_token = object_in(folder / "tokenizer_config.json").get("add_bos_token")
    if isinstance(adds_begin_token, bool):
        return adds_begin_token
    return any(map(_adds_begin_token, _processor_steps(object_in(folder / "tokenizer.json").get("post_processor"))))


def _processor_steps(processor: object) -> Iterator[Mapping[str, object]]:
    """Go through what a tokeniser does last, which may be several things in a row."""
    if isinstance(processor, dict):
        yield processor
        for step in processor.get("processors", []):
            yield from _processor_steps(step)


def _adds_begin_token(step: Mapping[str, object]) -> bool:
    parts = step.get("single")
    return isinstance(parts, list) and bool(parts) and "SpecialToken" in parts[0]
