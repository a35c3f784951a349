"""Bodies of too many values are told from those of long texts without being decoded."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import TooLarge, quote_value
from app.gateway.entry import bodies
from app.gateway.entry.bodies import MOST_PARTS, MOST_VALUES, refuse_crowded

TEXTS = ("{[,", '"', '\\"', "\\", '",{"')


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"{}," * MOST_PARTS + b"{}]",
        b"[" + b"[]," * MOST_PARTS + b"[]]",
        b"[" + b'"",' * MOST_PARTS + b'""]',
        b"[" + b"1," * MOST_VALUES + b"1,1]",
        b'{"a":"' + b" " * (3 << 20) + b'","b":[' + b"{}," * MOST_PARTS + b"{}]}",
    ],
    ids=["objects", "lists", "texts", "numbers", "behind a long text"],
)
def test_too_many_values_are_refused(body: bytes) -> None:
    with pytest.raises(TooLarge):
        refuse_crowded(body)


@pytest.mark.parametrize("text", TEXTS)
def test_what_stands_in_a_text_does_not_count(text: str) -> None:
    refuse_crowded(json.dumps({"prompt": text * MOST_PARTS, "after": [1, 2]}).encode())


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_values_are_counted_as_a_decoder_would(value: object) -> None:
    parts = count_parts(value)
    body = json.dumps(value).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bodies, "MOST_PARTS", parts)
        refuse_crowded(body)
        if parts:
            patch.setattr(bodies, "MOST_PARTS", parts - 1)
            with pytest.raises(TooLarge):
                refuse_crowded(body)


def count_parts(value: object) -> int:
    if isinstance(value, dict):
        return 1 + sum(1 + count_parts(item) for item in value.values())
    if isinstance(value, list):
        return 1 + sum(map(count_parts, value))
    return int(isinstance(value, str))


@pytest.mark.parametrize("value", ["a" * 81, "\ud800" * 1000, "\x1b" * 100, ["a" * 1000], 10**200])
def test_what_a_sentence_repeats_is_short_and_can_be_written(value: object) -> None:
    quoted_value = quote_value(value)
    assert len(eval(quoted_value)) <= 80 if isinstance(value, str) else len(quoted_value) <= 80  # noqa: S307 -- its own repr
    assert quoted_value.isprintable()
    assert quoted_value.encode()
