"""Which version of an engine knows a kind of model: data in `architectures.toml`, from the engines' own sources."""

import re
import tomllib
from functools import cache
from pathlib import Path

_NAMES = (
    re.compile(r"unknown model architecture: '([^']+)'", re.IGNORECASE),
    re.compile(r"model type `?([\w.-]+)`? (?:is )?not supported", re.IGNORECASE),
    re.compile(r"has model type `([^`]+)` but transformers", re.IGNORECASE),
    re.compile(r"architectures:? \['?(\w+)'?", re.IGNORECASE),
    re.compile(r"model architecture (\w+) (?:was|is not) supported", re.IGNORECASE),
    re.compile(r"'(\w+)' is not a registered model", re.IGNORECASE),
    re.compile(r"unknown architecture for \w+: (\w+)", re.IGNORECASE),
    re.compile(r"unknown model type: ([\w.-]+)", re.IGNORECASE),
)


def architecture_in(line: str) -> str:
    """Return the kind of model that a log line says is unknown; empty where it names none."""
    return next((match[1].rstrip(".") for pattern in _NAMES if (match := pattern.search(line))), "")


def describe_unknown_architecture(engine: str, line: str) -> str:
    """Return sentences that name the kind of model and the version that knows it, to follow the first; or nothing."""
    name = architecture_in(line)
    if not name:
        return ""
    version, knows = _load_architectures().get(engine, ("", frozenset()))
    knowing = f" {engine} {version} knows it." if name in knows else ""
    return f" It is of the kind “{name}”.{knowing}"


@cache
def _load_architectures() -> dict[str, tuple[str, frozenset[str]]]:
    tables = tomllib.loads((Path(__file__).parent / "architectures.toml").read_text(encoding="utf-8"))
    return {engine: (row["version"], frozenset(row["knows"].split())) for engine, row in tables.items()}
