"""A shadow trial: kept requests asked again of a model and of what could take its place, and what differs.

Results hold hashes and lengths. The words of a trial are values of their own, which nobody keeps on disk.
"""

from typing import Annotated

import msgspec

from app.core.benchmarks import BenchmarkMemory, BenchmarkTarget, Figure

MOST_TRIAL_REQUESTS = 200

LEAST_GAP_S = 2e-5
"""No engine writes 50,000 tokens a second: an answer that seems to lay somewhere until this program had time for it."""
_Id = Annotated[str, msgspec.Meta(max_length=200)]


class StartTrial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask a model, and another or the same on another engine, the requests that the inspector keeps."""

    model: Annotated[str, msgspec.Meta(max_length=500)]
    against: Annotated[str, msgspec.Meta(max_length=500)] = ""
    """Another model of this computer; empty: the same."""
    engine: Annotated[str, msgspec.Meta(max_length=100)] = ""
    """For `against`, instead of the one that is set."""
    requests: Annotated[int, msgspec.Meta(ge=1, le=MOST_TRIAL_REQUESTS)] = 10
    """So many of the newest that were asked of `model`."""
    ids: Annotated[list[_Id], msgspec.Meta(max_length=MOST_TRIAL_REQUESTS)] = []
    """Those of the inspector instead, whichever model they were asked of."""
    answer_tokens: Annotated[int, msgspec.Meta(ge=1, le=65_536)] = 256
    """Of an answer at most, and never more than its request allowed."""


class TrialAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How a request was answered, without words; `error` says why it was not."""

    sha256: str = ""
    length: int = 0
    """In characters, reasoning and tool calls with it."""
    tokens: int = 0
    ttft_s: float = 0.0
    e2e_s: float = 0.0
    calls: int = 0
    """Calls of tools; one that had to come and did not counts too."""
    valid_calls: int = 0
    """Those that name an offered tool with what it takes."""
    is_valid_json: bool | None = None
    """Whether it satisfies its schema; None where there was none."""
    error: str = ""

    @property
    def tokens_s(self) -> float | None:
        """Tokens written per second, after the first; None where there are none to time, or all came at once."""
        duration_s = self.e2e_s - self.ttft_s
        gaps = self.tokens - 1
        return gaps / duration_s if gaps > 0 and duration_s > gaps * LEAST_GAP_S else None


class TrialComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Both answers to one request."""

    id: str
    """The inspector's."""
    prompt_sha256: str
    prompt_length: int
    first: TrialAnswer
    second: TrialAnswer
    is_equal: bool | None = None
    """None where one of them was not answered."""
    diverges_at: int | None = None
    """The first character that differs; None for none."""
    diverges_at_token: int | None = None
    """The first token of the first answer that differs, as its engine sent them."""


class TrialSide(msgspec.Struct, frozen=True, kw_only=True):
    """What one of the two came to; None where nobody knows."""

    target: BenchmarkTarget
    answered: int = 0
    ttft_s: float | None = None
    """Median."""
    tokens_s: float | None = None
    """Median."""
    valid_calls: float | None = None
    """Share."""
    valid_json: float | None = None
    """Share."""
    load_s: float | None = None
    memory: BenchmarkMemory = BenchmarkMemory()
    error: str = ""
    """Why it could not be asked at all."""


class TrialResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. Nothing is changed until a person switches."""

    at: float
    roundhouse: str
    model: str
    first: TrialSide
    second: TrialSide
    requests: list[TrialComparison]
    equal: float | None = None
    """Of requests that both answered, the share with equal answers."""
    ttft_ratio: Figure | None = None
    """Second to first: below 1 is faster. None too where other programs disturbed one of them."""
    e2e_ratio: Figure | None = None
    can_switch: bool = False
    sentence: str = ""
    disturbances: list[str] = []
    """What slowed one of them down; then speeds are not compared."""

    @property
    def is_change(self) -> bool:
        """Whether it has changed anything: no trial does by itself."""
        return False


class TrialWords(msgspec.Struct, frozen=True, kw_only=True):
    """Both answers to one request in words: kept in memory as long as the inspector keeps the request's."""

    id: str
    first: str
    second: str


class TrialSwitch(msgspec.Struct, frozen=True, kw_only=True):
    """What a switch, or its undoing, has changed."""

    sentence: str
    changed: list[str]
    """Names of settings."""
