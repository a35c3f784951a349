"""How a fleet grows from 1 to 1,000 replicas: a simulation of events, in plain Python.

`python -m tests.bench.scaling --write` writes the tables of docs/internals/scaling.md, which states the assumptions.

People lead conversations: each asks, waits for the answer, thinks, and asks again with all that went before. A replica
reads prompts one after the other and meanwhile writes nothing; otherwise it writes a token of every answer at each
step, and a step takes longer with more answers. It keeps what it read for as long as there is room. Nothing here needs
a logarithm: sums and quotients are alike on every machine, and so are the tables.
"""

import functools
import heapq
import itertools
import math
import random
import re
import sys
from collections import OrderedDict, deque
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from tests.bench.figures import percentile

PAGE = Path(__file__).resolve().parents[2] / "docs" / "internals" / "scaling.md"

PEOPLE = 96
"""For each replica, unless a table says otherwise."""
THINKING_S = (15.0, 45.0)
SYSTEM_TOKENS = 1000
"""What every conversation begins with."""
QUESTION_TOKENS = (100, 900)
ANSWER_TOKENS = (50, 350)
TURNS = 8
"""After which a person begins another conversation."""

READING_PER_S = 8000.0
"""Prompt tokens."""
STEP_S, STEP_MORE_S = 0.014, 0.00025
"""A step of an engine, and what each answer adds to it."""
SLOTS = 64
CACHE_TOKENS = 300_000
DOLLARS_AN_HOUR = 2.0

RUN_S, WARM_UP_S = 150.0, 60.0
"""Requests of the warm-up are not counted: each person has asked once when it is over."""
SEED = 25
SIZES = (1, 3, 10, 30, 100, 300, 1000)
ROUTERS, ROUTED = (1, 2, 4, 8), 100
SERVED, STEP, MOST = (1, 10, 100), 8, 320
FIRST_WITHIN_S, WHOLE_WITHIN_S = 1.0, 15.0
"""What people are promised, 99 of 100 times."""
ROUTER_US = {
    "Roundhouse's gateway": (214, 60),
    "smg, round robin": (243, 88),
    "smg, cache-aware": (253, 75),
    "vllm-router, round robin": (78, 70),
    "vllm-router, cache-aware": (203, 73),
}
"""Microseconds of a core for a whole answer, and for a token of a stream: `python -m tests.bench routers`."""
SPILL_MORE, SPILL_LEAST, SPILL_TIMES = 64.0, 4.0, 1.5
"""smg 1.13.0 passes a replica over, whatever it has in its cache, if it has more than 1.5 times the mean and as many
requests more than the mean as two of their standard deviations are, which are 4 at least and 64 at most."""


class Policy(StrEnum):
    """How a router chooses a replica."""

    ROUND_ROBIN = "round robin"
    LEAST_LOADED = "least loaded"
    CACHE_AWARE = "cache-aware"


class Person:
    """Who asks; `tokens` is how much of the conversation there is."""

    __slots__ = ("conversation", "tokens", "turn")

    def __init__(self, conversation: int, turn: int) -> None:
        self.conversation, self.turn, self.tokens = conversation, turn, SYSTEM_TOKENS


class Question(NamedTuple):
    """One request on its way, and where it went."""

    person: Person
    asked_at: float
    prompt: int
    answer: int
    router: int


