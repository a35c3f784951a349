"""How long a server that refuses wants to be left alone, by what its answer's headers say.

`Retry-After` has seconds or a date (RFC 9110, 10.2.3); Hugging Face says it in `RateLimit`, as its own client reads it:
`"api";r=0;t=55` (draft-ietf-httpapi-ratelimit-headers).
"""

import re
import time
from email.message import Message
from email.utils import parsedate_to_datetime

_LIMIT = re.compile(r"r\s*=\s*0\s*;\s*t\s*=\s*(\d{1,9})(?!\d)")
_SECONDS = re.compile(r"\d{1,9}")


def retry_wait_s(headers: Message, now: float | None = None) -> float:
    """Return the seconds; 0 where nothing is said, or nothing that makes sense. `now` is in Unix seconds."""
    limit = _LIMIT.search(headers.get("RateLimit", ""))
    retry_after = headers.get("Retry-After", "").strip()
    if _SECONDS.fullmatch(retry_after):
        return float(retry_after)
    if limit is not None:
        return float(limit[1])
    try:
        until = parsedate_to_datetime(retry_after).timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return max(0.0, until - (time.time() if now is None else now))
