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

from app.gateway.canonical.events import (
    AnswerFinished,
    Event,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    TokenLogprob,
    ToolCallDelta,
)
from app.gateway.canonical.families.arguments import decode_schema, fit_arguments, parse_json, type_texts
from app.gateway.canonical.families.call_cutter import CallCutter, Piece
from app.gateway.canonical.families.calls import ParsedCall
from app.gateway.canonical.families.family import ModelFamily
from app.gateway.canonical.families.marks import (
    CHANNEL_MARKS,
    ENDS_OF_TURN,
    ReasoningSplitter,
    TurnEndStripper,
    first_mark,
    partial_mark_length,
)
from app.gateway.canonical.request import ToolDefinition

_RECIPIENT = re.compile(r"\bto=(?:functions\.)?([\w.-]+)")


class AnswerPart(NamedTuple):
    """A piece of an answer; `called` is a function's name, and then `text` all of its arguments."""

    text: str
    is_thought: bool = False
    called: str = ""


class HarmonySplitter:
    """Splits one answer. The prompt ended after `<|start|>assistant`."""

    def __init__(self) -> None:
        self._rest = ""
        self._header = ""
        self._is_body = True
        """Text without any channel is an answer."""
        self._arguments = ""

    def feed(self, text: str) -> Sequence[AnswerPart]:
        """Return what is surely said, and what it is."""
        self._rest += text
        parts: list[AnswerPart] = []
        while mark_found := first_mark(self._rest, CHANNEL_MARKS):
            at, mark = mark_found
            self._take_text(self._rest[:at], parts)
            self._rest = self._rest[at + len(mark) :]
            self._take_mark(mark, parts)
        cut = len(self._rest) - partial_mark_length(self._rest, CHANNEL_MARKS)
        self._take_text(self._rest[:cut], parts)
        self._rest = self._rest[cut:]
        return parts

    def end(self, *, is_cut: bool) -> Sequence[AnswerPart]:
        """Return what was held back. Of an answer cut off by its limit, an unfinished call is no call."""
        parts: list[AnswerPart] = []
        self._take_text(self._rest, parts)
        self._rest = ""
        if not is_cut:
            self._end_call(parts)
        return parts

    def _take_mark(self, mark: str, parts: list[AnswerPart]) -> None:
        if mark == "<|message|>":
            self._is_body = True
            return
        if mark in {"<|end|>", "<|return|>", "<|call|>", "<|start|>"}:
            self._end_call(parts)
            self._header = ""
        self._is_body = False
        self._header += f" {mark} "

    def _take_text(self, text: str, parts: list[AnswerPart]) -> None:
        if not text:
            return
        if not self._is_body:
            self._header += text
        elif _RECIPIENT.search(self._header):
            self._arguments += text
        else:
            parts.append(AnswerPart(text, is_thought="analysis" in self._header))

    def _end_call(self, parts: list[AnswerPart]) -> None:
        recipient = _RECIPIENT.search(self._header) if self._is_body else None
        if recipient is not None:
            parts.append(AnswerPart(self._arguments.strip(), called=recipient[1]))
        self._arguments, self._is_body, self._header = "", False, ""


NewId = Callable[[int], str]
_ID_LENGTH = 24
_PREFIXES = ("functions.", "default_api.", "tools.")
"""What some models put before a tool's name."""


class ReadingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How one answer is to be read. Of tools and thoughts only what is left to be told apart."""

    family: ModelFamily
    tools: tuple[ToolDefinition, ...] = ()
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


class OfferedTools:
    """The tools a model was offered."""

    def __init__(self, tools: Iterable[ToolDefinition]) -> None:
        self._schemas = {tool.name: decode_schema(tool.parameters) for tool in tools}

    def __bool__(self) -> bool:
        return bool(self._schemas)

    def match_tool(self, call: ParsedCall) -> ParsedCall | None:
        """Return the call with its name and arguments as the tool has them; None if there is no such tool."""
        name = next((candidate for candidate in _candidate_names(call.name) if candidate in self._schemas), None)
        if name is None:
            return None
        schema = self._schemas[name]
        texts = {key: value for key, value in call.arguments.items() if isinstance(value, str)}
        arguments = {**call.arguments, **type_texts(texts, schema)} if call.is_text else call.arguments
        return msgspec.structs.replace(call, name=name, arguments=fit_arguments(arguments, schema))


def _candidate_names(name: str) -> Iterable[str]:
    yield name
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            yield name.removeprefix(prefix)


class AnswerReader:
    """Reads one answer. `is_over` once it has ended it, whatever the engine would still say."""

    def __init__(self, reading_options: ReadingOptions, new_id: NewId = new_id) -> None:
        self.is_over = False
        self._reading_options = reading_options
        self._new_id = new_id
        self._toolbox = OfferedTools(reading_options.tools)
        self._text = _splitter(reading_options, self._toolbox)
        self._stops = _StopSequenceCutter(reading_options.stops)
        self._calls = 0
        self._logprobs: list[TokenLogprob] = []

    @property
    def has_called(self) -> bool:
        """Whether there has been a call."""
        return self._calls > 0

    def take_events(self, batch: Iterable[Event]) -> list[Event]:
        """Return what some events of the engine's mean; nothing once it is over."""
        return [events for event in batch if not self.is_over for events in self._take_event(event)]

    def _take_event(self, event: Event) -> list[Event]:
        match event:
            case TextDelta(text=text, logprobs=logprobs):
                self._logprobs += logprobs
                return self._events_of_parts(self._text.feed(text))
            case ToolCallDelta():
                self._calls = max(self._calls, event.index + 1)
            case AnswerFinished():
                return self._finish_answer(event)
            case _:
                pass
        return [event]

    def _finish_answer(self, end: AnswerFinished) -> list[Event]:
        events = self._events_of_parts(self._text.end(is_cut=end.reason is FinishReason.LENGTH))
        if self.is_over:
            return events
        self.is_over = True
        return [
            *events,
            *self._text_events(self._stops.end()),
            msgspec.structs.replace(end, reason=self._finish_reason(end.reason)),
        ]

    def _finish_reason(self, reason: FinishReason) -> FinishReason:
        return FinishReason.TOOL_CALLS if self.has_called and reason is FinishReason.STOP else reason

    def _events_of_parts(self, parts: Sequence[AnswerPart | ParsedCall]) -> list[Event]:
        return [event for part in parts if not self.is_over for event in self._events_of_part(part)]

    def _events_of_part(self, part: AnswerPart | ParsedCall) -> list[Event]:
        if isinstance(part, ParsedCall):
            return [*self._text_events(self._stops.end()), *self._call_events(part)]
        if part.is_thought:
            self._logprobs.clear()
            return [ReasoningDelta(part.text)]
        text, mark = self._stops.feed(part.text)
        if mark is None:
            return self._text_events(text)
        self.is_over = True
        return [*self._text_events(text), AnswerFinished(reason=self._finish_reason(FinishReason.STOP), stop=mark)]

    def _text_events(self, text: str) -> list[Event]:
        """Return the text, with what was told of its tokens since something else was said."""
        if not text:
            return []
        logprobs, self._logprobs = tuple(self._logprobs), []
        return [TextDelta(text, logprobs)]

    def _call_events(self, call: ParsedCall) -> list[Event]:
        self._logprobs.clear()
        if self._calls and self._reading_options.one_at_a_time:
            return []
        index, self._calls = self._calls, self._calls + 1
        identity = call.id or self._new_id(self._reading_options.family.id_length)
        arguments = msgspec.json.encode(call.arguments).decode()
        return [ToolCallDelta(index=index, id=identity, name=call.name, arguments=arguments)]


