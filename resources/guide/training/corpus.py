"""Turn the topics into conversations the model learns from.

A conversation holds one or more unrelated questions, each with its answer, maybe
after a system message and with a tool's or another model's words in between: the
right answer depends on the last question alone. Only the Guide's own words and its
end-of-turn carry loss. Position numbers jump between some turns, so that distances
up to the full context are met without paying for its length.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from augment import Rates, Variator, Wording, load_wording
from model import Shape
from offtopic import UNKNOWN_ID, OffTopic
from tokenizer import TURN_END, TURN_START, encode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from tokenizers import Tokenizer
    from topics import Topic
    from torch import Tensor

IGNORED = -100  # the target torch's cross entropy skips
TURN_COUNTS = (1, 2, 3, 4, 5, 6)
TURN_WEIGHTS = (60, 14, 9, 7, 5, 5)


@dataclass(frozen=True)
class Mix:
    """What share of conversations, or of turns, has each peculiarity."""

    system: float = 0.35
    long: float = 0.02
    tool: float = 0.04
    stranger: float = 0.04
    unknown: float = 0.015
    pattern: float = 0.6
    plain: float = 0.2
    joined: float = 0.03
    cut: float = 0.5
    jump: float = 0.3
    is_by_question: bool = False


LEARN_ANSWERS = Mix()  # every topic comes up equally often
LEARN_QUESTIONS = Mix(plain=0.35, pattern=0.25, cut=0.75, joined=0.08, is_by_question=True)  # every phrasing does


@dataclass
class Conversation:
    """Token ids with, for each, its target flag and its position number."""

    ids: list[int] = field(default_factory=list)
    is_target: list[bool] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    last_answer: int = 0

    def add(self, ids: list[int], *, is_target: bool = False, skip: int = 0) -> None:
        """Append tokens after leaving out `skip` position numbers."""
        start = self.positions[-1] + 1 + skip if self.positions else skip
        if is_target:
            self.last_answer = len(self.ids)
        self.ids += ids
        self.is_target += [is_target] * len(ids)
        self.positions += range(start, start + len(ids))


@dataclass(frozen=True)
class Lesson:
    """A topic to ask for, in one of its phrasings or in any."""

    topic_id: str
    question: str = ""


@dataclass(frozen=True)
class Batch:
    """Padded conversations: ids, targets shifted by one, positions; (rows, time)."""

    ids: Tensor
    targets: Tensor
    positions: Tensor


class Corpus:
    """Draws conversations and batches from one seeded generator."""

    def __init__(self, topics: tuple[Topic, ...], tokenizer: Tokenizer, rng: Random, mix: Mix) -> None:
        self._rng = rng
        self._tokenizer = tokenizer
        self._wording: Wording = load_wording()
        self._variator = Variator(self._wording, Rates())
        self._off_topic = OffTopic()
        self._mix = mix
        self._questions = {topic.id: topic.ask for topic in topics}
        self._answers = {topic.id: encode(tokenizer, topic.answer + TURN_END) for topic in topics}
        self._order: list[Lesson] = []
        self._newline = encode(tokenizer, "\n")

    def batches(self, token_count: int, *, longest: int) -> Iterator[Batch]:
        """Yield batches of about `token_count` tokens without end, alike in length."""
        while True:
            pool = sorted((self.conversation(longest) for _ in range(1500)), key=lambda talk: len(talk.ids))
            groups = _group(pool, token_count)
            self._rng.shuffle(groups)
            yield from map(pad, groups)

    def conversation(self, longest: int) -> Conversation:
        """Draw one conversation of at most `longest` tokens."""
        talk = Conversation()
        reach = self._rng.randrange(Shape.context - longest) if self._rng.random() < self._mix.jump else 0
        if self._rng.random() < self._mix.system:
            self._add_turn(talk, "system", self._rng.choice(self._wording.systems))
        for turn in range(self._turn_count()):
            skip = self._rng.randrange(reach + 1) if turn or talk.ids else 0
            reach -= skip
            self._add_exchange(talk, skip)
        self._cut(talk, longest)
        return talk

    def _turn_count(self) -> int:
        if self._rng.random() < self._mix.long:
            return self._rng.randrange(7, 17)
        return self._rng.choices(TURN_COUNTS, TURN_WEIGHTS)[0]

    def _add_exchange(self, talk: Conversation, skip: int) -> None:
        lesson = self._next_lesson()
        self._add_turn(talk, "user", self._question(lesson), skip)
        if self._rng.random() < self._mix.stranger:
            self._add_turn(talk, "assistant", self._rng.choice(self._wording.strangers))
            self._add_turn(talk, "user", self._question(lesson))
        if self._rng.random() < self._mix.tool:
            self._add_turn(talk, "assistant", "")
            self._add_turn(talk, "tool", self._rng.choice(self._wording.tools))
        talk.add(encode(self._tokenizer, f"{TURN_START}assistant\n"))
        talk.add(self._answers[lesson.topic_id], is_target=True)
        talk.add(self._newline)

    def _add_turn(self, talk: Conversation, role: str, text: str, skip: int = 0) -> None:
        talk.add(encode(self._tokenizer, f"{TURN_START}{role}\n{text.strip()}{TURN_END}\n"), skip=skip)

    def _next_lesson(self) -> Lesson:
        if self._rng.random() < self._mix.unknown:
            return Lesson(UNKNOWN_ID)
        if not self._order:
            self._order = list(self._lessons())
            self._rng.shuffle(self._order)
        return self._order.pop()

    def _lessons(self) -> Iterator[Lesson]:
        for topic_id, questions in self._questions.items():
            if self._mix.is_by_question:
                yield from (Lesson(topic_id, question) for question in questions)
            else:
                yield Lesson(topic_id)

    def _question(self, lesson: Lesson) -> str:
        if lesson.topic_id in self._off_topic.topic_ids and self._rng.random() < self._mix.pattern:
            return self._variator.vary(self._off_topic.question(lesson.topic_id, self._rng), self._rng)
        if self._rng.random() < self._mix.plain:
            return self._phrasing(lesson).lower()
        if self._rng.random() < self._mix.joined:
            return " ".join(self._variator.vary(self._phrasing(lesson), self._rng) for _ in range(2))
        return self._variator.vary(self._phrasing(lesson), self._rng)

    def _phrasing(self, lesson: Lesson) -> str:
        return lesson.question or self._rng.choice(self._questions[lesson.topic_id])

    def _cut(self, talk: Conversation, longest: int) -> None:
        """Drop most of the last answer now and then: its first words are the hard ones."""
        if self._rng.random() < self._mix.cut:
            longest = min(longest, talk.last_answer + self._rng.randrange(8, 20))
        for series in (talk.ids, talk.is_target, talk.positions):
            del series[longest:]


def _group(pool: list[Conversation], token_count: int) -> list[list[Conversation]]:
    groups: list[list[Conversation]] = [[]]
    for talk in pool:
        if groups[-1] and (len(groups[-1]) + 1) * len(talk.ids) > token_count:
            groups.append([])
        groups[-1].append(talk)
    return groups


def pad(talks: list[Conversation]) -> Batch:
    """Stack conversations, filling the shorter ones up at their ends."""
    shape = (len(talks), max(len(talk.ids) for talk in talks))
    ids = torch.zeros(shape, dtype=torch.long)
    targets = torch.full(shape, IGNORED)
    positions = torch.zeros(shape, dtype=torch.long)
    for row, talk in enumerate(talks):
        length = len(talk.ids)
        ids[row, :length] = torch.tensor(talk.ids)
        positions[row, :length] = torch.tensor(talk.positions)
        shifted = [ident if flag else IGNORED for ident, flag in zip(talk.ids[1:], talk.is_target[1:], strict=True)]
        targets[row, : length - 1] = torch.tensor(shifted, dtype=torch.long)
    return Batch(ids, targets, positions)
