"""Read the Guide's text: what it knows, and the ways people ask for it.

Every file in `text/` holds `[[topic]]` tables: one answer, the phrasings the
model is trained on (`ask`) and paraphrases kept for the examination (`held_out`).
Only the standard library is used, so that the examination runs inside the app.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TEXT_FOLDER = HERE / "text"


@dataclass(frozen=True)
class Topic:
    """One answer and its questions."""

    id: str
    answer: str
    ask: tuple[str, ...]
    held_out: tuple[str, ...]


class TextError(Exception):
    """The text contradicts itself: the message lists every contradiction."""


def load_topics(folder: Path = TEXT_FOLDER) -> tuple[Topic, ...]:
    """Return every topic in file-name order; raise TextError on a contradiction."""
    topics = tuple(
        _topic(table)
        for path in sorted(folder.glob("*.toml"))
        for table in tomllib.loads(path.read_text(encoding="utf-8")).get("topic", [])
    )
    faults = find_faults(topics)
    if faults:
        raise TextError("\n".join(faults))
    return topics


def find_faults(topics: tuple[Topic, ...]) -> list[str]:
    """List repeated ids, repeated answers and questions that lead to two topics."""
    faults: list[str] = []
    ids: set[str] = set()
    answers: dict[str, str] = {}
    questions: dict[str, str] = {}
    for topic in topics:
        if topic.id in ids:
            faults.append(f"{topic.id}: the id is used twice")
        ids.add(topic.id)
        twin = answers.setdefault(topic.answer, topic.id)
        if twin != topic.id:
            faults.append(f"{topic.id}: the same answer as {twin}")
        for question in topic.ask + topic.held_out:
            owner = questions.setdefault(normalise(question), topic.id)
            if owner != topic.id:
                faults.append(f"{topic.id}: {question!r} also asks for {owner}")
    return faults


def find_leaks(topics: tuple[Topic, ...]) -> list[str]:
    """List held-out paraphrases that are trained on, which would flatter the result."""
    return [
        f"{topic.id}: {question!r} is held out and trained on"
        for topic in topics
        for question in topic.held_out
        if normalise(question) in {normalise(known) for known in topic.ask}
    ]


def normalise(text: str) -> str:
    """Fold case, spacing and all punctuation but the underscores of names."""
    kept = (char if char.isalnum() or char == "_" else " " for char in text.casefold())
    return " ".join("".join(kept).split()) or text.strip()


def _topic(table: dict[str, object]) -> Topic:
    return Topic(
        id=str(table["id"]),
        answer=str(table["answer"]).strip(),
        ask=_strings(table["ask"]),
        held_out=_strings(table["held_out"]),
    )


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        message = f"a list of questions was expected, not {value!r}"
        raise TextError(message)
    return tuple(dict.fromkeys(str(item).strip() for item in value))
