"""`roundhouse run`: ask a model once, or talk with it. Nothing is stored; the window keeps conversations."""

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import click

from app.cli.answer_options import check_answer_choices, read_sampling, with_answer_options
from app.cli.attachments import question_files
from app.cli.chat_tools import AnswerWithTools, TerminalTools
from app.cli.gateway import connect_gateway
from app.cli.loading import load_model, resolve_model_name
from app.cli.output import json_option, print_note, show_result, write_json
from app.cli.presets import PRESET_MODEL, read_preset, require_model
from app.cli.question_passages import QuestionCollections, source_lines, with_passages
from app.cli.question_tokens import count_question
from app.client.endpoint import AnswerStream, ContentPart, EndpointMessage, EndpointTool, TextPart
from app.client.http import GatewayClient
from app.core import words
from app.core.chats import Sampling, Timings
from app.core.documents import AnswerDocuments
from app.core.errors import BadRequest, RoundhouseError


@click.command()
@click.argument("model")
@click.argument("prompt", nargs=-1)
@click.option("--system", default="", help="System prompt.")
@click.option("--preset", "preset_name", help="Preset to begin with; MODEL - takes its model.")
@click.option(
    "--set", "assignments", multiple=True, metavar="NAME=VALUE", help="Value of a variable of the preset; repeatable."
)
@click.option("--file", "files", multiple=True, metavar="PATH", help="File that goes with the question; repeatable.")
@click.option("--image", "images", multiple=True, metavar="PATH", help="Picture for a model that sees; repeatable.")
@click.option("--count", is_flag=True, help="Say how many tokens the question is, and ask nothing.")
@click.option(
    "--mcp", "servers", multiple=True, metavar="SERVER", help="MCP server whose tools it may call; repeatable."
)
@click.option(
    "--collection", "collections", multiple=True, metavar="NAME", help="Collection to look it up in; repeatable."
)
@with_answer_options
@json_option
def run(  # noqa: PLR0913 -- click passes each option by itself
    model: str,
    prompt: tuple[str, ...],
    *,
    system: str,
    preset_name: str | None,
    assignments: tuple[str, ...],
    files: tuple[str, ...],
    images: tuple[str, ...],
    count: bool,
    servers: tuple[str, ...],
    collections: tuple[str, ...],
    as_json: bool,
    **option_values: Any,  # noqa: ANN401 -- options of every type
) -> None:
    """Ask MODEL (a name or a .gguf file). Without PROMPT: standard input, or a conversation in a terminal."""
    sampling, typed_text = read_sampling(option_values), " ".join(prompt)
    if not typed_text and preset_name is None:  # a preset may bring the question
        typed_text = _question_from_stdin()
    client = connect_gateway()
    preset = read_preset(client, preset_name, assignments)
    question = "\n\n".join(text for text in (preset.prompt, typed_text) if text) or _question_from_stdin()
    name = resolve_model_name(client, model if model != PRESET_MODEL else require_model(preset))
    system = system or preset.system_prompt
    system_messages = [EndpointMessage("system", system)] if system else []
    sampling = sampling.fill_gaps_from(preset.sampling)
    with question_files(client, name, files, images) as question_parts:
        parts = question_parts.parts
        if count:
            tokens = count_question(client, name, (system, question), question_parts)
            show_result("count", tokens, as_json=as_json, text=lambda token_count: [token_count.describe()])
            return
        check_answer_choices(client, name, sampling)
        load_model(client, name)
        if parts:
            print_note(count_question(client, name, (system, question), question_parts).describe())
        ask = _make_asker(client, name, sampling, servers)
        library = QuestionCollections(client, collections)
        if question:
            documents = library.find(question)
            question_message = EndpointMessage("user", _with_parts(parts, with_passages(documents, question)))
            _answer_once(ask, name, [*system_messages, question_message], documents, as_json=as_json)
        else:
            _converse(ask, name, system_messages, parts, library)


Answer = AnswerStream | AnswerWithTools
Asker = Callable[[Sequence[EndpointMessage]], Answer]


