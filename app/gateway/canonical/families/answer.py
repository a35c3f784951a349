"""From what an engine that hands on a model's raw text says to what every dialect is told.

Takes the engine's events and returns events: reasoning, text and tool calls told apart, calls mended and given ids, the
answer ended at its stop sequence. However the text is cut into pieces, the same comes out. gpt-oss writes in channels
(Harmony): analysis is reasoning, final is the answer, and a message to a function is a call of it.
"""

import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from app.gateway.canonical.events import Event, Finish, Finished, ReasoningDelta, TextDelta, TokenLogprob, ToolCallDelta
from app.gateway.canonical.families.arguments import decoded_schema, fitted, parse_json, typed
from app.gateway.canonical.families.calls import Call
from app.gateway.canonical.families.cutter import Cutter, Piece
from app.gateway.canonical.families.family import Family
from app.gateway.canonical.families.marks import ENDS_OF_TURN, Endings, Thoughts, earliest, held
from app.gateway.canonical.request import Tool

_CHANNEL_MARKS = ("<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|return|>", "<|call|>")
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
        while found := earliest(self._rest, _CHANNEL_MARKS):
            at, mark = found
            self._take(self._rest[:at], said)
            self._rest = self._rest[at + len(mark) :]
            self._mark(mark, said)
        cut = len(self._rest) - held(self._rest, _CHANNEL_MARKS)
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


NewId = Callable[[int], str]
_ID_LENGTH = 24
_PREFIXES = ("functions.", "default_api.", "tools.")
"""What some models put before a tool's name."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How one answer is to be read. Of tools and thoughts only what is left to be told apart."""

    family: Family
    tools: tuple[Tool, ...] = ()
    reads_thoughts: bool = True
    is_open: bool = False
    """The prompt opened the reasoning."""
    one_at_a_time: bool = False
    must_call: bool = False
    """An answer without a call is none."""
    stops: tuple[str, ...] = ()


def new_id(length: int) -> str:
    """Return an id for a call; of exactly so many letters and digits, if that is not 0."""
    return secrets.token_hex(length)[:length] if length else f"call_{secrets.token_hex(_ID_LENGTH // 2)}"


class Toolbox:
    """The tools a model was offered."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._schemas = {tool.name: decoded_schema(tool.parameters) for tool in tools}

    def __bool__(self) -> bool:
        return bool(self._schemas)

    def offered(self, call: Call) -> Call | None:
        """Return the call with its name and arguments as the tool has them; None if there is no such tool."""
        name = next((one for one in _candidates(call.name) if one in self._schemas), None)
        if name is None:
            return None
        schema = self._schemas[name]
        texts = {key: value for key, value in call.arguments.items() if isinstance(value, str)}
        given = {**call.arguments, **typed(texts, schema)} if call.is_text else call.arguments
        return msgspec.structs.replace(call, name=name, arguments=fitted(given, schema))


def _candidates(name: str) -> Iterable[str]:
    yield name
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            yield name.removeprefix(prefix)


class AnswerReader:
    """Reads one answer. `is_over` once it has ended it, whatever the engine would still say."""

    def __init__(self, reading: Reading, new_id: NewId = new_id) -> None:
        self.is_over = False
        self._reading = reading
        self._new_id = new_id
        self._toolbox = Toolbox(reading.tools)
        self._text = _splitter(reading, self._toolbox)
        self._stops = _Stops(reading.stops)
        self._calls = 0
        self._logprobs: list[TokenLogprob] = []

    @property
    def has_called(self) -> bool:
        """Whether there has been a call."""
        return self._calls > 0

    def take(self, batch: Iterable[Event]) -> list[Event]:
        """Return what some events of the engine's mean; nothing once it is over."""
        return [told for event in batch if not self.is_over for told in self._taken(event)]

    def _taken(self, event: Event) -> list[Event]:
        match event:
            case TextDelta(text=text, logprobs=logprobs):
                self._logprobs += logprobs
                return self._told(self._text.feed(text))
            case ToolCallDelta():
                self._calls = max(self._calls, event.index + 1)
            case Finished():
                return self._finished(event)
            case _:
                pass
        return [event]

    def _finished(self, end: Finished) -> list[Event]:
        told = self._told(self._text.end(is_cut=end.reason is Finish.LENGTH))
        if self.is_over:
            return told
        self.is_over = True
        return [*told, *self._said(self._stops.end()), msgspec.structs.replace(end, reason=self._reason(end.reason))]

    def _reason(self, reason: Finish) -> Finish:
        return Finish.TOOL_CALLS if self.has_called and reason is Finish.STOP else reason

    def _told(self, parts: Sequence[Part | Call]) -> list[Event]:
        return [event for part in parts if not self.is_over for event in self._part(part)]

    def _part(self, part: Part | Call) -> list[Event]:
        if isinstance(part, Call):
            return [*self._said(self._stops.end()), *self._called(part)]
        if part.is_thought:
            self._logprobs.clear()
            return [ReasoningDelta(part.text)]
        text, mark = self._stops.feed(part.text)
        if mark is None:
            return self._said(text)
        self.is_over = True
        return [*self._said(text), Finished(reason=self._reason(Finish.STOP), stop=mark)]

    def _said(self, text: str) -> list[Event]:
        """Return the text, with what was told of its tokens since something else was said."""
        if not text:
            return []
        logprobs, self._logprobs = tuple(self._logprobs), []
        return [TextDelta(text, logprobs)]

    def _called(self, call: Call) -> list[Event]:
        self._logprobs.clear()
        if self._calls and self._reading.one_at_a_time:
            return []
        index, self._calls = self._calls, self._calls + 1
        identity = call.id or self._new_id(self._reading.family.id_length)
        arguments = msgspec.json.encode(call.arguments).decode()
        return [ToolCallDelta(index=index, id=identity, name=call.name, arguments=arguments)]


