"""How a fake engine is to behave: the ways in which real ones misbehave, each a field. Standard library only."""

import json
from dataclasses import asdict, dataclass

VARIABLE = "FAKE_ENGINE_BEHAVIOUR"
KEY_VARIABLE = "FAKE_ENGINE_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """The default answers at once and does what it is told. Times in seconds."""

    # coming up
    load_s: float = 0.0
    """How long /health says 503 first."""
    progress: int = 0
    """How many progress lines loading writes."""
    names_buffers: bool = True
    """Whether it says what it allocated, with its progress."""
    exit_code: int | None = None
    """End with this code instead of serving, after `says`."""
    says: tuple[str, ...] = ()
    """Lines on standard error before anything else."""
    says_key: bool = False
    """Also write the launch key to standard error, as a careless engine would."""
    is_silent: bool = False
    """Never listen and never say anything."""
    lies: bool = False
    """Say it is well while no completion ever works."""
    busy: bool = False
    """Use the processor while loading, and say nothing."""
    port_tries: int = 0
    """How many starts find the port taken. Needs `state_file`."""
    crashes: int = 0
    """How many starts end in a crash when loading. Needs `state_file`."""
    state_file: str = ""
    """Counts the starts, since every start is a new process."""
    # answering
    tokens: int = 5
    tokens_per_s: float = 0.0
    """0 is as fast as possible."""
    first_byte_s: float = 0.0
    never_answers: bool = False
    splits_emoji: bool = False
    """Send each token's bytes one by one, so that characters arrive in pieces."""
    token: str = "word"
    writes: str = ""
    """Write this instead, a few characters at a time."""
    echoes: bool = False
    """Say the words of the last message, or of the prompt, instead of `tokens` times the same."""
    flood: int = 0
    """Log lines written with every request."""
    # ending
    dies_after: int | None = None
    """End after so many tokens of one answer ..."""
    dies_by: str = "kill"
    """... by "kill" (SIGKILL), "abort" (SIGABRT) or "exit" (code 3)."""
    refuses_to_end: bool = False
    """Ignore SIGTERM, SIGINT, and the end of standard input."""
    child: bool = False
    """Start another process that refuses to end."""

    def to_json(self) -> str:
        """Return the form that travels in the environment."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Behaviour":
        """Read it back."""
        fields = json.loads(text)
        return cls(**{**fields, "says": tuple(fields["says"])})
