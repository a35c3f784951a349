"""The laws of what is kept and what is loaded, with made-up prompts."""

import json

from hypothesis import given
from hypothesis import strategies as st

from app.gateway.kept_prompts.policy import (
    BLOCK_BYTES,
    DIGEST_BYTES,
    HALF_LIFE_S,
    LEAST_GAIN_TOKENS,
    PromptEntry,
    PromptPlace,
    choose_evictions,
    choose_prompt,
    count_shared_blocks,
    count_shared_tokens,
    find_replaced_entries,
    is_kept_already,
    prompt_chain,
)
from tests.unit.kept_prompts.records import prompt_body, record_of

NOW = 1e9
sizes = st.integers(min_value=1, max_value=10**9)
ages = st.floats(min_value=0, max_value=100 * HALF_LIFE_S)
texts = st.text(alphabet='ab\n"é', max_size=8 * BLOCK_BYTES)


@st.composite
def kept_lists(draw: st.DrawFn) -> list[PromptEntry]:
    drawn_entries = draw(st.lists(st.tuples(sizes, ages, st.floats(min_value=0.01, max_value=1e4)), max_size=12))
    return [
        entry_of(str(number), size_bytes=size, used_at=NOW - age, read_s=read_s)
        for number, (size, age, read_s) in enumerate(drawn_entries)
    ]


def entry_of(
    name: str, *, text: str = "", size_bytes: int = 1000, used_at: float = NOW, read_s: float = 10.0
) -> PromptEntry:
    record = record_of(text or "word " * 2000, read_s=read_s, state_bytes=size_bytes)
    return PromptEntry(id=name, record=record, place=PromptPlace.DISK, size_bytes=size_bytes, used_at=used_at)


@given(kept_lists(), st.integers(min_value=0, max_value=10**10))
def test_what_stays_fits_and_is_worth_no_less_than_what_goes(entries: list[PromptEntry], limit: int) -> None:
    evicted_entries = choose_evictions(entries, limit, NOW)
    stay = [entry for entry in entries if entry not in evicted_entries]
    assert sum(entry.size_bytes for entry in stay) <= limit
    assert all(out.value_at(NOW) <= kept_entry.value_at(NOW) for out in evicted_entries for kept_entry in stay)


@given(kept_lists(), st.integers(min_value=0, max_value=10**10))
def test_nothing_goes_that_need_not(entries: list[PromptEntry], limit: int) -> None:
    evicted_entries = choose_evictions(entries, limit, NOW)
    without_last = sum(entry.size_bytes for entry in entries) - sum(entry.size_bytes for entry in evicted_entries[:-1])
    assert not evicted_entries or without_last > limit


def test_a_week_without_use_halves_what_a_prompt_is_worth() -> None:
    entry = entry_of("a")
    assert entry.value_at(NOW + HALF_LIFE_S) == entry.value_at(NOW) / 2
    assert entry.value_at(NOW - 1000) == entry.value_at(NOW), "a clock that was set back makes nothing dearer"


def test_the_slower_read_and_the_smaller_is_worth_more() -> None:
    slow, large = entry_of("slow", read_s=100.0), entry_of("large", read_s=100.0, size_bytes=100_000)
    assert slow.value_at(NOW) > entry_of("plain").value_at(NOW) > large.value_at(NOW)


@given(texts, texts, texts)
def test_chains_agree_exactly_as_far_as_texts_do(start: str, left: str, right: str) -> None:
    one, other = prompt_body(start + left), prompt_body(start + right)
    chains = prompt_chain(one), prompt_chain(other)
    blocks = count_shared_blocks(*chains)
    assert blocks == count_shared_blocks(*reversed(chains))
    assert chains[0][: blocks * DIGEST_BYTES] == chains[1][: blocks * DIGEST_BYTES]
    next_digest = slice(blocks * DIGEST_BYTES, (blocks + 1) * DIGEST_BYTES)
    assert not chains[0][next_digest] or chains[0][next_digest] != chains[1][next_digest]


def test_a_longer_conversation_begins_with_the_shorter() -> None:
    shorter = prompt_chain(prompt_body("x" * 10 * BLOCK_BYTES))
    assert (
        count_shared_blocks(shorter, prompt_chain(prompt_body("x" * 20 * BLOCK_BYTES)))
        >= len(shorter) // DIGEST_BYTES - 1
    )


def test_tools_and_the_system_prompt_are_a_part_of_it() -> None:
    body = prompt_body("x" * 4 * BLOCK_BYTES)
    for other in ({"tools": [{"name": "look"}]}, {"system": "You are brief."}):
        assert not count_shared_blocks(prompt_chain(body), prompt_chain(prompt_body("x" * 4 * BLOCK_BYTES, **other)))


def test_a_prompt_is_the_same_however_it_is_written() -> None:
    text = "word " * 2000
    part = {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}
    spaced_body = json.dumps({"messages": [{"content": [part], "role": "user"}], "model": "other"}, indent=2).encode()
    assert prompt_chain(spaced_body) == prompt_chain(prompt_body(text))


def test_what_is_nested_without_end_has_no_chain() -> None:
    assert prompt_chain(b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}") == b""


def test_what_is_no_request_has_no_chain() -> None:
    assert prompt_chain(b"") == prompt_chain(b"\xff") == prompt_chain(b"[1]") == prompt_chain(b"{}") == b""


def test_a_request_gets_what_saves_most_of_it() -> None:
    long, short = entry_of("long", text="word " * 4000, read_s=40), entry_of("short", text="word " * 1000)
    other = entry_of("other", text="text " * 9000)
    chain = prompt_chain(prompt_body("word " * 4000 + "and more"))
    assert choose_prompt([short, long, other], chain, 0) is long
    assert choose_prompt([other], chain, 0) is None


def test_nothing_is_loaded_that_the_engine_nearly_has_or_that_takes_longer_than_reading() -> None:
    entry = entry_of("a")
    chain, tokens = entry.record.chain, entry.record.prompt_tokens
    assert choose_prompt([entry], chain, tokens - LEAST_GAIN_TOKENS) is entry
    assert choose_prompt([entry], chain, tokens - LEAST_GAIN_TOKENS + 1) is None
    assert choose_prompt([entry], chain, 0, load_bytes_s=entry.record.state_bytes / 20) is None


def test_a_prompt_of_which_nearly_all_is_kept_is_not_kept_again() -> None:
    entry = entry_of("a", text="word " * 4000)
    assert is_kept_already([entry], prompt_chain(prompt_body("word " * 4000 + "so?")), 5000)
    assert not is_kept_already([entry], prompt_chain(prompt_body("word " * 6000)), 7500)


def test_only_beginnings_of_the_same_owner_are_replaced() -> None:
    first_entry = entry_of("beginning", text="x" * 10 * BLOCK_BYTES)
    other = entry_of("other", text="y" * 10 * BLOCK_BYTES)
    text = "x" * 20 * BLOCK_BYTES
    assert find_replaced_entries([first_entry, other], record_of(text)) in ([first_entry], [])
    assert find_replaced_entries([first_entry, other], first_entry.record) == [first_entry]
    assert find_replaced_entries([first_entry, other], record_of("x" * 10 * BLOCK_BYTES, owner="chats")) == []


@given(st.integers(min_value=0, max_value=10**6))
def test_shared_tokens_are_never_more_than_there_are(tokens: int) -> None:
    chain = record_of().chain
    assert count_shared_tokens(chain, tokens, chain) == tokens
    assert count_shared_tokens(b"", tokens, chain) == 0
