"""Traces of requests for OpenTelemetry: whether they are sent, what came of it, and the headers they are sent with.

Headers are secret: they are stored as the hub's token is, and never told.
"""

import re

import msgspec

from app.core.errors import BadRequest

TRACES_ENDPOINT, TRACES_CONTENTS = "traces.endpoint", "traces.contents"
"""The settings: where traces are sent, and whether prompts and answers are in them."""
TRACES_PATH = "/v1/traces"
"""Where a collector takes traces, below its address."""
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_MOST_HEADERS, _LONGEST_VALUE = 16, 4096
_OURS = frozenset(
    ("connection", "content-encoding", "content-length", "content-type", "host", "transfer-encoding", "user-agent")
)
"""What the request says by itself."""


class TracesState(msgspec.Struct, frozen=True, kw_only=True):
    """Whether traces are sent, and what came of it since Roundhouse started."""

    is_on: bool = False
    endpoint: str = ""
    """The whole address they are sent to."""
    has_contents: bool = False
    """Whether prompts and answers are in them."""
    header_names: list[str] = []
    """Of the headers that are kept. Their values are never told."""
    sent: int = 0
    """Spans that the collector took."""
    waiting: int = 0
    """Spans that are still to be sent."""
    dropped: int = 0
    """Spans that were given up: refused, or more than are kept while nobody takes them."""
    problem: str = ""
    """Why the last ones were not taken, in a sentence; empty if they were."""
    sentence: str = ""
    """All this in one sentence."""


class SetTraceHeaders(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for headers to be kept in place of those there are."""

    headers: dict[str, str]


def parse_header_lines(text: str) -> dict[str, str]:
    """Return headers that were typed, one a line: `Authorization: Bearer ...`. Raises BadRequest without the value."""
    headers: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, colon, value = line.partition(":")
        if not colon:
            raise BadRequest(
                "A header is written like Authorization: Bearer TOKEN.", hint="One a line.", code="invalid_value"
            )
        headers[name.strip()] = value.strip()
    return headers


def check_headers(headers: dict[str, str]) -> dict[str, str]:
    """Return headers that may be sent with traces. Raises BadRequest, which never tells a value."""
    if not headers or len(headers) > _MOST_HEADERS:
        raise BadRequest(f"Give between one and {_MOST_HEADERS} headers.", code="invalid_value")
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or name.lower() in _OURS:
            raise BadRequest(f"{name[:100]!r} is not a header that can be set.", code="invalid_value")
        if not value or len(value) > _LONGEST_VALUE or not (value.isascii() and value.isprintable()):
            raise BadRequest(f"The value of {name} is not one of a header.", code="invalid_value")
    return headers


def traces_url(endpoint: str) -> str:
    """Return the whole address for a collector's: `/v1/traces` follows it, unless it ends so already."""
    plain = endpoint.strip().rstrip("/")
    return plain if not plain or plain.endswith(TRACES_PATH) else plain + TRACES_PATH
