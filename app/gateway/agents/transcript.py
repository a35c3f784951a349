"""What happened in a session, as entries, and what of it a reader has not seen. Pure.

Every change gives the entry a higher revision. A reader is told each entry that is newer than what it saw, and of an
answer or a thought only what was added.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from app.core.agents import (
    LONGEST_PART,
    AgentAnswer,
    AgentAsks,
    AgentCallStatus,
    AgentCallUpdate,
    AgentEntry,
    AgentEntryChanged,
    AgentNote,
    AgentPermission,
    AgentPlan,
    AgentPlanStep,
    AgentPlanUpdate,
    AgentPrompt,
    AgentRemark,
    AgentTerminal,
    AgentTerminalUpdate,
    AgentTextAdded,
    AgentThought,
    AgentToolCall,
    AgentUpdate,
    AgentWords,
)

LARGEST_CHARACTERS = 20_000_000
"""Of all that an agent tells in a session: days of work; what writes more has lost its way."""
MOST_ENTRIES = 20_000
_OPEN_CALLS = frozenset({AgentCallStatus.PENDING, AgentCallStatus.IN_PROGRESS})


class Transcript:
    """The entries of one session, in order; an entry's number is its place."""

    def __init__(self, entries: Sequence[AgentEntry] = ()) -> None:
        self._entries = list(entries)
        self._revisions = [0] * len(self._entries)
        self._texts: dict[int, list[str]] = {}
        """Of the entry that grows: its text in pieces."""
        self._characters = 0
        self._turn_begins = len(self._entries)
        self.revision = 0
        self._calls: dict[str, int] = {}
        self._terminals: dict[str, int] = {}

    @property
    def is_too_large(self) -> bool:
        """Whether the agent told more than is kept."""
        return self._characters > LARGEST_CHARACTERS or len(self._entries) > MOST_ENTRIES

    @property
    def entries(self) -> list[AgentEntry]:
        """Every entry as it is now."""
        for number in list(self._texts):
            self._join_text(number)
        return list(self._entries)

    def begin_turn(self, text: str) -> None:
        """Note what a person asks."""
        self._turn_begins = len(self._entries)
        self._add_entry(AgentPrompt(id=len(self._entries), text=text))

    def add_note(self, text: str, *, is_problem: bool = False) -> None:
        """Note something about the session."""
        self._add_entry(AgentNote(id=len(self._entries), text=text, is_problem=is_problem))

    def end_turn(self) -> None:
        """Close what the agent left open: calls that have not ended, and requests that nobody answered."""
        for number in range(self._turn_begins, len(self._entries)):
            match self._entries[number]:
                case AgentToolCall(status=status) as call if status in _OPEN_CALLS:
                    self._change_entry(replace(call, status=AgentCallStatus.CANCELLED))
                case AgentPermission(is_open=True) as question:
                    self._change_entry(replace(question, is_open=False))
        self._calls.clear()

    def take_update(self, update: AgentUpdate) -> None:
        """Note what an agent tells."""
        match update:
            case AgentWords(text=text, is_thought=is_thought):
                self._append_words(text, is_thought=is_thought)
            case AgentCallUpdate():
                self._take_call(update)
            case AgentPlanUpdate(steps=steps):
                self._take_plan(steps)
            case AgentTerminalUpdate():
                self._take_terminal(update)
            case AgentRemark(text=text):
                self.add_note(text)

    def add_question(self, question: AgentAsks) -> None:
        """Note a request for permission."""
        self._characters += len(question.arguments) + len(question.text) + sum(len(d.diff) for d in question.diffs)
        self._add_entry(
            AgentPermission(
                id=len(self._entries),
                request=question.request,
                title=question.title,
                kind=question.kind,
                arguments=question.arguments,
                text=question.text,
                diffs=question.diffs,
                options=question.options,
            )
        )

    def find_question(self, number: int) -> AgentPermission | None:
        """Return the request for permission that is this entry."""
        entry = self._entries[number] if 0 <= number < len(self._entries) else None
        return entry if isinstance(entry, AgentPermission) else None

    def answer_question(self, question: AgentPermission, option: str) -> None:
        """Note what a person decided."""
        self._change_entry(replace(question, is_open=False, answer=option))

    def close_question(self, request: int) -> None:
        """Note that the agent waits no longer for an answer."""
        for entry in self._entries[self._turn_begins :]:
            if isinstance(entry, AgentPermission) and entry.request == request and entry.is_open:
                self._change_entry(replace(entry, is_open=False))

    @property
    def has_questions(self) -> bool:
        """Whether a person has something to decide."""
        return any(isinstance(entry, AgentPermission) and entry.is_open for entry in self._entries[self._turn_begins :])

    def news_since(self, reader: "TranscriptReader") -> Iterator[AgentEntryChanged | AgentTextAdded]:
        """Yield what a reader has not seen, and note that it has."""
        for number, revision in enumerate(self._revisions):
            if revision <= reader.revision and number < reader.count:
                continue
            entry = self._join_text(number)
            if isinstance(entry, (AgentAnswer, AgentThought)):
                length = reader.lengths.get(number)
                reader.lengths[number] = len(entry.text)
                if length is not None:
                    yield AgentTextAdded(entry=number, offset=length, text=entry.text[length:])
                    continue
            yield AgentEntryChanged(entry=entry)
        reader.revision, reader.count = self.revision, len(self._entries)

    def _add_entry(self, entry: AgentEntry) -> None:
        self._entries.append(entry)
        self.revision += 1
        self._revisions.append(self.revision)

    def _change_entry(self, entry: AgentEntry) -> None:
        self._entries[entry.id] = entry
        self.revision += 1
        self._revisions[entry.id] = self.revision

    def _append_words(self, text: str, *, is_thought: bool) -> None:
        if not text:
            return
        self._characters += len(text)
        kind = AgentThought if is_thought else AgentAnswer
        if not self._entries or type(self._entries[-1]) is not kind:
            self._add_entry(kind(id=len(self._entries), text=""))
        number = len(self._entries) - 1
        self._texts.setdefault(number, [self._text_of(number)]).append(text)
        self.revision += 1
        self._revisions[number] = self.revision

    def _text_of(self, number: int) -> str:
        entry = self._entries[number]
        return entry.text if isinstance(entry, (AgentAnswer, AgentThought)) else ""

    def _join_text(self, number: int) -> AgentEntry:
        pieces = self._texts.pop(number, None)
        entry = self._entries[number]
        if pieces is not None and isinstance(entry, (AgentAnswer, AgentThought)):
            entry = self._entries[number] = replace(entry, text="".join(pieces))
        return entry

    def _take_call(self, update: AgentCallUpdate) -> None:
        number = self._calls.get(update.call)
        if number is None:
            number = self._calls[update.call] = len(self._entries)
            self._add_entry(AgentToolCall(id=number, call=update.call))
        call = self._entries[number]
        assert isinstance(call, AgentToolCall)  # noqa: S101 -- made above
        news = {
            name: value
            for name in ("title", "kind", "status", "arguments", "text", "diffs", "paths")
            if (value := getattr(update, name)) is not None
        }
        if not news.get("diffs") and call.diffs:
            news.pop("diffs", None)  # some tell the change first, and then only that it was made
        self._characters += len(update.text or "") + len(update.arguments or "")
        self._characters += sum(len(diff.diff) for diff in update.diffs or ())
        changed_call = replace(call, **news)
        if changed_call != call:
            self._change_entry(changed_call)

    def _take_plan(self, steps: list[AgentPlanStep]) -> None:
        self._characters += sum(len(step.text) for step in steps)
        for entry in self._entries[self._turn_begins :]:
            if isinstance(entry, AgentPlan):
                self._change_entry(replace(entry, steps=steps))
                return
        self._add_entry(AgentPlan(id=len(self._entries), steps=steps))

    def _take_terminal(self, update: AgentTerminalUpdate) -> None:
        number = self._terminals.get(update.terminal)
        if number is None:
            number = self._terminals[update.terminal] = len(self._entries)
            self._add_entry(AgentTerminal(id=number, terminal=update.terminal, command=update.command[:LONGEST_PART]))
        terminal = self._entries[number]
        assert isinstance(terminal, AgentTerminal)  # noqa: S101 -- made above
        self._characters += len(update.output)
        output = (terminal.output + update.output)[:LONGEST_PART]
        self._change_entry(replace(terminal, output=output, exit_code=update.exit_code))


class TranscriptReader:
    """How far one reader has come."""

    def __init__(self) -> None:
        self.revision = 0
        self.count = 0
        self.lengths: dict[int, int] = {}
        """Characters of answers and thoughts that it has."""
