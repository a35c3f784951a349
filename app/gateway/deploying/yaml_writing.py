"""YAML with a reason above each field that has one. What is written is read by people before a cluster reads it."""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, Union

_WIDTH = 110
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}
"""Words that YAML 1.1 reads as something other than text."""


class Remark(NamedTuple):
    """A value, and why it is there."""

    value: "Node"
    reason: str


Node: TypeAlias = Union[str, int, Remark, Mapping[str, "Node"], Sequence["Node"]]  # noqa: UP007 -- it names itself


def write_documents(heading: str, documents: Sequence[Node]) -> str:
    """Return one file of several documents, below a comment."""
    texts = ("\n".join(_write_lines(document, 0)) for document in documents)
    return "\n".join(_comment_lines(heading, "")) + "\n---\n" + "\n---\n".join(texts) + "\n"


def _write_lines(node: Node, indent: int) -> Iterator[str]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _write_entry(f"{_write_scalar(key)}:", value, indent)
    elif isinstance(node, Sequence):
        for value in node:
            yield from _write_entry("-", value, indent)


def _write_entry(lead: str, value: Node, indent: int) -> Iterator[str]:
    pad = " " * indent
    if isinstance(value, Remark):
        yield from _comment_lines(value.reason, pad)
        value = value.value
    if isinstance(value, str | int) or not value:
        yield f"{pad}{lead} {_write_scalar(value)}"
    elif lead == "-":
        yield from _write_item(list(_write_lines(value, indent + 2)), pad)
    else:
        yield f"{pad}{lead}"
        yield from _write_lines(value, indent + 2)


def _write_item(lines: list[str], pad: str) -> Iterator[str]:
    """Yield an entry of a list: the reason of its first field above the dash."""
    while lines[0].lstrip().startswith("#"):
        yield pad + lines.pop(0).lstrip()
    yield f"{pad}- {lines[0].lstrip()}"
    yield from lines[1:]


def _write_scalar(value: Node) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)


def _comment_lines(text: str, pad: str) -> Iterator[str]:
    for paragraph in text.splitlines():
        for line in textwrap.wrap(paragraph, _WIDTH - len(pad), break_long_words=False, break_on_hyphens=False) or [""]:
            yield f"{pad}# {line}".rstrip()
