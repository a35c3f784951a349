"""Options of how answers are made, for commands that ask: sampling, thinking, forms, and where an answer ends."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from app.client.http import GatewayClient, quote_segment
from app.core.chats import MOST_THINKING, Sampling
from app.core.errors import BadRequest
from app.core.models import ModelChoices
from app.core.thinking import ThinkingLevel

F = TypeVar("F", bound=Callable[..., object])

_CHOICES_S = 60.0
"""Looking at a model's files, on a drive that slept."""
_TEXT = click.Path(exists=True, dir_okay=False, path_type=Path)
_OPTIONS = (
    click.option("--temperature", type=click.FloatRange(0), help="0 always picks the most likely token."),
    click.option("--max-tokens", type=click.IntRange(1), help="Maximum tokens in the answer."),
    click.option("--seed", type=int, help="Seed that makes sampling repeatable."),
    click.option(
        "--think",
        "thinking",
        type=click.Choice([level.value for level in ThinkingLevel if level is not ThinkingLevel.DEFAULT]),
        help="Whether the model thinks first, and how much.",
    ),
    click.option(
        "--think-budget",
        "thinking_budget",
        type=click.IntRange(1, MOST_THINKING),
        help="Tokens after which thinking ends.",
    ),
    click.option("--stop", "stops", multiple=True, metavar="TEXT", help="Text at which the answer ends; repeatable."),
    click.option("--json-schema", type=_TEXT, help="File with a JSON schema that the answer is held to."),
    click.option("--grammar", type=_TEXT, help="File with a grammar (GBNF) that the answer is held to."),
)


def with_answer_options(command: F) -> F:
    """Give a command these options."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_sampling(option_values: dict[str, Any]) -> Sampling:
    """Return what the options say. Raises BadRequest, with the line of a schema or grammar that is wrong."""
    values = {name: value for name, value in option_values.items() if value not in (None, ())}
    for name in ("json_schema", "grammar"):
        if name in values:
            values[name] = _read_text(values[name])
    if "stops" in values:
        values["stops"] = list(values["stops"])
    if "thinking" in values:
        values["thinking"] = ThinkingLevel(values["thinking"])
    sampling = Sampling(**values)
    sampling.check_forms()
    return sampling


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadRequest(f"{path} is not UTF-8 text.", code="invalid_value") from None


def check_answer_choices(client: GatewayClient, model: str, sampling: Sampling) -> None:
    """Return if a model's answers can be held to a grammar, where one is given. Raises BadRequest.

    The endpoint refuses the rest by itself.
    """
    if not sampling.grammar:
        return
    choices = client.get(f"/model-settings/{quote_segment(model)}", ModelChoices, timeout_s=_CHOICES_S).answers
    if not choices.takes_grammar:
        raise BadRequest(
            f"{model} cannot be held to a grammar with {choices.engine_name or 'the engines that are installed'}.",
            hint="Leave it out, or run the model on an engine that can: llama.cpp does.",
            code="engine_cannot",
        )
