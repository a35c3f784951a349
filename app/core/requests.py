"""Requests at the endpoint as the inspector shows them, and what clients used.

Times are seconds; `at` is Unix time. A figure is None where nobody knows it yet, or ever. Of a request that goes on,
the times are those until now.
"""

from enum import StrEnum

import msgspec


class RequestState(StrEnum):
    """How far a request is. The last three are final."""

    QUEUED = "queued"
    LOADING = "loading"
    PREFILL = "prefill"
    DECODING = "decoding"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    """The client went away, or somebody stopped it."""


FINAL = frozenset({RequestState.DONE, RequestState.FAILED, RequestState.CANCELLED})


class Peer(StrEnum):
    """Where a request came from."""

    THIS_COMPUTER = "this computer"
    NETWORK = "network"


class RequestInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One request, without its words."""

    id: str
    """The one the client was told as `x-request-id`."""
    at: float
    client: str
    """The product that the client's User-Agent names first, whatever its version; "unknown" if it names none."""
    client_version: str = ""
    """What it says of its version."""
    peer: Peer
    dialect: str
    """"openai", "anthropic" or "ollama"."""
    path: str
    route: str = ""
    """What was asked for, as in the metrics: "chat", "embeddings"; empty if that was never understood."""
    model: str = ""
    engine: str = ""
    state: RequestState
    queue_s: float | None = None
    load_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    total_s: float
    ttft_s: float | None = None
    tokens_per_s: float | None = None
    """Written, after the first token."""
    prompt_tokens: int | None = None
    """All that was in the prompt, cached or read."""
    cached_tokens: int | None = None
    """Of them, those that the engine had already and did not read."""
    saved_s: float | None = None
    """How long the engine would have read the cached ones, at the speed last measured with this model."""
    completion_tokens: int | None = None
    status: int | None = None
    """HTTP status of the answer, once it has one."""
    outcome: str = ""
    """As in the metrics: "ok", "refused", "engine_failed", "client_gone", "stopped", "bug"; empty while it goes on."""
    error: str = ""
    """Why it failed, in a sentence."""
    trace_id: str = ""
    """Of the trace that it is part of, where traces are sent; 32 hexadecimal digits."""

    @property
    def is_over(self) -> bool:
        """Whether nothing about it changes any more."""
        return self.state in FINAL


class RequestDetail(msgspec.Struct, frozen=True, kw_only=True):
    """One request with its words, which are there only if the setting `inspector.bodies` was on when it came."""

    request: RequestInfo
    has_bodies: bool = False
    asked: str = ""
    """The request's body, cut at `cut_at_bytes`."""
    answered: str = ""
    """What the engine or the gateway answered, cut likewise."""
    cut_at_bytes: int = 0


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one client used of one model."""

    client: str
    model: str
    requests: int
    failed: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


class KeyDay(msgspec.Struct, frozen=True, kw_only=True):
    """What one access key was used for on one day of this computer's clock."""

    day: str
    """As in 2027-01-31."""
    key: str
    """As it is called now, or was last; empty for requests without a key."""
    key_id: str
    is_revoked: bool = False
    requests: int
    failed: int
    held_back: int
    """Refused for a limit of the key; not among those that failed."""
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What was used since midnight, and in the seven days that end today; both by tokens, most first."""

    today: list[UsageRow]
    week: list[UsageRow]
