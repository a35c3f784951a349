"""`roundhouse run`: ask a model once, or talk with it. Nothing is stored; the window keeps conversations."""

import sys
from collections.abc import Iterator

import click

from app.cli.gateway import connected
from app.cli.loading import load, named
from app.cli.output import json_option, talk, write_json
from app.client.endpoint import Answer, Said
from app.client.http import Client
from app.core import words
from app.core.chats import Sampling, Timings
from app.core.errors import RoundhouseError


@click.command()
@click.argument("model")
@click.argument("prompt", nargs=-1)
@click.option("--system", default="", help="System prompt.")
@click.option("--temperature", type=click.FloatRange(0), help="0 always picks the most likely token.")
@click.option("--max-tokens", type=click.IntRange(1), help="Maximum tokens in the answer.")
@click.option("--seed", type=int, help="Seed that makes sampling repeatable.")
@json_option
def run(model: str, prompt: tuple[str, ...], *, system: str, as_json: bool, **chosen: float | None) -> None:
    """Ask MODEL (a name or a .gguf file). Without PROMPT: standard input, or a conversation in a terminal."""
    client = connected()
    name = named(client, model)
    load(client, name)
    opening = [Said("system", system)] if system else []
    sampling = Sampling(**chosen)  # type: ignore[arg-type]  # click has checked each option's type
    question = " ".join(prompt) or ("" if sys.stdin.isatty() else sys.stdin.read().strip())
    if question:
        _once(client, name, [*opening, Said("user", question)], sampling, as_json=as_json)
    else:
        _converse(client, name, opening, sampling)


def _once(client: Client, model: str, messages: list[Said], sampling: Sampling, *, as_json: bool) -> None:
    answer = Answer(client.gateway, model, messages, sampling)
    if as_json:
        text = "".join(answer)
        write_json("answer", {"model": model, "content": text, "timings": answer.timings})
        return
    spoken(answer)
    talk(cost(answer.timings))


def _converse(client: Client, model: str, messages: list[Said], sampling: Sampling) -> None:
    talk(f"Chatting with {model}. Ctrl-D ends the chat, Ctrl-C stops an answer.")
    for question in _questions():
        messages.append(Said("user", question))
        answer = Answer(client.gateway, model, messages, sampling)
        try:
            messages.append(Said("assistant", spoken(answer)))
            talk(cost(answer.timings))
        except KeyboardInterrupt:
            talk("\nStopped.")
            messages.pop()
        except RoundhouseError as error:
            talk(f"\n{error}")
            messages.pop()


def _questions() -> Iterator[str]:
    while True:
        try:
            question = click.prompt(">", prompt_suffix=" ", default="", show_default=False).strip()
        except (click.Abort, EOFError):
            return
        if question:
            yield question


def spoken(answer: Answer) -> str:
    """Print an answer as it comes and return all of it."""
    said = []
    for text in answer:
        said.append(text)
        click.echo(text, nl=False)
        sys.stdout.flush()
    click.echo()
    return "".join(said)


def cost(timings: Timings) -> str:
    """Return what an answer cost in one quiet line."""
    parts = [
        words.rate(timings.decode_tokens_per_s) if timings.decode_tokens_per_s else "",
        f"{words.seconds(timings.ttft_s)} to the first token" if timings.ttft_s is not None else "",
        f"{timings.completion_tokens} tokens" if timings.completion_tokens else "",
    ]
    return " · ".join(part for part in parts if part)