class Router:
    """What one router knows: the requests that it gave to each replica, and where each conversation was last."""

    def __init__(self, replicas: int, rng: random.Random) -> None:
        self._rng = rng
        self._loads = [0] * replicas
        self._alike: list[list[int]] = [list(range(replicas))]
        self._places = list(range(replicas))
        self._least = self._total = self._turn = 0
        self._homes: dict[int, int] = {}

    def choose(self, policy: Policy, conversation: int) -> int:
        """Return the replica that gets a question."""
        if policy is Policy.ROUND_ROBIN:
            self._turn = (self._turn + 1) % len(self._loads)
            return self._turn
        home = self._homes.get(conversation) if policy is Policy.CACHE_AWARE else None
        if home is None or self._is_crowded(home):
            home = self._homes[conversation] = self._rng.choice(self._alike[self._least])
        return home

    def _is_crowded(self, replica: int) -> bool:
        load, mean = self._loads[replica], self._total / len(self._loads)
        margin = min(SPILL_MORE, max(SPILL_LEAST, 2 * math.sqrt(mean)))
        return load > mean + margin and load > mean * SPILL_TIMES

    def count(self, replica: int, change: int) -> None:
        """Note that a replica has one request more, or less."""
        load = self._loads[replica]
        alike, place = self._alike[load], self._places[replica]
        self._places[alike[-1]] = place
        alike[place] = alike[-1]
        alike.pop()
        load += change
        if load == len(self._alike):
            self._alike.append([])
        self._places[replica] = len(self._alike[load])
        self._alike[load].append(replica)
        self._loads[replica] = load
        self._total += change
        self._least = min(self._least, load)
        while not self._alike[self._least]:
            self._least += 1


class Replica:
    """An engine. `written` is how many tokens an answer has that was written all the time."""

    def __init__(self) -> None:
        self.line: deque[Question] = deque()
        self.prefill_question: Question | None = None
        self.decode_queue: list[tuple[float, int, Question]] = []
        self.version = 0
        self._cache: OrderedDict[int, int] = OrderedDict()
        self._cached_tokens = 0
        self._written_tokens = self._at = 0.0

    def advance(self, now: float) -> None:
        """Write until now, unless a prompt was being read."""
        if self.prefill_question is None and self.decode_queue:
            self._written_tokens += (now - self._at) / self._step_s()
        self._at = now

    def _step_s(self) -> float:
        return STEP_S + STEP_MORE_S * len(self.decode_queue)

    def begin(self) -> tuple[float, int] | None:
        """Begin to read a prompt; return for how long, and how much of it was in the cache. None: nothing to read."""
        if self.prefill_question is not None or not self.line or len(self.decode_queue) == SLOTS:
            return None
        self.prefill_question = question = self.line.popleft()
        cached_tokens = SYSTEM_TOKENS + self.recall(question.person.conversation)
        self.keep(question.person.conversation, question.prompt)
        return (question.prompt - cached_tokens) / READING_PER_S, cached_tokens

    def end_reading(self, number: int) -> Question:
        """Begin to write the answer to what was read."""
        question = self.prefill_question
        assert question is not None
        self.prefill_question = None
        heapq.heappush(self.decode_queue, (self._written_tokens + question.answer, number, question))
        return question

    def next_end_s(self) -> float:
        """Return how long it takes until an answer is whole."""
        return max(0.0, (self.decode_queue[0][0] - self._written_tokens) * self._step_s())

    def recall(self, conversation: int) -> int:
        """Return how much of a conversation is in the cache, without what all have in common."""
        return self._cache.get(conversation, 0)

    def keep(self, conversation: int, tokens: int) -> None:
        """Keep a conversation, and forget those that were used longest ago."""
        own = tokens - SYSTEM_TOKENS
        self._cached_tokens += own - self._cache.pop(conversation, 0)
        self._cache[conversation] = own
        while self._cached_tokens > CACHE_TOKENS:
            self._cached_tokens -= self._cache.popitem(last=False)[1]


class Row(NamedTuple):
    """What one fleet does; of the two times p50 and p99."""

    tokens_per_s: float
    requests_per_s: float
    hit: float
    ttft_s: tuple[float, float]
    total_s: tuple[float, float]


