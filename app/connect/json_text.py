"""JSON with comments as text: puts one value in its place and leaves every other byte as it is.

A scanner notes where each value begins and ends; an edit is one or two splices. Comments and trailing commas, which
editors allow in their settings, are read over and kept.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from app.connect.document_paths import (
    ListEntry,
    Plain,
    Step,
    UnreadableSettings,
    expect_list,
    expect_members,
    is_item,
    wrap_in_path,
)

_SPACE = re.compile(r"(?:[\ufeff \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORD = re.compile(r"[-+.\w]+")
_DEEPEST = 100
"""Settings are a few levels deep; what is deeper is no settings file."""


@dataclass(slots=True)
class JsonNode:
    """A value and where it stands. `keys` are the names of `children` in an object; `last` ends the last child."""

    start: int
    end: int = 0
    value: Plain = None
    children: list["JsonNode"] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    has_comma: bool = False
    """Whether a comma follows the last child."""


def parse_text(text: str) -> Plain:
    """Return what the text says; None for an empty one. Raises UnreadableSettings."""
    node = _parse_root(text)
    return None if node is None else node.value


def put(text: str, path: Sequence[Step], value: Plain) -> str:
    """Return `text` with `value` at `path`. Raises UnreadableSettings."""
    root = _parse_root(text)
    if root is None:
        lead = text.rstrip()
        return (
            (lead + _newline(text) if lead.strip("\ufeff") else lead)
            + _render_value(wrap_in_path(path, value), "", text)
            + _newline(text)
        )
    node = root
    for depth, step in enumerate(path):
        if node.value is None:
            value = wrap_in_path(path[depth:], value)
            break
        child = _child(node, step)
        if child is None:
            missing_value = wrap_in_path(path[depth + 1 :], value)
            return _insert_value(text, node, step if isinstance(step, str) else "", missing_value)
        node = child
    if node.value == value and type(node.value) is type(value):
        return text
    return text[: node.start] + _render_value(value, _indent_at(text, node.start), text) + text[node.end :]


def _child(node: JsonNode, step: Step) -> JsonNode | None:
    if isinstance(step, ListEntry):
        expect_list(node.value)
        return next((child for child in node.children if is_item(child.value, step)), None)
    expect_members(node.value, step)
    # Of a name that is there twice, programs take the last.
    return next(
        (child for key, child in reversed(list(zip(node.keys, node.children, strict=True))) if key == step), None
    )


def _insert_value(text: str, node: JsonNode, key: str, value: Plain) -> str:
    """Return `text` with one more member or item at the end of `node`."""
    close = node.end - 1
    is_flat = "\n" not in text[node.start : node.end] and bool(node.children)
    outer = _indent_at(text, node.start)
    inner = _indent_at(text, node.children[-1].start) if node.children and not is_flat else outer + _unit(text)
    written_value = (json.dumps(key, ensure_ascii=False) + ": " if key else "") + (
        json.dumps(value, ensure_ascii=False) if is_flat else _render_value(value, inner, text)
    )
    last = node.children[-1].end if node.children else node.start + 1
    kept_text = _before_close(text, last, close)
    comma = "," if node.children and not node.has_comma else ""
    head = text[:last] + comma + text[last:kept_text]
    if is_flat:
        return head + " " + written_value + text[kept_text:]
    line = _newline(text)
    tail = "," if node.has_comma else ""
    return head + line + inner + written_value + tail + line + outer + text[close:]


def _before_close(text: str, last: int, close: int) -> int:
    """Return where the last comma or comment before the closing bracket ends."""
    return last + len(text[last:close].rstrip())


def _render_value(value: Plain, indent: str, text: str) -> str:
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).split("\n")
    return (_newline(text) + indent).join(lines)


def _unit(text: str) -> str:
    """Return what one level is indented by: as the first indented line is, else two spaces."""
    match = re.search(r"^([ \t]+)\"", text, re.MULTILINE)
    return match[1] if match else "  "


def _indent_at(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    match = re.match(r"[ \t]*", line.lstrip("\ufeff"))
    return match[0] if match else ""


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _parse_root(text: str) -> JsonNode | None:
    at = _skip(text, 0)
    if at == len(text):
        return None
    node = _parse_value(text, at, 0)
    if _skip(text, node.end) != len(text):
        raise UnreadableSettings(f"line {_line(text, node.end)} is not JSON.")
    return node


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _parse_value(text: str, at: int, depth: int) -> JsonNode:
    opening_bracket = text[at : at + 1]
    if opening_bracket in ("{", "[") and depth < _DEEPEST:
        return _container(text, at, depth, is_object=opening_bracket == "{")
    match = _STRING.match(text, at) or _WORD.match(text, at)
    try:
        return (
            JsonNode(at, match.end(), json.loads(match[0], parse_constant=_refuse))
            if match
            else _raise_unreadable(text, at)
        )
    except ValueError:
        return _raise_unreadable(text, at)


def _container(text: str, at: int, depth: int, *, is_object: bool) -> JsonNode:
    node, close = JsonNode(at), "}" if is_object else "]"
    at = _skip(text, at + 1)
    while text[at : at + 1] != close:
        if node.children and not node.has_comma:
            _raise_unreadable(text, at)
        if is_object:
            at = _parse_key(text, at, node)
        child = _parse_value(text, at, depth + 1)
        node.children.append(child)
        at = _skip(text, child.end)
        node.has_comma = text[at : at + 1] == ","
        at = _skip(text, at + 1) if node.has_comma else at
    node.end = at + 1
    values = [child.value for child in node.children]
    node.value = dict(zip(node.keys, values, strict=True)) if is_object else values
    return node


def _parse_key(text: str, at: int, node: JsonNode) -> int:
    name = _STRING.match(text, at)
    colon = _skip(text, name.end()) if name else at
    if name is None or text[colon : colon + 1] != ":":
        _raise_unreadable(text, at)
    else:
        node.keys.append(json.loads(name[0]))
    return _skip(text, colon + 1)


def _refuse(word: str) -> Plain:
    raise ValueError(word)


def _raise_unreadable(text: str, at: int) -> JsonNode:
    raise UnreadableSettings(f"line {_line(text, at)} is not JSON.")


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
