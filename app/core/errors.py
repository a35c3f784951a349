"""Every error Roundhouse raises on purpose, in one tree.

    RoundhouseError
    ├── UserError            the request can be put right by the person or program that made it
    │   ├── BadRequest       400  malformed or contradictory
    │   ├── Unauthorized     401  the token is missing or wrong
    │   ├── Forbidden        403  not allowed from here
    │   ├── NotFound         404  no such model, chat, setting
    │   ├── Conflict         409  not possible in the present state
    │   │   └── Offline      409  another computer would be called, and nothing may go out
    │   ├── TooLarge         413  over a stated limit
    │   └── TooManyRequests  429  asked too often; says when to come back, if anybody knows
    ├── EnvironmentFault     the machine, a file, a driver or an engine let us down
    │   ├── StorageFault     507  disk full, database unreadable
    │   ├── EngineFailed     502  the engine died or answered nonsense
    │   ├── Unavailable      503  not now; trying again can help
    │   │   └── Overloaded   503  too many requests wait already; says when to come back
    │   └── GatewayGone      ---  a client could not reach the gateway
    └── Bug                  500  our own mistake

An error carries a stable `code` (shared by API, CLI and window), one plain `sentence`, and a `hint`: what to do next.
"""

import errno
from typing import ClassVar, Self

import msgspec

_ENDS = tuple(".!?:")
LONGEST_ECHO = 80
"""Characters of a name that a sentence repeats: enough to know it by, and no way of having long texts written back."""


def quote_value(value: object) -> str:
    """Return what a request said as a sentence may repeat it: in quotation marks if it is text, escaped, and cut."""
    if not isinstance(value, str):
        return repr(value)[:LONGEST_ECHO]
    return repr(value if len(value) <= LONGEST_ECHO else value[: LONGEST_ECHO - 1] + "…")


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """The form an error takes on the wire and in `--json` output."""

    code: str
    sentence: str
    hint: str = ""
    detail: str = ""

    @property
    def text(self) -> str:
        """The sentence and the hint in one, for dialects whose errors are one text."""
        is_open = bool(self.hint) and self.sentence[-1:] not in _ENDS
        return f"{self.sentence}{'.' if is_open else ''} {self.hint}".strip()


class RoundhouseError(Exception):
    """Base of the tree. `status` is the HTTP status a gateway answers with."""

    default_code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500

    def __init__(self, sentence: str, *, hint: str = "", code: str = "", detail: str = "") -> None:
        super().__init__(sentence)
        self.body = ErrorBody(code=code or self.default_code, sentence=sentence, hint=hint, detail=detail)

    @property
    def code(self) -> str:
        """The stable name of this error."""
        return self.body.code

    @property
    def hint(self) -> str:
        """What to do next; empty when there is nothing useful to say."""
        return self.body.hint


class UserError(RoundhouseError):
    """The caller can put it right."""

    default_code = "bad_request"
    status = 400


class BadRequest(UserError):
    """The request is malformed or contradicts itself."""


class Unauthorized(UserError):
    """The token is missing or wrong."""

    default_code = "unauthorized"
    status = 401


class Forbidden(UserError):
    """This caller may not do this from here."""

    default_code = "forbidden"
    status = 403


class NotFound(UserError):
    """The thing named does not exist."""

    default_code = "not_found"
    status = 404


class Conflict(UserError):
    """Not possible in the present state."""

    default_code = "conflict"
    status = 409


class Offline(Conflict):
    """Another computer would have to be called, and the person wants none to be."""

    default_code = "offline"

    def __init__(
        self,
        sentence: str = "Roundhouse is set to stay offline.",
        *,
        hint: str = "Turn `network.offline` off first.",
        code: str = "",
        detail: str = "",
    ) -> None:
        super().__init__(sentence, hint=hint, code=code, detail=detail)

    @classmethod
    def from_calling(cls, host: str) -> Self:
        """Say so of one host."""
        return cls(f"Roundhouse is set to stay offline, so it does not connect to {host}.")


class TooLarge(UserError):
    """Over a stated limit."""

    default_code = "too_large"
    status = 413


class TooManyRequests(UserError):
    """Asked too often. `retry_after` is for the header of that name: seconds or a date; "" where nobody said."""

    default_code = "too_many_requests"
    status = 429

    def __init__(
        self, sentence: str, *, hint: str = "", code: str = "", detail: str = "", retry_after: str = ""
    ) -> None:
        super().__init__(sentence, hint=hint, code=code, detail=detail)
        self.retry_after = retry_after


class EnvironmentFault(RoundhouseError):
    """The machine, a file, a driver or an engine let us down."""

    default_code = "environment"
    status = 500


class StorageFault(EnvironmentFault):
    """The disk is full or the database cannot be read."""

    default_code = "storage"
    status = 507


DISK_FULL = "disk_full"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""No space, a quota that is used up, a limit on the size of a file: to a person all three are a full disk."""


def is_disk_full(error: Exception) -> bool:
    """Tell whether an error of the system says that there is no room for what was to be written."""
    return isinstance(error, OSError) and error.errno in _FULL


def write_fault(what: str, error: OSError, *, action: str = "saved", place: str = "", hint: str = "") -> StorageFault:
    """Return what is said when something ("the settings") could not be written, the same wherever that happens.

    `place` is the folder it goes to; `hint` is for other reasons than a full disk.
    """
    if is_disk_full(error):
        return StorageFault(
            f"The disk is full: {what} could not be {action}.",
            hint=f"Free some space{f' for {place}' if place else ''} and try again; what was saved before is kept.",
            code=DISK_FULL,
        )
    subject = f"T{what[1:]}" if what.startswith("the ") else what
    return StorageFault(
        f"{subject} could not be {action}: {error.strerror or error}.",
        hint=hint or f"Check that {place or 'the folder'} belongs to you and that its disk can be written.",
    )


class EngineFailed(EnvironmentFault):
    """The engine died, never became ready, or answered nonsense."""

    default_code = "engine_failed"
    status = 502


class Unavailable(EnvironmentFault):
    """Not possible just now; trying again can help."""

    default_code = "unavailable"
    status = 503


class Overloaded(Unavailable):
    """Too many wait already. `retry_s` says after how many seconds another try is worth it."""

    default_code = "queue_full"

    def __init__(
        self, sentence: str, *, hint: str = "", code: str = "", detail: str = "", retry_s: float = 0.0
    ) -> None:
        super().__init__(sentence, hint=hint, code=code, detail=detail)
        self.retry_s = retry_s


class GatewayGone(EnvironmentFault):
    """A client could not reach the gateway."""

    default_code = "gateway_gone"


class Bug(RoundhouseError):
    """Our own mistake. The sentence asks for a report; the log has the traceback."""

    default_code = "internal"
    status = 500
