"""What a library must do to be served, and the values it is asked with.

Everything is called on one thread, but `load`, which has one of its own, so that health is told while it goes on. A
step is a small piece of work, as a rule one token for each request that runs: between steps requests come, go and are
answered.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, runtime_checkable

from engines.serving.refusals import RequestRefused

SHARE_S = 0.016
"""What steps bring within this time is sent together: about as long as a screen shows one picture."""
_SHARE_OF_ONE_S = 0.0015
"""Sending to one client takes some 50 µs of the thread that computes: a thirtieth of this."""


def share_time(streams: int) -> float:
    """Return for how long what steps bring to so many clients is gathered: with 64 at once, each gets ten a second."""
    return max(SHARE_S, streams * _SHARE_OF_ONE_S)


class BackendAbility(StrEnum):
    """What not every library can do; the rest is expected of all."""

    JSON_SCHEMA = "json_schema"
    LOGPROBS = "logprobs"
    """Of the tokens that were chosen."""
    TOP_LOGPROBS = "top_logprobs"
    """Of those that might have been, too."""
    MIN_P = "min_p"
    PENALTIES = "penalties"
    """OpenAI's two, of presence and of frequency."""
    LOGIT_BIAS = "logit_bias"
    IMAGES = "images"
    """Pictures in a chat: it is a `PictureReader` as well."""


class BackendFinish(StrEnum):
    """Why an answer ended, in OpenAI's words."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSampling:
    """How tokens are chosen. None leaves it to the model's own defaults."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    """What is added to the logits of these tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItem:
    """One answer to write. `logprobs` is how many alternatives are told beside each token, None for no figures."""

    id: int
    prompt: Sequence[int]
    max_tokens: int
    sampling: BackendSampling
    ignores_end: bool = False
    schema: str | None = None
    """A JSON schema the answer must keep to."""
    logprobs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What came of loading. `device` is what really computes, in the backend's word; `context` is tokens a request.

    `chat_template` is the model's own; `specials` are the tokens it may name, such as `bos_token`.
    """

    context: int
    device: str
    device_name: str
    abilities: frozenset[BackendAbility]
    slots: int
    hides_cache: bool = False
    """It may have parts of a prompt in a cache without saying which: then nobody knows how fast it read the rest."""
    chat_template: str | None = None
    specials: Mapping[str, str] = field(default_factory=dict)
    gather_s: float = 0.0
    """After a pause, how long a first request waits for the next, for a library that batches what begins together."""


class Token(NamedTuple):
    """A token that was written. `top` holds alternatives with their logarithms of probability, likeliest first.

    `text` is what it says where the library tells text and no numbers: no decoder is asked then, and `id` says nothing.
    """

    id: int
    logprob: float | None = None
    top: Sequence[tuple[int, float]] = ()
    text: str | None = None


class StepOutcome(NamedTuple):
    """What one step did for one request; the end-of-sequence token is not among the tokens."""

    work: int
    tokens: Sequence[Token]
    finish: BackendFinish | None = None
    cached: int | None = None
    """How many tokens of the prompt need not be computed, told once, where it is known."""
    error: RequestRefused | None = None
    """Why nothing more comes."""


class Decoder(Protocol):
    """Tokens of one answer to text. Characters whose bytes are not all there are kept back."""

    def feed(self, token: int) -> str:
        """Return the text that a token completes."""

    def flush(self) -> str:
        """Return what was kept back."""


class ProgressCallback(Protocol):
    """Takes the stages of a load."""

    def __call__(self, stage: str, fraction: float | None = None) -> None:
        """Tell what goes on now."""


@runtime_checkable
class PictureReader(Protocol):
    """A backend whose model sees. What it makes of a picture stands in the prompt where its mark stood."""

    def find_picture(self, mark: str) -> object | None:
        """Return what was made of a picture, if that is still kept."""

    def read_picture(self, mark: str, picture: Any) -> object:  # noqa: ANN401 -- Pillow's
        """Return what the model sees in a picture. Raises `refusals.RequestRefused` for one it cannot look at."""

    def encode_pictures(self, text: str, pictures: Sequence[object]) -> list[int]:
        """Return a text's tokens, with those of pictures in the place of their marks."""


class WorkerBackend(Protocol):
    """A library that writes text. `step` raises RuntimeError when it fails for good."""

    def load(self, config: Mapping[str, object], tell: ProgressCallback) -> LoadResult:
        """Load the model; called once, on a thread of its own. Raises RuntimeError when the library refuses."""

    def encode(self, text: str, *, adds_special: bool) -> list[int]:
        """Return a text's tokens; special tokens in it count as such. `adds_special` puts the model's own in front."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, special ones left out."""

    def make_decoder(self) -> Decoder:
        """Return what turns the tokens of one answer into text."""

    def start(self, work: WorkItem) -> None:
        """Take on a request. Raises `refusals.RequestRefused` for what it cannot do."""

    def step(self) -> Iterable[StepOutcome]:
        """Compute a token for every request that runs, or several within `share_time`, and return what came of it."""

    def cancel(self, work: int) -> None:
        """Let go of a request, whether it runs or has ended."""

    def cache_use(self) -> float | None:
        """Return the share of the KV cache in use, 0 to 1; None where the library does not say."""
