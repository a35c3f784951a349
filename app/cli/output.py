"""One way out: text for people, versioned JSON for programs. stdout is data, stderr is talk.

A command builds a value; `show_result` renders it. An error becomes a sentence and a hint on stderr, and with `--json`
an object on stdout too. Exit codes: 0 done, 1 the machine or an engine let us down, 2 the request was wrong, 130
Ctrl-C.
"""

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

import click
import msgspec

from app.cli.terminal import escape_json
from app.core.api import API_VERSION
from app.core.errors import RoundhouseError, UserError

_GAP = "  "
_LEAST_ROOM = 24
"""Characters: sentences in a narrower column cannot be read."""
_INTERRUPTED = 130
"""What shells make of a program that Ctrl-C ended: 128 + SIGINT."""

P = ParamSpec("P")
T = TypeVar("T")


def json_option(command: Callable[P, T]) -> Callable[P, T]:
    """Give a command `--json`, and errors as `report_errors` does."""
    return click.option("--json", "as_json", is_flag=True, help="Print versioned JSON.")(report_errors(command))


def report_errors(command: Callable[P, T]) -> Callable[P, T]:
    """Turn Roundhouse's errors into a sentence and an exit code, for a command that writes no result of its own."""

    @wraps(command)
    def run_guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return command(*args, **kwargs)
        except RoundhouseError as error:
            report_error(error, as_json=bool(kwargs.get("as_json")))
            sys.exit(2 if isinstance(error, UserError) else 1)
        except KeyboardInterrupt:
            click.echo(err=True)  # the prompt goes on a line of its own
            sys.exit(_INTERRUPTED)

    return run_guarded


def report_error(error: RoundhouseError, *, as_json: bool) -> None:
    """Say what went wrong, and what to do about it."""
    if as_json:
        write_json("error", error.body)
    click.secho(str(error), err=True, fg="red")
    for line in (error.hint, error.body.detail):
        if line:
            click.echo(line, err=True)


def show_result(key: str, value: T, *, as_json: bool, text: Callable[[T], Iterable[str]]) -> None:
    """Print `value` under `key` as JSON, or the lines `text` makes of it."""
    if as_json:
        write_json(key, value)
        return
    for line in text(value):
        click.echo(line)


def write_json(key: str, value: object) -> None:
    """Print `{"version": N, key: value}`."""
    data = msgspec.json.encode({"version": API_VERSION, key: value})
    click.echo(escape_json(msgspec.json.format(data, indent=2).decode()))


def write_fields(value: msgspec.Struct) -> None:
    """Print `{"version": N, ...}` with the fields of `value` beside the version."""
    data = msgspec.json.encode({"version": API_VERSION, **msgspec.to_builtins(value)})
    click.echo(escape_json(msgspec.json.format(data, indent=2).decode()))


def print_note(sentence: str) -> None:
    """Say something that is not data."""
    click.echo(sentence, err=True)


def format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return aligned lines; the head is dimmed. In a terminal the last column wraps within its width."""
    body = [list(map(str, row)) for row in rows]
    widths = [max(len(line[i]) for line in [list(head), *body]) for i in range(len(head))]
    if sys.stdout.isatty():
        room = shutil.get_terminal_size().columns - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1)
        body = [line for row in body for line in _wrap_row(row, max(room, _LEAST_ROOM))]
    lines = [_GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [head, *body]]
    return [click.style(lines[0].rstrip(), dim=True), *(line.rstrip() for line in lines[1:])]


def _wrap_row(row: Sequence[str], room: int) -> list[list[str]]:
    """Return the row as lines whose last cell has no more than `room` characters."""
    pieces = textwrap.wrap(row[-1], room, break_long_words=False, break_on_hyphens=False) or [""]
    return [[*row[:-1], pieces[0]], *([*[""] * (len(row) - 1), piece] for piece in pieces[1:])]
