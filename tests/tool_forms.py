"""Tools that coding agents offer, without words: `python -m tests.tool_forms --write` takes them from the recordings.

A preflight offers them to a model. Names, types and choices are kept, what is said of them is not.
"""

import argparse
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from app.gateway.benchmarking.tool_checks import FILE
from tests.client_transcripts import FOLDER, read_transcript

_SCHEMA_KEYS = ("parameters", "input_schema", "parametersJsonSchema")
_MARK = "<text of "
"""What stands for somebody's words in the recordings."""
_WORDS = ("description", "$schema", "title", "default", "examples")
"""Keys whose texts are somebody's words, or say nothing."""


def read_forms() -> dict[str, list[dict[str, Any]]]:
    """Return each agent's longest list of tools, by the agent."""
    forms = {}
    for file in sorted(FOLDER.glob("*.json")):
        tool_lists = [list(_list_functions(tools)) for tools in read_transcript(file.stem).tools]
        forms[file.stem] = max(tool_lists, key=len, default=[])
    return forms


def _list_functions(tools: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield name and parameters of each tool, in whichever protocol it is told; those without parameters are none."""
    for tool in tools:
        if "functionDeclarations" in tool:
            yield from _list_functions(tool["functionDeclarations"])
            continue
        function = tool.get("function", tool)
        schema = next((function[key] for key in _SCHEMA_KEYS if key in function), None)
        if schema is not None and "name" in function:
            yield {"name": function["name"], "parameters": _strip_words(schema)}


def _strip_words(schema: Any, *, is_names: bool = False) -> Any:  # noqa: ANN401 -- JSON
    """Return a schema without words. Below `properties` keys are names, whatever they are called."""
    if isinstance(schema, list):
        return [_strip_words(part) for part in schema if not str(part).startswith(_MARK)]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _strip_words(value, is_names=key in {"properties", "$defs", "definitions"} and not is_names)
        for key, value in schema.items()
        if is_names or not (key in _WORDS or str(value).startswith(_MARK))
    }


def encode_forms() -> bytes:
    """Return the file's contents, one tool per line."""
    lines = [
        f"{msgspec.json.encode(tool).decode()}: [\n"
        + ",\n".join(msgspec.json.encode(part).decode() for part in parts)
        + "\n]"
        for tool, parts in read_forms().items()
    ]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def main(arguments: list[str]) -> int:
    """Say whether the file is current, or write it."""
    parser = argparse.ArgumentParser(prog="python -m tests.tool_forms", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the file")
    if parser.parse_args(arguments).write:
        FILE.write_bytes(encode_forms())
    return int(FILE.read_bytes() != encode_forms())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
