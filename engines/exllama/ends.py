"""Which tokens end an answer and begin a text, by the files of a model.

ExLlamaV2 reads one end, the first of `config.json`, where Llama 3 has its chats end with the last of three; both
libraries put a token in front of a text whenever they are asked to, also for models that were trained without one.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from engines.serving.templates import object_in


def ends_in(folder: Path) -> frozenset[int]:
    """Return the tokens that end an answer, as `config.json` and `generation_config.json` have them."""
    said = [object_in(folder / name).get("eos_token_id") for name in ("config.json", "generation_config.json")]
    lists = [one if isinstance(one, list) else [one] for one in said]
    return frozenset(token for one in lists for token in one if isinstance(token, int))


def begins_in(folder: Path) -> bool:
    """Tell whether the model's tokeniser puts a token in front of a text."""
    said = object_in(folder / "tokenizer_config.json").get("add_bos_token")
    if isinstance(said, bool):
        return said
    return any(map(_begins, _steps(object_in(folder / "tokenizer.json").get("post_processor"))))


def _steps(processor: object) -> Iterator[Mapping[str, object]]:
    """Go through what a tokeniser does last, which may be several things in a row."""
    if isinstance(processor, dict):
        yield processor
        for step in processor.get("processors", []):
            yield from _steps(step)


def _begins(step: Mapping[str, object]) -> bool:
    parts = step.get("single")
    return isinstance(parts, list) and bool(parts) and "SpecialToken" in parts[0]
