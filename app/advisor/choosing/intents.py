"""What each use asks for, as data: context, speed, conversations at once; and the need the guide's rows are keyed by.

Figures are targets with a reason each, said to the user; what a model or machine cannot give is cut and said too.
"""

import msgspec

from app.core.advice import Intent
from engines.api.traits import GuideNeed

LONG_CONTEXT = 65_536
"""From here on a context asked for makes the attention cache, not the weights, decide; see `find_need`."""
BEYOND_USUAL = 1.25
"""A context so much above what the use itself needs counts as long."""
SEVERAL = 4
"""From so many people on requests overlap most of the time, and an engine made for serving pays."""
MOST_USERS = 1_000_000


class IntentNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of context wanted and the least that is useful, the slowest decoding that is, and who is served."""

    context: int
    least_context: int
    context_why: str
    floor: float
    """Tokens per second of one conversation."""
    floor_why: str
    title: str
    least_users: int = 1
    serves: bool = False


_READING = "people read about 5 words a second, which is 7 tokens"

INTENTS: dict[Intent, IntentNeeds] = {
    Intent.CHAT: IntentNeeds(
        title="chat",
        context=16_384,
        least_context=8_192,
        context_why="a long conversation with a few pasted pages is 8k to 16k tokens",
        floor=10,
        floor_why=_READING,
    ),
    Intent.CODING: IntentNeeds(
        title="coding",
        context=81_920,
        least_context=32_768,
        context_why="coding tools send whole files and their own instructions, 80k tokens in an hour's work",
        floor=20,
        floor_why="a 600-line edit is 8,000 tokens; below 20 a second that is a break, not a pause",
    ),
    Intent.AGENT: IntentNeeds(
        title="an agent",
        context=81_920,
        least_context=32_768,
        context_why="an agent keeps the results of all its tools, 80k tokens in one task",
        floor=20,
        floor_why="an agent writes notes for itself before it answers, so its user waits for several answers",
    ),
    Intent.RAG: IntentNeeds(
        title="answers from documents",
        context=32_768,
        least_context=16_384,
        context_why="twenty passages of a page each and the question are 16k tokens, and some need twice that",
        floor=10,
        floor_why=_READING,
    ),
    Intent.STRUCTURED: IntentNeeds(
        title="structured output",
        context=16_384,
        least_context=8_192,
        context_why="a schema, a document and the filled form fit in 16k tokens",
        floor=10,
        floor_why="a form of 300 tokens should take no longer than half a minute",
    ),
    Intent.BATCH: IntentNeeds(
        title="batches",
        context=8_192,
        least_context=4_096,
        context_why="batches are many short tasks; memory goes to doing more of them at once",
        floor=0,
        floor_why="nobody waits for a single answer; total throughput counts",
        least_users=16,
    ),
    Intent.TEAM: IntentNeeds(
        title="a team",
        context=16_384,
        least_context=8_192,
        context_why="each person's conversation is 8k to 16k tokens",
        floor=10,
        floor_why=_READING,
        least_users=SEVERAL,
        serves=True,
    ),
    Intent.API: IntentNeeds(
        title="an API",
        context=16_384,
        least_context=8_192,
        context_why="most requests to a public API stay below 16k tokens",
        floor=10,
        floor_why=_READING,
        least_users=16,
        serves=True,
    ),
    Intent.FLEET: IntentNeeds(
        title="a fleet",
        context=32_768,
        least_context=8_192,
        context_why="a fleet serves uses of every kind; most stay below 32k tokens",
        floor=15,
        floor_why="agents and people share it",
        least_users=32,
        serves=True,
    ),
    Intent.APP: IntentNeeds(
        title="an app",
        context=8_192,
        least_context=4_096,
        context_why="a feature inside an app sends a page or two, and shares memory with that app",
        floor=10,
        floor_why=_READING,
    ),
    Intent.BROWSER: IntentNeeds(
        title="a browser or phone",
        context=4_096,
        least_context=2_048,
        context_why="a browser tab or a phone gives up after 4 GB or so",
        floor=8,
        floor_why=_READING,
    ),
}


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked, made whole: `context` is None where the intent's own counts, `users` at least the intent's."""

    intent: Intent
    users: int
    context: int | None = None
    is_context_set: bool = False
    """Whether the context is the settings', and nobody asked for it."""
    loras: int = 0
    slots: int = 1
    """Requests that one copy of the model is to answer at once, however many people there are."""
    is_fixed: bool = False
    """Whether context and slots stay, and a part goes to system memory instead: somebody asked for just those."""
    is_moe: bool = False

    @property
    def needs(self) -> IntentNeeds:
        """The intent's figures."""
        return INTENTS[self.intent]

    @property
    def target_context(self) -> int:
        """Tokens per conversation: what was asked, else the intent's target."""
        return self.context or self.needs.context

    @property
    def is_long(self) -> bool:
        """Whether more context was asked for than the use itself needs, and much of it."""
        return self.target_context >= max(LONG_CONTEXT, round(self.needs.context * BEYOND_USUAL))

    @property
    def serves_several(self) -> bool:
        """Whether several people or programs are served at once."""
        return self.needs.serves or self.users >= SEVERAL


def build_workload(
    intent: Intent, *, users: int = 1, context: int | None = None, loras: int = 0, slots: int = 1
) -> Workload:
    """Return what is asked with the intent's own least numbers; nonsense is brought into range, never refused."""
    least = INTENTS[intent].least_users
    return Workload(
        intent=intent,
        users=min(max(users, least), MOST_USERS),
        context=context if context and context > 0 else None,
        loras=max(loras, 0),
        slots=max(slots, 1),
    )


def find_need(work: Workload) -> GuideNeed:
    """Return which of the guide's rows the work falls under."""
    own = _OWN_ROW.get(work.intent)
    if own is not None:
        return own
    if work.intent is Intent.BATCH:
        return GuideNeed.BATCH if _special_need(work) is None else GuideNeed.SERVING_SHAPED
    if work.serves_several:
        plain = GuideNeed.TEAM if work.intent is Intent.TEAM else GuideNeed.SERVING
        return plain if _special_need(work) is None else GuideNeed.SERVING_SHAPED
    return _special_need(work) or (GuideNeed.AGENT if work.intent is Intent.AGENT else GuideNeed.LOCAL)


_OWN_ROW = {Intent.FLEET: GuideNeed.FLEET, Intent.APP: GuideNeed.APP, Intent.BROWSER: GuideNeed.BROWSER}


def _special_need(work: Workload) -> GuideNeed | None:
    """Return what makes the work special, the strongest first; None for plain work."""
    if work.intent is Intent.STRUCTURED:
        return GuideNeed.STRUCTURED
    if work.loras > 1:
        return GuideNeed.LORAS
    if work.is_long:
        return GuideNeed.LONG
    return GuideNeed.MOE if work.is_moe else None
