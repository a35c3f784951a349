"""Figures in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core import words
from app.core.models import Autocomplete


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "unknown"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (25276502016, "23.5 GiB"),
        (1 << 42, "4.0 TiB"),
    ],
)
def test_size(count: int | None, text: str) -> None:
    assert words.format_bytes(count) == text


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (None, "unknown"),
        (0.214, "0.21 s"),
        (9.999, "10.00 s"),
        (59.4, "59 s"),
        (185, "3 min 5 s"),
        (7800, "2 h 10 min"),
    ],
)
def test_seconds(duration: float | None, text: str) -> None:
    assert words.format_duration(duration) == text


@pytest.mark.parametrize(("count", "text"), [(512, "512"), (49152, "48k"), (1 << 20, "1.0M"), (None, "unknown")])
def test_tokens(count: int | None, text: str) -> None:
    assert words.format_tokens(count) == text


@pytest.mark.parametrize(("count", "text"), [(5_200_000, "5.2M"), (8_030_000_000, "8.0B"), (900, "900")])
def test_parameters(count: int, text: str) -> None:
    assert words.format_parameters(count) == text


def test_rate() -> None:
    assert (words.format_rate(38.4), words.format_rate(3.14159), words.format_rate(None)) == (
        "38 tok/s",
        "3.1 tok/s",
        "unknown",
    )


@given(st.floats(min_value=0, max_value=1e18))
def test_any_size_reads_as_number_and_unit(count: float) -> None:
    number, unit = words.format_bytes(count).split(" ")
    assert float(number) <= 1024 or unit == "TiB"


@pytest.mark.parametrize(
    ("good_for", "line"),
    [
        (["chat"], "For conversation"),
        (["tools", "vision", "chat"], "For conversation and images; calls tools"),
        (["reasoning", "coding"], "For code and hard questions"),
        (["tools"], "Calls tools"),
        (["embedding"], "Finds texts by meaning"),
        (["embedding", "vision"], "Finds texts and images by meaning"),
        (["rerank"], "Sorts search results by how well they answer a question"),
        (["speech"], "Turns speech into text"),
        (["coding", "autocomplete"], "For code and code completion"),
        ([], ""),
    ],
)
def test_a_line_says_what_a_model_is_for(good_for: list[str], line: str) -> None:
    assert words.format_purpose(good_for) == line


@pytest.mark.parametrize(
    ("state", "line"),
    [
        (Autocomplete(), "No model completes code."),
        (Autocomplete(model="m", problem="It is gone."), "m cannot complete code. It is gone."),
        (Autocomplete(model="m"), "m completes code, and stays loaded."),
        (
            Autocomplete(model="m", beside="big", fits=True, needed=1 << 30, room=2 << 30),
            "m completes code, and stays loaded beside big: together they take 1.0 GiB of 2.0 GiB.",
        ),
        (
            Autocomplete(model="m", beside="big", fits=False, needed=3 << 30, room=2 << 30),
            (
                "m completes code, but has no room beside big: together they take 3.0 GiB, and there are 2.0 GiB. "
                "Each makes way for the other. Choose a smaller one."
            ),
        ),
    ],
)
def test_a_line_says_how_code_completion_stands(state: Autocomplete, line: str) -> None:
    assert words.format_autocomplete(state) == line
