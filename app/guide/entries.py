"""What the Guide can be asked for: intents of `resources/guide/questions.toml`, and the explanations it was trained on.

Questions that it was trained to decline are entries as well: what looks like them is declined here, too.
"""

import tomllib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path

import msgspec

from app.core.guide import GuideTool

_PHRASINGS = ("roundhouse", "commands", "endpoint", "trouble", "models", "small_talk")
_EXPLANATIONS = ("hardware", "local_ai", "memory_and_context", "quantisation", "speed", "engines")
"""Texts about local AI in general; those about the application are older than its manual."""
_REFUSALS = "refusals"
_ABOUT_THE_APP = frozenset(
    {"how-engine-is-chosen", "engine-is-a-process", "idle-unload", "does-not-fit", "lora", "slots"}
)
"""Explanations whose subject is an intent of its own, with the page that belongs to it."""
_CAN_BE_DONE = frozenset({"no-files", "no-look-images", "no-music-voice", "no-summarise", "no-control"})
"""Refusals of what the application can do by now, if not the Guide."""


class EntryKind(StrEnum):
    """What an entry leads to."""

    INTENT = "intent"
    EXPLANATION = "explanation"
    REFUSAL = "refusal"


class GuideEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that can be asked for, and how it is asked for."""

    id: str
    ask: list[str]
    answer: str = ""
    tool: GuideTool | None = None
    page: str = ""
    task: str = ""
    command: str = ""
    manual: str = ""
    when: list[str] = []
    """Words that together mean this: groups between blanks, each of words of which one is enough."""
    topics: list[str] = []
    """Topics of the training text that are asked for the same way."""
    denies: bool = False
    """Whether the answer says that there is no such thing here."""
    needs: str = ""
    """The kind of name without which this is not meant: `model` or `app`."""
    kind: EntryKind = EntryKind.INTENT


class _Topic(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    answer: str
    ask: list[str]
    held_out: list[str]


def load_entries(folder: Path) -> list[GuideEntry]:
    """Return everything in the Guide's folder. Raises OSError, and ValueError for a text that is not of its form."""
    intents = msgspec.convert(
        tomllib.loads((folder / "questions.toml").read_text(encoding="utf-8"))["intent"], list[GuideEntry]
    )
    text = folder / "training" / "text"
    topics = {topic.id: topic for name in _PHRASINGS for topic in _read_topics(text / f"{name}.toml")}
    intents = [_with_phrasings(intent, topics) for intent in intents]
    more = msgspec.convert(tomllib.loads((folder / "phrasings.toml").read_text(encoding="utf-8")), dict[str, list[str]])
    explanations = [
        GuideEntry(id=topic.id, ask=[*topic.ask, *topic.held_out], answer=topic.answer, kind=EntryKind.EXPLANATION)
        for name in _EXPLANATIONS
        for topic in _read_topics(text / f"{name}.toml")
        if topic.id not in _ABOUT_THE_APP
    ]
    refusals = [
        GuideEntry(id=topic.id, ask=[*topic.ask, *topic.held_out], kind=EntryKind.REFUSAL)
        for topic in _read_topics(text / f"{_REFUSALS}.toml")
        if topic.id not in _CAN_BE_DONE
    ]
    entries = [*intents, *explanations, *refusals]
    if strange := more.keys() - {entry.id for entry in entries}:
        raise ValueError(f"phrasings of what is no entry: {', '.join(sorted(strange))}")
    return [msgspec.structs.replace(entry, ask=[*entry.ask, *more.get(entry.id, [])]) for entry in entries]


def _with_phrasings(intent: GuideEntry, topics: Mapping[str, _Topic]) -> GuideEntry:
    more = [phrase for name in intent.topics for phrase in (*topics[name].ask, *topics[name].held_out)]
    return msgspec.structs.replace(intent, ask=[*intent.ask, *more])


def _read_topics(path: Path) -> Iterator[_Topic]:
    yield from msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8"))["topic"], list[_Topic])
