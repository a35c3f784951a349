"""Ollama's templates -> the Jinja that engines take.

Ollama writes templates in Go's language, engines in Jinja. What chat templates use of Go's is turned into the same in
Jinja; anything else is refused, since a prompt that is slightly wrong makes a model quietly worse. Text that is Jinja
already is left as it is. Templates from before there was `.Messages` are run once per exchange, as Ollama does.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from app.core.errors import BadRequest

_ACTION = re.compile(r"\{\{(- )?\s*(.*?)\s*( -)?\}\}", re.DOTALL)
_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|`[^`]*`|:=|[(),]|\$[A-Za-z_]\w*|\$|\.[A-Za-z]\w*|\$?[A-Za-z_]\w*|-?\d+)')
_FIELDS = {
    ".System": "system",
    ".Prompt": "prompt",
    ".Response": "response",
    ".Messages": "messages",
    ".Suffix": "''",
    ".Tools": "(tools or [])",
    ".First": "first",
    ".Role": "message.role",
    ".Content": "(message.content or '')",
    ".Thinking": "(message.reasoning_content or '')",
    ".Think": "(enable_thinking is defined and enable_thinking)",
}
_OPERATORS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "and", "or": "or"}
_RANGE = re.compile(r"range\s+(?:\$(\w+)\s*,\s*\$(\w+)\s*:=\s*)?\$?\.Messages")
_DEEPEST = 32
# A loop and no filter: llama.cpp looks which turns a template reads, and moves the system's elsewhere if it sees none.
_JOINED = """\
{%- set all = namespace(system='') -%}
{%- for m in messages -%}{%- if m.role == 'system' -%}
{%- set all.system = (all.system + '\\n\\n' if all.system else '') + m.content -%}
{%- endif -%}{%- endfor -%}
{%- set system = all.system -%}"""
_EXCHANGES = """\
{%- macro exchange(system, prompt, response, first, last) -%}BODY{%- endmacro -%}
{%- set ns = namespace(system='', prompt='', response='', first=true) -%}
{%- for m in messages -%}
{%- if (m.role == 'system' and (ns.prompt or ns.response)) or (m.role == 'user' and ns.response) -%}
{{- exchange(ns.system, ns.prompt, ns.response, ns.first, false) -}}
{%- set ns.system = '' -%}{%- set ns.prompt = '' -%}{%- set ns.response = '' -%}{%- set ns.first = false -%}
{%- endif -%}
{%- if m.role == 'system' -%}{%- set ns.system = m.content -%}
{%- elif m.role == 'user' -%}{%- set ns.prompt = m.content -%}
{%- elif m.role == 'assistant' -%}{%- set ns.response = m.content -%}{%- endif -%}
{%- endfor -%}
{{- exchange(ns.system, ns.prompt, ns.response, ns.first, true) -}}"""


class _Piece(NamedTuple):
    text: str
    is_action: bool


def to_jinja(template: str) -> str:
    """Return the template in Jinja; "" for none. Raises BadRequest that names what cannot be turned into it."""
    if not template.strip() or "{%" in template:
        return template.strip()
    pieces = list(_pieces(template))
    if any(piece.is_action and ".Messages" in piece.text for piece in pieces):
        return _JOINED + "".join(_Writer().write(pieces))
    if not any(piece.is_action and piece.text == ".Response" for piece in pieces):
        pieces.append(_Piece(".Response", is_action=True))
    return _EXCHANGES.replace("BODY", "".join(_Writer(cuts=True).write(pieces)))


def _pieces(template: str) -> Iterator[_Piece]:
    """Yield text and actions in turn, blanks trimmed where a marker says so."""
    at, trims = 0, False
    for found in _ACTION.finditer(template):
        text = template[at : found.start()]
        text = text.lstrip() if trims else text
        yield _Piece(text.rstrip() if found[1] else text, is_action=False)
        yield _Piece(found[2], is_action=True)
        at, trims = found.end(), bool(found[3])
    last = template[at:]
    if "{{" in last:
        raise _unknown(last[:40])
    yield _Piece(last.lstrip() if trims else last, is_action=False)


class _Writer:
    """Writes one template. With `cuts`, what follows the answer is left out of the last exchange."""

    def __init__(self, *, cuts: bool = False) -> None:
        self._cuts = cuts
        self._open: list[str] = []
        self._counters: list[str] = []

    def write(self, pieces: list[_Piece]) -> Iterator[str]:
        """Yield the Jinja of every piece."""
        is_cut = False
        for piece in pieces:
            yield self._action(piece.text) if piece.is_action else _said(piece.text)
            if self._cuts and piece == (".Response", True):
                if self._open or is_cut:
                    raise _unknown("a .Response within a condition")
                is_cut = True
                yield "{%- if not last -%}"
        if self._open:
            raise _unknown("a block without its end")
        yield "{%- endif -%}" if is_cut else ""

    def _action(self, text: str) -> str:
        if text.startswith("/*"):
            return ""
        if text.partition(" ")[0] in {"range", "if", "else", "end"}:
            return self._block(text)
        variable, assigns, value = text.partition(":=")
        if assigns and re.fullmatch(r"\$\w+\s*", variable):
            return f"{{%- set {variable.strip()[1:]} = {self._value(value)} -%}}"
        return f"{{{{- {self._value(text)} -}}}}"

    def _block(self, text: str) -> str:
        if text.startswith("range"):
            return self._range(text)
        if text.startswith("if"):
            return self._begin("if", f"{{%- if {self._value(text[2:])} -%}}")
        if text.startswith("else if "):
            return f"{{%- elif {self._value(text[8:])} -%}}"
        if text == "else":
            return "{%- else -%}"
        return self._end(text)

    def _value(self, text: str) -> str:
        return _Expression(text, self._counters).whole()

    def _range(self, text: str) -> str:
        found = _RANGE.fullmatch(text)
        if found is None:
            raise _unknown(text)
        counter = found[1] or ""
        if counter and counter != "_":
            self._counters.append(counter)
        return self._begin("for", "{%- for message in messages -%}")

    def _begin(self, kind: str, said: str) -> str:
        self._open.append(kind)
        return said

    def _end(self, text: str) -> str:
        if text != "end" or not self._open:
            raise _unknown("an end without its block")
        return f"{{%- end{self._open.pop()} -%}}"


class _Expression:
    """One of Go's expressions: a value, or a function and its arguments."""

    def __init__(self, text: str, counters: list[str]) -> None:
        self._text, self._counters = text, counters
        self._tokens = self._cut(text)
        self._at = 0

    def whole(self) -> str:
        """Return all of it in Jinja."""
        found = self._call(0)
        if self._at != len(self._tokens):
            raise _unknown(self._text)
        return found

    def _cut(self, text: str) -> list[str]:
        found, at = [], 0
        while text[at:].strip():
            part = _TOKEN.match(text, at)
            if part is None:
                raise _unknown(text)
            found.append(part[1])
            at = part.end()
        return found

    def _call(self, depth: int) -> str:
        if depth > _DEEPEST:
            raise _unknown(self._text[:40])
        word = self._next()
        if word == "not":
            return f"(not {self._value(depth)})"
        if word == "len":
            return f"({self._value(depth)} | length)"
        if word == "slice":
            return f"{self._value(depth)}[{self._value(depth)}:]"
        if word in _OPERATORS:
            values = [self._value(depth)]
            while self._at < len(self._tokens) and self._tokens[self._at] != ")":
                values.append(self._value(depth))
            return "(" + f" {_OPERATORS[word]} ".join(values) + ")"
        self._at -= 1
        return self._value(depth)

    def _value(self, depth: int) -> str:
        word = self._next()
        if word == "(":
            inner = self._call(depth + 1)
            if self._next() != ")":
                raise _unknown(self._text)
            return inner
        if word == "$" and self._at < len(self._tokens):
            word = self._next()  # `$.Messages` is the template's own value whatever the block
        if word in _FIELDS:
            return _FIELDS[word]
        if word.startswith("$"):
            return "loop.index0" if word[1:] in self._counters else word[1:]
        if word[0] in '"`' or word.lstrip("-").isdigit() or word in {"true", "false"}:
            return word if word[0] != "`" else json.dumps(word[1:-1], ensure_ascii=False)
        raise _unknown(self._text)

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise _unknown(self._text)
        self._at += 1
        return self._tokens[self._at - 1]


def _said(text: str) -> str:
    return f"{{{{- {json.dumps(text, ensure_ascii=False)} -}}}}" if text else ""


def _unknown(text: str) -> BadRequest:
    return BadRequest(
        f"The template has {text.strip()[:80]!r}, which cannot be turned into Jinja.",
        hint="Send the template as Jinja, or leave it out: the model's own is used then.",
        code="unsupported_template",
    )