class _MarkedSplitter:
    """Reads families that put marks around reasoning and calls."""

    def __init__(self, reading_options: ReadingOptions, toolbox: OfferedTools) -> None:
        family = reading_options.family
        style = family.thoughts if reading_options.reads_thoughts else None
        self._endings = TurnEndStripper(ENDS_OF_TURN)
        self._thoughts = ReasoningSplitter(style, is_open=reading_options.is_open) if style else None
        self._cutter = CallCutter(family.forms, toolbox.match_tool) if toolbox else None

    def feed(self, text: str) -> Sequence[AnswerPart | ParsedCall]:
        return self._split(self._endings.feed(text))

    def end(self, *, is_cut: bool) -> Sequence[AnswerPart | ParsedCall]:
        parts = [*self._split(self._endings.end())]
        for span in self._thoughts.end() if self._thoughts else ():
            parts += self._cut(span.text) if not span.is_thought else [AnswerPart(span.text, is_thought=True)]
        return [*parts, *_parts(self._cutter.end(is_cut=is_cut) if self._cutter else ())]

    def _split(self, text: str) -> list[AnswerPart | ParsedCall]:
        if not text:
            return []
        if self._thoughts is None:
            return self._cut(text)
        parts: list[AnswerPart | ParsedCall] = []
        for span in self._thoughts.feed(text):
            parts += [AnswerPart(span.text, is_thought=True)] if span.is_thought else self._cut(span.text)
        return parts

    def _cut(self, text: str) -> list[AnswerPart | ParsedCall]:
        return _parts(self._cutter.feed(text)) if self._cutter else [AnswerPart(text)]


class _ChannelSplitter:
    """Reads gpt-oss's channels."""

    def __init__(self, toolbox: OfferedTools) -> None:
        self._harmony = HarmonySplitter()
        self._toolbox = toolbox

    def feed(self, text: str) -> Sequence[AnswerPart | ParsedCall]:
        return [self._match_call(part) for part in self._harmony.feed(text)]

    def end(self, *, is_cut: bool) -> Sequence[AnswerPart | ParsedCall]:
        return [self._match_call(part) for part in self._harmony.end(is_cut=is_cut)]

    def _match_call(self, part: AnswerPart) -> AnswerPart | ParsedCall:
        if not part.called:
            return part
        try:
            arguments = parse_json(part.text) if part.text else {}
        except ValueError:
            arguments = None
        call = ParsedCall(name=part.called, arguments=arguments) if isinstance(arguments, dict) else None
        return (self._toolbox.match_tool(call) if call else None) or AnswerPart(part.text)


def _splitter(reading_options: ReadingOptions, toolbox: OfferedTools) -> _MarkedSplitter | _ChannelSplitter:
    return _ChannelSplitter(toolbox) if reading_options.family.channels else _MarkedSplitter(reading_options, toolbox)


def _parts(pieces: Sequence[Piece]) -> list[AnswerPart | ParsedCall]:
    return [AnswerPart(piece) if isinstance(piece, str) else piece for piece in pieces]


class _StopSequenceCutter:
    """Ends the text before the first stop sequence."""

    def __init__(self, marks: tuple[str, ...]) -> None:
        self._marks = tuple(mark for mark in marks if mark)
        self._rest = ""

    def feed(self, text: str) -> tuple[str, str | None]:
        """Return what is surely said, and the sequence that ends it there."""
        if not self._marks:
            return text, None
        text = self._rest + text
        stops_found = [(at + len(mark), at, mark) for mark in self._marks if (at := text.find(mark)) >= 0]
        if stops_found:  # the one that is complete first, however the text arrives
            _, at, mark = min(stops_found)
            self._rest = ""
            return text[:at], mark
        cut = len(text) - partial_mark_length(text, self._marks)
        self._rest = text[cut:]
        return text[:cut], None

    def end(self) -> str:
        """Return what was held back."""
        rest, self._rest = self._rest, ""
        return rest
