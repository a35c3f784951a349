"""Ollama's templates -> the Jinja that engines take.

Ollama writes templates in Go's language, engines in Jinja. What chat templates use of Go's is turned into the same in
Jinja; anything else is refused, since a prompt that is slightly wrong makes a model quietly worse. Text that is Jinja
already is left as it is. Templates from before there was `.Messages` are run once per exchange, as Ollama does.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from app.core.errors import BadRequest, quote_value

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
_MAX_DEPTH = 32
# A loop and no filter: llama.cpp looks which turns a template reads, and moves the system's elsewhere if it sees none.
_SYSTEM_JOIN = """\
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


class _TemplatePiece(NamedTuple):
    text: str
    is_action: bool


def to_jinja(template: str) -> str:
    """Return the template in Jinja; "" for none. Raises BadRequest that names what cannot be turned into it."""
    if not template.strip() or "{%" in template:
        return template.strip()
    pieces = list(_split_pieces(template))
    if any(piece.is_action and ".Messages" in piece.text for piece in pieces):
        return _SYSTEM_JOIN + "".join(_JinjaWriter().write_pieces(pieces))
    if not any(piece.is_action and piece.text == ".Response" for piece in pieces):
        pieces.append(_TemplatePiece(".Response", is_action=True))
    return _EXCHANGES.replace("BODY", "".join(_JinjaWriter(cuts=True).write_pieces(pieces)))


def _split_pieces(template: str) -> Iterator[_TemplatePiece]:
    """Yield text and actions in turn, blanks trimmed where a marker says so."""
    before, *actions = template.split("{{")
    for part in actions:
        action, end, after = part.partition("}}")
        if not end:
            raise _template_error("{{" + part[:40])
        yield _TemplatePiece(before.rstrip() if action.startswith("- ") else before, is_action=False)
        yield _TemplatePiece(action.removeprefix("- ").removesuffix(" -").strip(), is_action=True)
        before = after.lstrip() if action.endswith(" -") else after
    yield _TemplatePiece(before, is_action=False)


class _JinjaWriter:
    """Writes one template. With `cuts`, what follows the answer is left out of the last exchange."""

    def __init__(self, *, cuts: bool = False) -> None:
        self._cuts = cuts
        self._open: list[str] = []
        self._counters: list[str] = []

    def write_pieces(self, pieces: list[_TemplatePiece]) -> Iterator[str]:
        """Yield the Jinja of every piece."""
        is_cut = False
        for piece in pieces:
            yield self._write_action(piece.text) if piece.is_action else _write_text(piece.text)
            if self._cuts and piece == (".Response", True):
                if self._open or is_cut:
                    raise _template_error("a .Response within a condition")
                is_cut = True
                yield "{%- if not last -%}"
        if self._open:
            raise _template_error("a block without its end")
        yield "{%- endif -%}" if is_cut else ""

    def _write_action(self, text: str) -> str:
        if text.startswith("/*"):
            return ""
        if text.partition(" ")[0] in {"range", "if", "else", "end"}:
            return self._write_block(text)
        variable, assigns, value = text.partition(":=")
        if assigns and re.fullmatch(r"\$\w+\s*", variable):
            return f"{{%- set {variable.strip()[1:]} = {self._write_value(value)} -%}}"
        return f"{{{{- {self._write_value(text)} -}}}}"

    def _write_block(self, text: str) -> str:
        if text.startswith("range"):
            return self._write_range(text)
        if text.startswith("if"):
            return self._open_block("if", f"{{%- if {self._write_value(text[2:])} -%}}")
        if text.startswith("else if "):
            return f"{{%- elif {self._write_value(text[8:])} -%}}"
        if text == "else":
            return "{%- else -%}"
        return self._close_block(text)

    def _write_value(self, text: str) -> str:
        return _GoExpression(text, self._counters).translate_all()

    def _write_range(self, text: str) -> str:
        match = _RANGE.fullmatch(text)
        if match is None:
            raise _template_error(text)
        counter = match[1] or ""
        if counter and counter != "_":
            self._counters.append(counter)
        return self._open_block("for", "{%- for message in messages -%}")

    def _open_block(self, kind: str, tag: str) -> str:
        self._open.append(kind)
        return tag

    def _close_block(self, text: str) -> str:
        if text != "end" or not self._open:
            raise _template_error("an end without its block")
        return f"{{%- end{self._open.pop()} -%}}"


class _GoExpression:
    """One of Go's expressions: a value, or a function and its arguments."""

    def __init__(self, text: str, counters: list[str]) -> None:
        self._text, self._counters = text, counters
        self._tokens = self._split_tokens(text)
        self._at = 0

    def translate_all(self) -> str:
        """Return all of it in Jinja."""
        result = self._translate_call(0)
        if self._at != len(self._tokens):
            raise _template_error(self._text)
        return result

    def _split_tokens(self, text: str) -> list[str]:
        tokens, at = [], 0
        while text[at:].strip():
            part = _TOKEN.match(text, at)
            if part is None:
                raise _template_error(text)
            tokens.append(part[1])
            at = part.end()
        return tokens

    def _translate_call(self, depth: int) -> str:
        if depth > _MAX_DEPTH:
            raise _template_error(self._text[:40])
        word = self._next_token()
        if word == "not":
            return f"(not {self._translate_value(depth)})"
        if word == "len":
            return f"({self._translate_value(depth)} | length)"
        if word == "slice":
            return f"{self._translate_value(depth)}[{self._translate_value(depth)}:]"
        if word in _OPERATORS:
            values = [self._translate_value(depth)]
            while self._at < len(self._tokens) and self._tokens[self._at] != ")":
                values.append(self._translate_value(depth))
            return "(" + f" {_OPERATORS[word]} ".join(values) + ")"
        self._at -= 1
        return self._translate_value(depth)

    def _translate_value(self, depth: int) -> str:
        word = self._next_token()
        if word == "(":
            inner = self._translate_call(depth + 1)
            if self._next_token() != ")":
                raise _template_error(self._text)
            return inner
        if word == "$" and self._at < len(self._tokens):
            word = self._next_token()  # `$.Messages` is the template's own value whatever the block
        if word in _FIELDS:
            return _FIELDS[word]
        if word.startswith("$"):
            return "loop.index0" if word[1:] in self._counters else word[1:]
        if word[0] in '"`' or word.lstrip("-").isdigit() or word in {"true", "false"}:
            return word if word[0] != "`" else json.dumps(word[1:-1], ensure_ascii=False)
        raise _template_error(self._text)

    def _next_token(self) -> str:
        if self._at >= len(self._tokens):
            raise _template_error(self._text)
        self._at += 1
        return self._tokens[self._at - 1]


def _write_text(text: str) -> str:
    return f"{{{{- {json.dumps(text, ensure_ascii=False)} -}}}}" if text else ""


def _template_error(text: str) -> BadRequest:
    return BadRequest(
        f"The template has {quote_value(text.strip())}, which cannot be turned into Jinja.",
        hint="Send the template as Jinja, or leave it out: the model's own is used then.",
        code="unsupported_template",
    )
