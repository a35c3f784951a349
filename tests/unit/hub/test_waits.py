"""What a server asks for when it refuses is understood in each of the ways it can be said."""

from email.message import Message

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.hub.repositories.ranges import retry_wait_s

NOON = 1_795_262_400.0
SAID: dict[str, tuple[dict[str, str], float]] = {
    "nothing": ({}, 0),
    "seconds": ({"Retry-After": "17"}, 17),
    "a date": ({"Retry-After": "Sat, 21 Nov 2026 12:01:30 GMT"}, 90),
    "a date that is past": ({"Retry-After": "Sat, 21 Nov 2026 11:00:00 GMT"}, 0),
    "the hub's own": ({"RateLimit": '"resolvers";r=0;t=55'}, 55),
    "the hub's own, with some left": ({"RateLimit": '"api";r=12;t=55'}, 0),
    "both": ({"Retry-After": "3", "RateLimit": '"api";r=0;t=55'}, 3),
    "half a number": ({"Retry-After": "1.5"}, 0),
    "too many digits": ({"Retry-After": "9" * 40, "RateLimit": f'"api";r=0;t={"9" * 40}'}, 0),
    "no date": ({"Retry-After": "soon"}, 0),
}


def headers_of(header_fields: dict[str, str]) -> Message:
    headers = Message()
    for name, value in header_fields.items():
        headers[name.lower()] = value
    return headers


@pytest.mark.parametrize(("header_fields", "wait_s"), SAID.values(), ids=SAID)
def test_how_long_to_wait_is_understood(header_fields: dict[str, str], wait_s: float) -> None:
    assert retry_wait_s(headers_of(header_fields), NOON) == wait_s


@given(st.text(), st.text())
def test_nothing_a_server_says_breaks_it(after: str, limit: str) -> None:
    assert retry_wait_s(headers_of({"Retry-After": after, "RateLimit": limit}), NOON) >= 0
