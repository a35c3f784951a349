"""YAML as text: puts one value in its place and leaves every other byte as it is.

ruamel.yaml says where each node begins and ends; the text is cut here, since every writer of YAML changes quotes or
line ends of what it did not touch. What this cannot cut rightly is found by reading the result again (`documents`).
"""

import json
import re
from collections.abc import Sequence
from functools import partial

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from app.connect.document_paths import ListEntry, Plain, Step, UnreadableSettings, wrap_in_path

_PLAIN = re.compile(r"[A-Za-z](?:[A-Za-z0-9_./:-]*[A-Za-z0-9])?")
_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}
_FAULTS = (YAMLError, ValueError, TypeError, RecursionError)


def parse_text(text: str) -> Plain:
    """Return what the text says; None for an empty one. Raises UnreadableSettings."""
    try:
        data: Plain = YAML(typ="safe", pure=True).load(text)
    except _FAULTS as error:
        raise UnreadableSettings(_problem_text(error)) from None
    return data


def put(text: str, path: Sequence[Step], value: Plain) -> str:
    """Return `text` with `value` at `path`. Raises UnreadableSettings."""
    node = _compose_node(text)
    if node is None:
        return _append_block(text, _block(wrap_in_path(path, value), 0, _newline(text)))
    before: Node | None = None
    for depth, step in enumerate(path):
        _expect(node, step)
        key, child = _child(node, step)
        if child is None:
            return _insert_value(text, node, step, wrap_in_path(path[depth + 1 :], value))
        if _is_nothing(child) and key is not None:
            return _after_key(text, node, key, child, wrap_in_path(path[depth + 1 :], value))
        before, node = node, child
    return _replace_value(text, before, node, value)


def _compose_node(text: str) -> Node | None:
    try:
        node: Node | None = YAML(typ="safe", pure=True).compose(text)
    except _FAULTS as error:
        raise UnreadableSettings(_problem_text(error)) from None
    return None if node is None or _is_nothing(node) else node


def _problem_text(error: BaseException) -> str:
    mark = getattr(error, "problem_mark", None)
    return f"line {mark.line + 1} is not YAML." if mark is not None else "it is not YAML that can be edited."


def _is_nothing(node: Node) -> bool:
    return isinstance(node, ScalarNode) and str(node.tag).endswith(":null")


def _is_flow(node: Node) -> bool:
    return isinstance(node, (MappingNode, SequenceNode)) and bool(node.flow_style)


def _expect(node: Node, step: Step) -> None:
    if isinstance(step, ListEntry) and not isinstance(node, SequenceNode):
        raise UnreadableSettings("there is something else where a list was expected.")
    if isinstance(step, str) and not isinstance(node, MappingNode):
        raise UnreadableSettings(f"the place for `{step}` does not hold named values.")


def _child(node: Node, step: Step) -> tuple[Node | None, Node | None]:
    if isinstance(step, str):
        return next(((key, value) for key, value in node.value if key.value == step), (None, None))
    for entry in node.value:
        pairs = entry.value if isinstance(entry, MappingNode) else []
        if any(key.value == step.key and value.value == step.value for key, value in pairs):
            return None, entry
    return None, None


def _replace_value(text: str, before: Node | None, node: Node, value: Plain) -> str:
    start, end = node.start_mark.index, _end(text, node)
    if isinstance(value, (dict, list)) and not _is_flow(node):
        column = node.start_mark.column
        if isinstance(before, MappingNode) and not isinstance(node, (MappingNode, SequenceNode)):
            raise UnreadableSettings("there is a single value where several belong.")
        return text[:start] + _block(value, column, _newline(text)).lstrip(" ") + text[end:]
    return text[:start] + _flow(value) + text[end:]


def _insert_value(text: str, node: Node, step: Step, value: Plain) -> str:
    """Return `text` with one more member or item at the end of `node`."""
    if _is_flow(node):
        close, piece = node.end_mark.index - 1, _flow(value)
        written_value = f"{_flow(step)}: {piece}" if isinstance(step, str) else piece
        return text[:close].rstrip() + (", " if node.value else "") + written_value + text[close:]
    line = _newline(text)
    block: Plain = {step: value} if isinstance(step, str) else [value]
    end = _line_end(text, _end(text, node))
    return text[:end] + line + _block(block, node.start_mark.column, line) + text[end:]


def _after_key(text: str, node: Node, key: Node, empty: Node, value: Plain) -> str:
    """Return `text` with a value for a key that has none (`models:`, or `models: null`)."""
    colon = text.index(":", key.end_mark.index) + 1
    end = max(colon, empty.end_mark.index) if empty.value else colon
    line = _newline(text)
    if isinstance(value, (dict, list)) and not _is_flow(node):
        return text[:colon] + line + _block(value, node.start_mark.column + 2, line) + text[end:]
    return f"{text[:colon]} {_flow(value)}{text[end:]}"


def _end(text: str, node: Node) -> int:
    """Return where the last written thing of a node ends; a block's own mark lies behind the comments after it."""
    if isinstance(node, ScalarNode) or _is_flow(node) or not node.value:
        return (
            len(text[: node.end_mark.index].rstrip())
            if getattr(node, "style", None) in ("|", ">")
            else node.end_mark.index
        )
    pairs = node.value if isinstance(node, MappingNode) else [(entry, entry) for entry in node.value]
    return max(max(map(partial(_end, text), pair)) for pair in pairs)


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    return end - 1 if text[:end].endswith("\r") else end


def _block(value: Plain, column: int, line: str) -> str:
    """Return `value` in block style, each line indented by `column`, without a line end after the last."""
    pad = " " * column
    if isinstance(value, dict) and value:
        return line.join(pad + _flow(key) + ":" + _below(entry, column, line) for key, entry in value.items())
    if isinstance(value, list) and value:
        return line.join(pad + "- " + _block(entry, column + 2, line).lstrip(" ") for entry in value)
    return pad + _flow(value)


def _below(value: Plain, column: int, line: str) -> str:
    if isinstance(value, (dict, list)) and value:
        return line + _block(value, column + 2, line)
    return " " + _flow(value)


def _flow(value: Plain) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)


def _append_block(text: str, block: str) -> str:
    line = _newline(text)
    gap = line if text.lstrip("\ufeff") and not text.endswith("\n") else ""
    return text + gap + block + line


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
