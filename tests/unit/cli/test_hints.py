"""Every next step that a sentence names can be taken: its command exists, with its options, and runs on this system."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from app.cli.aliases import DefaultAddGroup
from app.cli.main import roundhouse

ROOT = Path(__file__).resolve().parents[3]
PLACE = "X"
"""Stands for what a sentence fills in."""
STEP = re.compile(r"(?<![\w./-])roundhouse (?P<words>[a-z][a-z-]*(?: (?:--)?[\w<>./:=…-]+)*)")


def texts(tree: ast.AST) -> Iterator[str]:
    """Yield every text of a module that may be shown, with what is filled in replaced, and no docstrings."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else PLACE for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def steps() -> dict[str, str]:
    """Return every command that a text names, with a place where it is."""
    sources: dict[str, str] = {}
    for folder in ("app", "engines"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            if "roundhouse " not in source:  # as in nine of ten: reading them all takes seconds
                continue
            for text in texts(ast.parse(source)):
                for match in STEP.finditer(text.replace("{", PLACE).replace("}", "")):
                    sources.setdefault(match["words"].rstrip("."), str(path.relative_to(ROOT)))
    return sources


STEPS = steps()


def problem(words: list[str]) -> str:
    """Say what is wrong with a command line; empty when nothing is."""
    command: click.Command = roundhouse
    context = click.Context(command)
    while words and isinstance(command, click.Group):
        subcommand = command.get_command(context, words[0])
        if subcommand is None:
            return "" if isinstance(command, DefaultAddGroup) else f"no command {words[0]}"
        command, words = subcommand, words[1:]
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    unknown = [word for word in words if word.startswith("-") and word.partition("=")[0] not in options]
    return f"no option {unknown[0]}" if unknown else ""


@pytest.mark.parametrize("step", sorted(STEPS))
def test_a_step_that_is_named_exists(step: str) -> None:
    assert not problem(step.split()), f"{STEPS[step]}: roundhouse {step}"


def test_there_are_steps_to_look_at() -> None:
    assert len(STEPS) > 50
    assert problem(["engines", "instal"]) == "no command instal"
    assert problem(["pull", "X", "--fast"]) == "no option --fast"