class _Marked:
    """Reads families that put marks around reasoning and calls."""

    def __init__(self, reading: Reading, toolbox: Toolbox) -> None:
        family = reading.family
        style = family.thoughts if reading.reads_thoughts else None
        self._endings = Endings(ENDS_OF_TURN)
        self._thoughts = Thoughts(style, is_open=reading.is_open) if style else None
        self._cutter = Cutter(family.forms, toolbox.offered) if toolbox else None

    def feed(self, text: str) -> Sequence[Part | Call]:
        return self._split(self._endings.feed(text))

    def end(self, *, is_cut: bool) -> Sequence[Part | Call]:
        parts = [*self._split(self._endings.end())]
        for said in self._thoughts.end() if self._thoughts else ():
            parts += self._cut(said.text) if not said.is_thought else [Part(said.text, is_thought=True)]
        return [*parts, *_parts(self._cutter.end(is_cut=is_cut) if self._cutter else ())]

    def _split(self, text: str) -> list[Part | Call]:
        if not text:
            return []
        if self._thoughts is None:
            return self._cut(text)
        parts: list[Part | Call] = []
        for said in self._thoughts.feed(text):
            parts += [Part(said.text, is_thought=True)] if said.is_thought else self._cut(said.text)
        return parts

    def _cut(self, text: str) -> list[Part | Call]:
        return _parts(self._cutter.feed(text)) if self._cutter else [Part(text)]


class _Channels:
    """Reads gpt-oss's channels."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._harmony = Harmony()
        self._toolbox = toolbox

    def feed(self, text: str) -> Sequence[Part | Call]:
        return [self._known(part) for part in self._harmony.feed(text)]

    def end(self, *, is_cut: bool) -> Sequence[Part | Call]:
        return [self._known(part) for part in self._harmony.end(is_cut=is_cut)]

    def _known(self, part: Part) -> Part | Call:
        if not part.called:
            return part
        try:
            arguments = parse_json(part.text) if part.text else {}
        except ValueError:
            arguments = None
        call = Call(name=part.called, arguments=arguments) if isinstance(arguments, dict) else None
        return (self._toolbox.offered(call) if call else None) or Part(part.text)


def _splitter(reading: Reading, toolbox: Toolbox) -> _Marked | _Channels:
    return _Channels(toolbox) if reading.family.channels else _Marked(reading, toolbox)


def _parts(pieces: Sequence[Piece]) -> list[Part | Call]:
    return [Part(piece) if isinstance(piece, str) else piece for piece in pieces]


class _Stops:
    """Ends the text before the first stop sequence."""

    def __init__(self, marks: tuple[str, ...]) -> None:
        self._marks = tuple(mark for mark in marks if mark)
        self._rest = ""

    def feed(self, text: str) -> tuple[str, str | None]:
        """Return what is surely said, and the sequence that ends it there."""
        if not self._marks:
            return text, None
        text = self._rest + text
        found = [(at + len(mark), at, mark) for mark in self._marks if (at := text.find(mark)) >= 0]
        if found:  # the one that is complete first, however the text arrives
            _, at, mark = min(found)
            self._rest = ""
            return text[:at], mark
        cut = len(text) - held(text, self._marks)
        self._rest = text[cut:]
        return text[:cut], None

    def end(self) -> str:
        """Return what was held back."""
        rest, self._rest = self._rest, ""
        return rest