def _make_asker(client: GatewayClient, model: str, sampling: Sampling, servers: Sequence[str]) -> Asker:
    """Return what asks the model; it may call the tools of these servers, which are started."""

    def make_stream(messages: Sequence[EndpointMessage], tools: Sequence[EndpointTool]) -> AnswerStream:
        return AnswerStream(client.gateway, model, messages, sampling, tools)

    if not servers:
        return lambda messages: make_stream(messages, ())
    return partial(AnswerWithTools, TerminalTools(client, servers), make_stream)


def _with_parts(parts: Sequence[ContentPart], question: str) -> str | Sequence[ContentPart]:
    return [*parts, TextPart(text=question)] if parts else question


def _question_from_stdin() -> str:
    """Return what is piped in; empty in a terminal. Raises BadRequest for what is no text, or none at all."""
    if sys.stdin.isatty():
        return ""
    try:
        question = sys.stdin.buffer.read().decode().strip()
    except UnicodeDecodeError as error:
        raise BadRequest(
            f"Standard input is not UTF-8 text: byte {error.start + 1} cannot be read.",
            hint="Convert it first, for instance with `iconv -t UTF-8`.",
            code="invalid_value",
        ) from error
    if not question:
        raise BadRequest(
            "Standard input is empty, so there is nothing to ask.",
            hint='Write the question after the model: `roundhouse run MODEL "QUESTION"`.',
            code="prompt_required",
        )
    return question


def _answer_once(
    ask: Asker, model: str, messages: list[EndpointMessage], documents: AnswerDocuments, *, as_json: bool
) -> None:
    answer = ask(messages)
    if as_json:
        text = "".join(answer)
        reply = {"model": model, "content": text, "timings": answer.timings}
        write_json("answer", {**reply, "sources": documents.sources} if documents.sources else reply)
        return
    _print_sources(documents, print_answer(answer))
    print_note(cost_line(answer.timings))


def _print_sources(documents: AnswerDocuments, answer: str) -> None:
    for line in source_lines(documents, answer):
        print_note(line)


def _converse(
    ask: Asker,
    model: str,
    messages: list[EndpointMessage],
    parts: Sequence[ContentPart],
    library: QuestionCollections,
) -> None:
    """Talk; files go with the first question that is answered, passages with each."""
    print_note(f"Chatting with {model}. Ctrl-D ends the chat, Ctrl-C stops an answer.")
    for question in _questions():
        has_answers = any(message.role == "assistant" for message in messages)
        documents = library.find(question)
        question_text = with_passages(documents, question)
        messages.append(EndpointMessage("user", question_text if has_answers else _with_parts(parts, question_text)))
        answer = ask(messages)
        try:
            messages.append(EndpointMessage("assistant", print_answer(answer)))
            _print_sources(documents, str(messages[-1].content))
            print_note(cost_line(answer.timings))
        except KeyboardInterrupt:
            print_note("\nStopped.")
            messages.pop()
        except RoundhouseError as error:
            print_note(f"\n{error}")
            messages.pop()


def _questions() -> Iterator[str]:
    while True:
        try:
            question = click.prompt(">", prompt_suffix=" ", default="", show_default=False).strip()
        except (click.Abort, EOFError):
            return
        if question:
            yield question


def print_answer(answer: Answer) -> str:
    """Print an answer as it comes and return all of it."""
    pieces = []
    for text in answer:
        pieces.append(text)
        click.echo(text, nl=False)
        sys.stdout.flush()
    click.echo()
    return "".join(pieces)


def cost_line(timings: Timings) -> str:
    """Return what an answer cost in one quiet line."""
    parts = [
        words.format_rate(timings.decode_tokens_per_s) if timings.decode_tokens_per_s else "",
        f"{words.format_duration(timings.ttft_s)} to the first token" if timings.ttft_s is not None else "",
        f"{timings.completion_tokens} tokens" if timings.completion_tokens else "",
    ]
    return " · ".join(part for part in parts if part)
