"""How long a model stays and with how much context, as requests of any dialect may say, and times as Ollama has them.

`ttl` is LM Studio's word, `keep_alive` and `options.num_ctx` are Ollama's; they mean the same wherever they are sent.
`keep_alive` is a number of seconds or a duration as Go writes it ("5m"); Ollama's answers count nanoseconds.
"""

import math
import re
from typing import Annotated

import msgspec

from app.core.errors import BadRequest
from app.gateway.dialects.raw_fields import ABSENT, value_of

_UNITS_S = {"ns": 1e-9, "us": 1e-6, "\u00b5s": 1e-6, "\u03bcs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d++(?:\.\d*+)?|\.\d++)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)", re.ASCII)
_LONGEST_TEXT = 64
_LONGEST_S = float(2**63) / 1e9
"""Go counts nanoseconds in 64 bits; what is longer is for ever, near enough."""


class KeepAliveFields(msgspec.Struct, frozen=True, kw_only=True):
    """Base of requests that may say how long their model stays. `ttl`, in seconds, is LM Studio's word for it."""

    keep_alive: msgspec.Raw = ABSENT
    ttl: Annotated[float, msgspec.Meta(gt=0)] | None = None


def keep_time_s(request: KeepAliveFields) -> float | None:
    """Return how long a model is to be kept once nobody uses it, as `keep_alive_s` does. Raises BadRequest."""
    return request.ttl if request.ttl is not None else keep_alive_s(request.keep_alive)


def keep_alive_s(raw: msgspec.Raw) -> float | None:
    """Return the seconds a model is kept: `inf` for ever, 0 not at all, None if nothing was said. Raises BadRequest."""
    value = value_of(raw)
    if value is None:
        return None
    if isinstance(value, str):
        seconds = go_duration_s(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    else:
        raise BadRequest('invalid keep_alive: it is a number of seconds, or a duration such as "5m".')
    return math.inf if seconds < 0 or seconds >= _LONGEST_S else seconds


def go_duration_s(text: str) -> float:
    """Return a Go duration in seconds; it may be negative. Raises BadRequest as Go words it."""
    if len(text) > _LONGEST_TEXT:
        raise _invalid_duration(text)
    sign = -1.0 if text.startswith("-") else 1.0
    rest = text[1:] if text[:1] in {"+", "-"} else text
    if rest == "0":
        return 0.0
    total, at = 0.0, 0
    while at < len(rest):
        part = _PART.match(rest, at)
        if part is None:
            raise _invalid_duration(text)
        total += float(part[1]) * _UNITS_S[part[2]]
        at = part.end()
    if not at:
        raise _invalid_duration(text)
    return sign * total


def to_nanoseconds(seconds: float) -> int:
    """Return a time as Ollama counts it."""
    return max(0, round(seconds * 1e9))


def work_nanoseconds(measured_s: float, *, at_most_s: float) -> int:
    """Return how long counted work took: as measured, else within what time. Never 0: clients divide by it."""
    return max(1, to_nanoseconds(measured_s or at_most_s))


def _invalid_duration(text: str) -> BadRequest:
    excerpt = text[:_LONGEST_TEXT]
    return BadRequest(
        f'time: invalid duration "{excerpt}".', hint='Durations look like "5m", "1h30m" or "-1s".', code="invalid_value"
    )


class ContextOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Of Ollama's options the one that concerns loading."""

    num_ctx: Annotated[int, msgspec.Meta(ge=1)] | None = None


class ModelLoadFields(KeepAliveFields, frozen=True, kw_only=True):
    """Base of what is read of such a request."""

    options: ContextOptions | None = None

    @property
    def keep_s(self) -> float | None:
        """How long the model is to be kept once nobody uses it. Raises BadRequest."""
        return keep_time_s(self)

    @property
    def context(self) -> int | None:
        """How much context is wanted, in tokens."""
        return self.options.num_ctx if self.options else None