class Simulation:
    """One fleet under one policy; a question goes to any of the routers."""

    def __init__(self, replicas: int, policy: Policy, routers: int, people: int) -> None:
        self._rng = rng = random.Random(SEED)  # noqa: S311 -- no secret: the same each time
        self._policy = policy
        self._replicas = [Replica() for _ in range(replicas)]
        self._routers = [Router(replicas, rng) for _ in range(routers)]
        self._numbers = itertools.count()
        self._events: list[tuple[float, int, Person | int, int]] = []
        self._ttfts: list[float] = []
        self._totals: list[float] = []
        self._prompt = self._cached_tokens = self._answer = 0
        for number in range(people * replicas):
            person = Person(-number - 1, rng.randrange(TURNS))
            self._plan(rng.uniform(0.0, THINKING_S[1]), person)

    def run(self) -> Row:
        """Return what the fleet did after the warm-up."""
        while self._events:
            now, _, subject, version = heapq.heappop(self._events)
            if now > RUN_S:
                break
            if isinstance(subject, Person):
                self._ask(now, subject)
            elif self._replicas[subject].version == version:
                self._go_on(now, subject)
        seconds = RUN_S - WARM_UP_S
        return Row(
            tokens_per_s=self._answer / seconds,
            requests_per_s=len(self._totals) / seconds,
            hit=self._cached_tokens / self._prompt,
            ttft_s=(percentile(self._ttfts, 50), percentile(self._ttfts, 99)),
            total_s=(percentile(self._totals, 50), percentile(self._totals, 99)),
        )

    def _plan(self, at: float, subject: Person | int, version: int = 0) -> None:
        heapq.heappush(self._events, (at, next(self._numbers), subject, version))

    def _ask(self, now: float, person: Person) -> None:
        if person.turn == TURNS:
            person.conversation, person.turn, person.tokens = next(self._numbers), 0, SYSTEM_TOKENS
        person.turn += 1
        person.tokens += self._rng.randint(*QUESTION_TOKENS)
        number = self._rng.randrange(len(self._routers))
        router = self._routers[number]
        place = router.choose(self._policy, person.conversation)
        router.count(place, 1)
        replica = self._replicas[place]
        replica.advance(now)
        replica.line.append(Question(person, now, person.tokens, self._rng.randint(*ANSWER_TOKENS), number))
        self._resume(now, place)

    def _go_on(self, now: float, place: int) -> None:
        """End what is due at a replica: a prompt that is read, or an answer that is whole."""
        replica = self._replicas[place]
        replica.advance(now)
        if replica.prefill_question is not None:
            question = replica.end_reading(next(self._numbers))
            if now > WARM_UP_S:
                self._ttfts.append(now - question.asked_at)
        else:
            _, _, question = heapq.heappop(replica.decode_queue)
            self._end(now, question, place)
        self._resume(now, place)

    def _end(self, now: float, question: Question, place: int) -> None:
        person = question.person
        person.tokens += question.answer
        self._replicas[place].keep(person.conversation, person.tokens)
        self._routers[question.router].count(place, -1)
        self._plan(now + self._rng.uniform(*THINKING_S), person)
        if now > WARM_UP_S:
            self._totals.append(now - question.asked_at)
            self._answer += question.answer

    def _resume(self, now: float, place: int) -> None:
        """Let a replica read what waits, or else write, and plan when that is done."""
        replica = self._replicas[place]
        prompt = replica.begin()
        if prompt is not None:
            reading_s, cached_tokens = prompt
            if now > WARM_UP_S and replica.prefill_question is not None:
                self._prompt += replica.prefill_question.prompt
                self._cached_tokens += cached_tokens
            replica.version += 1
            self._plan(now + reading_s, place, replica.version)
        elif replica.prefill_question is None and replica.decode_queue:
            replica.version += 1
            self._plan(now + replica.next_end_s(), place, replica.version)


@functools.cache
def simulate(replicas: int, policy: Policy, *, routers: int = 1, people: int = PEOPLE) -> Row:
    """Return what a fleet of that size does; `people` is how many there are for each replica."""
    return Simulation(replicas, policy, routers, people).run()


def people_served(replicas: int, policy: Policy) -> int:
    """Return how many people for each replica get what is promised, to within `STEP`."""
    fewest, most = 0, MOST // STEP
    while most - fewest > 1:
        middle = (fewest + most) // 2
        row = simulate(replicas, policy, people=middle * STEP)
        is_kept = row.ttft_s[1] <= FIRST_WITHIN_S and row.total_s[1] <= WHOLE_WITHIN_S
        fewest, most = (middle, most) if is_kept else (fewest, middle)
    return fewest * STEP


