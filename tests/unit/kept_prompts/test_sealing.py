"""A sealed file holds what it was given for whom it was given, and is refused as soon as a bit of it is another."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.gateway.kept_prompts import sealing
from app.gateway.kept_prompts.sealing import (
    PromptDamageError,
    name_tag,
    open_record,
    open_state,
    read_head,
    seal_prompt,
)
from tests.unit.kept_prompts.records import record_of

MASTER, ANOTHER = bytes(range(32)), bytes(32)
FRAME = 64


@pytest.fixture(autouse=True)
def small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "FRAME_BYTES", FRAME)


def seal_state(state: bytes, owner: str = "programs") -> bytes:
    into = io.BytesIO()
    seal_prompt(MASTER, record_of(owner=owner), io.BytesIO(state), into)
    return into.getvalue()


def open_sealed(content: bytes, owner: str = "programs", master: bytes = MASTER) -> bytes:
    into = io.BytesIO()
    open_state(master, io.BytesIO(content), owner, into)
    return into.getvalue()


@pytest.mark.parametrize("size", [0, 1, FRAME - 1, FRAME, FRAME + 1, 3 * FRAME, 3 * FRAME + 5])
def test_what_was_sealed_comes_out_again(size: int) -> None:
    state = bytes(number % 251 for number in range(size))
    assert open_sealed(seal_state(state)) == state
    assert open_record(MASTER, io.BytesIO(seal_state(state))) == record_of()


def test_nothing_of_it_can_be_read_in_the_file() -> None:
    content = seal_state(b"secret words" * 20)
    assert b"secret" not in content
    assert b"programs" not in content
    assert b"llama.cpp" not in content


def test_the_same_state_is_never_sealed_alike() -> None:
    assert seal_state(b"state") != seal_state(b"state")


@settings(max_examples=300)
@given(st.data())
def test_a_changed_bit_is_noticed_wherever_it_is(data: st.DataObject) -> None:
    content = bytearray(seal_state(b"x" * (2 * FRAME + 7)))
    at = data.draw(st.integers(min_value=0, max_value=len(content) * 8 - 1))
    content[at // 8] ^= 1 << at % 8
    with pytest.raises(PromptDamageError):
        open_sealed(bytes(content))


@pytest.mark.parametrize("state_bytes", [FRAME, 3 * FRAME, 3 * FRAME + 5])
def test_a_file_that_is_cut_off_anywhere_is_noticed(state_bytes: int) -> None:
    content = seal_state(b"x" * state_bytes)
    for size in range(len(content)):
        with pytest.raises(PromptDamageError):
            open_sealed(content[:size])


def test_frames_that_are_left_out_moved_or_added_are_noticed() -> None:
    content = seal_state(b"a" * FRAME + b"b" * FRAME + b"c" * FRAME)
    whole = FRAME + 16
    head, frames = (
        content[: -3 * whole],
        [content[-3 * whole : -2 * whole], content[-2 * whole : -whole], content[-whole:]],
    )
    for order in ((0, 2), (1, 0, 2), (0, 1), (0, 1, 2, 2), (0, 0, 1, 2)):
        with pytest.raises(PromptDamageError):
            open_sealed(head + b"".join(frames[at] for at in order))


def test_a_prompt_is_its_owners_only_and_of_one_master_key() -> None:
    content = seal_state(b"state", owner="key 1.0 mine")
    assert open_sealed(content, owner="key 1.0 mine") == b"state"
    for owner, master in (("programs", MASTER), ("key 2.0 mine", MASTER), ("key 1.0 mine", ANOTHER)):
        with pytest.raises(PromptDamageError):
            open_sealed(content, owner=owner, master=master)


def test_a_description_of_another_file_is_noticed() -> None:
    mine, theirs = seal_state(b"mine"), seal_state(b"theirs")
    head = read_head(io.BytesIO(mine))
    described_bytes = len(head.raw) + head.description_bytes
    with pytest.raises(PromptDamageError):
        open_sealed(mine[:described_bytes] + theirs[described_bytes:])
    with pytest.raises(PromptDamageError):
        open_sealed(theirs[: len(head.raw)] + mine[len(head.raw) :])


def test_a_head_says_whose_it_is_to_those_who_know_the_name() -> None:
    head = read_head(io.BytesIO(seal_state(b"", owner="chats")))
    assert (head.owner_tag, head.model_tag) == (name_tag("chats"), name_tag("m"))
