from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engines.serving.text import BytesDecoder, StopSequences

LETTERS = st.text(alphabet="ab🚂é", max_size=12)


@given(text=LETTERS, stops=st.lists(LETTERS.filter(bool), max_size=3), cuts=st.lists(st.integers(0, 12), max_size=5))
def test_a_text_is_cut_at_its_first_stop_however_it_is_divided(text: str, stops: list[str], cuts: list[int]) -> None:
    cutter = StopSequences(stops)
    bounds = sorted({0, len(text), *(cut for cut in cuts if cut <= len(text))})
    pieces = [text[start:end] for start, end in pairwise(bounds)]
    whole_text = "".join(cutter.feed(piece) for piece in pieces) + cutter.flush()
    met = _where_first_completed(text, stops, bounds)
    assert whole_text == (text if met is None else text[:met])
    assert cutter.is_met == (met is not None)


def _where_first_completed(text: str, stops: list[str], bounds: list[int]) -> int | None:
    """A stop is seen once the piece that completes it has come; of several seen then, the first one counts."""
    for end in bounds[1:]:
        at = [text.find(stop, 0, end) for stop in stops]
        if places := [place for place in at if place >= 0]:
            return min(places)
    return None


def test_nothing_is_held_back_without_a_reason() -> None:
    stops = StopSequences(["STOP"])
    assert stops.feed("Say ST") == "Say "
    assert stops.feed("AR") == "STAR"
    assert stops.feed("S") == ""
    assert stops.flush() == "S"


def test_after_a_stop_nothing_comes() -> None:
    stops = StopSequences(["."])
    assert stops.feed("One. Two") == "One"
    assert stops.feed(" Three") == ""
    assert stops.flush() == ""


@given(text=st.text(max_size=20), sizes=st.lists(st.integers(1, 4), min_size=1, max_size=20))
def test_bytes_become_whole_characters(text: str, sizes: list[int]) -> None:
    rest, pieces = text.encode(), list[bytes]()
    while rest:
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(rest[:size])
        rest = rest[size:]
    decoder = BytesDecoder(pieces.__getitem__)
    read = [decoder.feed(token) for token in range(len(pieces))]
    assert "".join(read) + decoder.flush() == text
    assert "\ufffd" not in "".join(read).replace("\ufffd" if "\ufffd" in text else "", "")


def test_bytes_that_never_become_a_character_are_shown_as_such() -> None:
    decoder = BytesDecoder([b"\xf0\x9f"].__getitem__)
    assert decoder.feed(0) == ""
    assert decoder.flush() == "\ufffd"
