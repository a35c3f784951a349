"""gpt-oss's channels: analysis is reasoning, final is the answer, and a message to a function is a call of it."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from app.gateway.canonical.families.marks import earliest, held

_MARKS = ("<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|return|>", "<|call|>")
_RECIPIENT = re.compile(r"\bto=(?:functions\.)?([\w.-]+)")


class Part(NamedTuple):
    """A piece of an answer; `called` is a function's name, and then `text` all of its arguments."""

    text: str
    is_thought: bool = False
    called: str = ""


class Harmony:
    """Splits one answer. The prompt ended after `<|start|>assistant`."""

    def __init__(self) -> None:
        self._rest = ""
        self._header = ""
        self._is_body = True
        """Text without any channel is an answer."""
        self._arguments = ""

    def feed(self, text: str) -> Sequence[Part]:
        """Return what is surely said, and what it is."""
        self._rest += text
        said: list[Part] = []
        while found := earliest(self._rest, _MARKS):
            at, mark = found
            self._take(self._rest[:at], said)
            self._rest = self._rest[at + len(mark) :]
            self._mark(mark, said)
        cut = len(self._rest) - held(self._rest, _MARKS)
        self._take(self._rest[:cut], said)
        self._rest = self._rest[cut:]
        return said

    def end(self, *, is_cut: bool) -> Sequence[Part]:
        """Return what was held back. Of an answer cut off by its limit, an unfinished call is no call."""
        said: list[Part] = []
        self._take(self._rest, said)
        self._rest = ""
        if not is_cut:
            self._call(said)
        return said

    def _mark(self, mark: str, said: list[Part]) -> None:
        if mark == "<|message|>":
            self._is_body = True
            return
        if mark in {"<|end|>", "<|return|>", "<|call|>", "<|start|>"}:
            self._call(said)
            self._header = ""
        self._is_body = False
        self._header += f" {mark} "

    def _take(self, text: str, said: list[Part]) -> None:
        if not text:
            return
        if not self._is_body:
            self._header += text
        elif _RECIPIENT.search(self._header):
            self._arguments += text
        else:
            said.append(Part(text, is_thought="analysis" in self._header))

    def _call(self, said: list[Part]) -> None:
        recipient = _RECIPIENT.search(self._header) if self._is_body else None
        if recipient is not None:
            said.append(Part(self._arguments.strip(), called=recipient[1]))
        self._arguments, self._is_body, self._header = "", False, ""
