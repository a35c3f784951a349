"""What one dialect is to everybody else: which addresses it answers, and how it says that something is wrong.

Each dialect's folder has its own record; `registry` finds the one of a request.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

import msgspec

from app.core.errors import ErrorBody, Overloaded, RoundhouseError, Unavailable
from app.gateway.canonical.events import AnswerFailed, Overflow

_PARAMS = {
    "model_not_found": "model",
    "model_required": "model",
    "input_required": "input",
    "previous_response_not_found": "previous_response_id",
    "invalid_tools": "tools",
}
"""By our code, the field of a request that is wrong."""
_FIELD_ERROR_CODES = frozenset({"invalid_value", "unsupported_parameter"})
_FIELD = re.compile(r"at `\$\.([^`]+)`|^`([\w.\[\]]+)`")
"""Where such a sentence says which field it is about: msgspec's at its end, our own at the beginning."""


class DialectName(StrEnum):
    """What the inspector calls a dialect."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    OLLAMA = "ollama"
    LM_STUDIO = "lmstudio"
    LLAMA_SERVER = "llama-server"
    GOOGLE = "google"
    ROUNDHOUSE = "roundhouse"
    """Our own API, which is for the window and the command line."""


class RateUnit(StrEnum):
    """What a limit counts."""

    REQUESTS = "requests"
    TOKENS = "tokens"


class RateState(msgspec.Struct, frozen=True, kw_only=True):
    """How a limit stands. In `reset_s` seconds, at `reset_at` (Unix seconds), nothing is used, if nothing more is."""

    unit: RateUnit
    limit: int
    remaining: int
    reset_at: float
    reset_s: float


class DialectFault(msgspec.Struct, frozen=True, kw_only=True):
    """An error before a dialect gives it its shape. `message` is all that its clients show; `param` a field's name."""

    error: ErrorBody
    status: int
    message: str
    param: str | None = None
    request_id: str | None = None


class DialectRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One dialect. `shape` makes its error document; `overloaded` and `unavailable` are its statuses for "not now"."""

    name: DialectName
    shape: Callable[[DialectFault], msgspec.Struct]
    too_long: Callable[[Overflow], str] | None = None
    """Says that a prompt does not fit, in the words its clients look for; None where any sentence does."""
    field: str | None = None
    """The field of a request whose text is too long then."""
    prefixes: tuple[str, ...] = ()
    paths: frozenset[str] = frozenset()
    header: str = ""
    """Sent by every client of the dialect; below `shared` it tells whose request it is."""
    shared: tuple[str, ...] = ()
    """Prefixes of addresses that another dialect has too."""
    overloaded: int = Overloaded.status
    unavailable: int = Unavailable.status
    rate_headers: Callable[[RateState], Sequence[tuple[str, str]]] | None = None
    """Says in an answer's head how a key's limit stands, where the dialect has words for it."""
    charset: str | None = None
    """Said with every document of this dialect, if it is."""

    def matches_request(self, path: str, headers: Mapping[str, str]) -> bool:
        """Tell whether a request is made in this dialect."""
        if path in self.paths or path.startswith(self.prefixes):
            return True
        return bool(self.header) and path.startswith(self.shared) and self.header in headers

    def status_of(self, error: RoundhouseError) -> int:
        """Return the status that an error is answered with."""
        if isinstance(error, Overloaded):
            return self.overloaded
        return self.unavailable if isinstance(error, Unavailable) else error.status

    def word_message(self, message: str, overflow: Overflow | None) -> str:
        """Return what clients are told: the message, or in the dialect's own words that a prompt does not fit."""
        return message if overflow is None or self.too_long is None else self.too_long(overflow)

    def error_document(self, failure: AnswerFailed, request_id: str | None = None) -> msgspec.Struct:
        """Return the error document."""
        fault = DialectFault(
            error=failure.error,
            status=self.unavailable if failure.status == Unavailable.status else failure.status,
            message=self.word_message(failure.error.text, failure.overflow),
            param=_error_param(failure.error) if failure.overflow is None else self.field,
            request_id=request_id,
        )
        return self.shape(fault)


def _error_param(error: ErrorBody) -> str | None:
    if error.code in _PARAMS:
        return _PARAMS[error.code]
    place = _FIELD.search(error.sentence) if error.code in _FIELD_ERROR_CODES else None
    return place and (place[1] or place[2])