def cost(row: Row, replicas: int) -> float:
    """Return dollars for a million tokens of answers."""
    return replicas * DOLLARS_AN_HOUR / 3600 / row.tokens_per_s * 1e6


def cells(row: Row, replicas: int) -> Iterator[str]:
    """Yield the figures of a fleet."""
    yield f"{row.requests_per_s:,.{1 if row.requests_per_s < 10 else 0}f}"
    yield f"{row.tokens_per_s:,.0f}"
    yield f"{row.hit:.0%}"
    yield " / ".join(f"{value:.2f}" for value in row.ttft_s)
    yield " / ".join(f"{value:.1f}" for value in row.total_s)
    yield f"{cost(row, replicas):.2f}"


HEAD = ("requests/s", "tokens/s", "cached", "first token p50 / p99, s", "answer p50 / p99, s", "$ per million tokens")


def fleet_line(replicas: int, policy: Policy) -> str:
    """Return the line of a fleet with one router."""
    return line(f"{replicas:,}", policy, *cells(simulate(replicas, policy), replicas))


def router_line(routers: int) -> str:
    """Return the line of the cache-aware fleet with several routers."""
    return line(str(routers), *cells(simulate(ROUTED, Policy.CACHE_AWARE, routers=routers), ROUTED))


def line(*texts: str) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(texts)} |"


def heading(*texts: str) -> Iterator[str]:
    """Yield the first two lines of a table."""
    yield line(*texts)
    yield f"|{'---|' * len(texts)}"


def fleets() -> Iterator[str]:
    """Yield the table of fleets."""
    yield from heading("replicas", "router", *HEAD)
    for replicas in SIZES:
        for policy in Policy:
            yield fleet_line(replicas, policy)


def several_routers() -> Iterator[str]:
    """Yield the table of several routers that know nothing of each other."""
    yield from heading("routers", *HEAD)
    yield from map(router_line, ROUTERS)


def service_levels() -> Iterator[str]:
    """Yield the table of how many people are served well, and what that costs."""
    yield from heading("replicas", *(f"{policy}: people for each, $ per million tokens" for policy in Policy))
    for replicas in SERVED:
        yield served_line(replicas)


def served_line(replicas: int) -> str:
    """Return the line of fleets of one size."""
    texts = []
    for policy in Policy:
        people = people_served(replicas, policy)
        texts.append(f"{people}, {cost(simulate(replicas, policy, people=people), replicas):.2f}")
    return line(str(replicas), *texts)


def limits() -> Iterator[str]:
    """Yield the table of what a core of each router carries of the cache-aware fleet's load."""
    row = simulate(ROUTED, Policy.CACHE_AWARE)
    requests, tokens = row.requests_per_s / ROUTED, row.tokens_per_s / ROUTED
    yield from heading(
        "router",
        "a whole answer, us",
        "a token of a stream, us",
        "answers/s of a core",
        "tokens/s of a core",
        "replicas to a core, streams",
        "replicas to a core, whole answers",
    )
    for name, (answer_us, token_us) in ROUTER_US.items():
        streams = 1e6 / (requests * answer_us + tokens * token_us)
        rates = (1e6 / answer_us, 1e6 / token_us, streams, 1e6 / (requests * answer_us))
        yield line(name, str(answer_us), str(token_us), *(f"{rate:,.0f}" for rate in rates))


TABLES = {"fleets": fleets, "served": service_levels, "routers": several_routers, "limits": limits}
SPAN = re.compile(r"(?P<begin><!-- scaling: (?P<name>[a-z]+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)


def main() -> None:
    """Write the tables into the page, or print them."""
    texts = {name: "\n".join(table()) for name, table in TABLES.items()}
    if "--write" not in sys.argv:
        sys.stdout.write("\n\n".join(texts.values()) + "\n")
        return
    page = PAGE.read_text(encoding="utf-8")
    page = SPAN.sub(lambda match: f"{match['begin']}\n{texts[match['name']]}\n\n{match['end']}", page)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
