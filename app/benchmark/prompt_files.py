"""Prompts of one's own, from the text of a JSONL file: each line has `prompt` or `messages`."""

import json

import msgspec

from app.core.benchmarks import MOST_PROMPTS, BenchmarkPrompt
from app.core.errors import BadRequest


def parse_prompts(text: str, name: str) -> list[BenchmarkPrompt]:
    """Return the prompts of a file called `name`. Raises BadRequest with the line that is wrong."""
    prompts = [
        _parse_line(line, f"{name}, line {number}")
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip()
    ]
    if not prompts:
        raise BadRequest(f"{name} has no prompts.", hint='A line is {"prompt": "..."}.', code="prompts_required")
    if len(prompts) > MOST_PROMPTS:
        raise BadRequest(f"{name} has {len(prompts)} prompts, and {MOST_PROMPTS} are the most.", code="invalid_value")
    return prompts


def _parse_line(line: str, place: str) -> BenchmarkPrompt:
    try:
        document = json.loads(line)
        if not isinstance(document, dict):
            raise TypeError("it is no object")  # noqa: TRY301 -- said in one way, below
        fields: dict[str, object] = {}
        fields["messages"] = document.get("messages") or [{"role": "user", "content": document["prompt"]}]
        if "max_tokens" in document:
            fields["answer_tokens"] = document["max_tokens"]
        if "json_schema" in document:
            fields["json_schema"] = document["json_schema"]
        return msgspec.json.decode(json.dumps(fields), type=BenchmarkPrompt)
    except KeyError:
        raise BadRequest(f"{place} has neither `prompt` nor `messages`.", code="invalid_value") from None
    except (ValueError, TypeError) as error:  # msgspec's errors are ValueErrors
        raise BadRequest(f"{place} is wrong: {error}.", code="invalid_value") from None
