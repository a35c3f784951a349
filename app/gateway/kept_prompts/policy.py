"""Which prompts are worth keeping, which is worth loading for a request, and which go when there is no room. Pure.

A prompt is known by a chain of hashes over its text, block by block: two prompts that begin alike share the beginning
of their chains. What a prompt is worth is the time it saves for each byte it takes, halved for every week in which
nobody used it.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

import msgspec

BLOCK_BYTES = 1024
"""Of a prompt's text for one hash: some 250 tokens."""
DIGEST_BYTES = 8
LEAST_TOKENS = 2048
"""Shorter prompts are read again in the time that keeping them would take."""
LEAST_GAIN_TOKENS = 1024
"""So much more than the engine has already must be won to load anything for a request."""
LEAST_BODY_BYTES = 4096
"""A body shorter than this holds no prompt of `LEAST_TOKENS`: nothing is looked up for it."""
ENOUGH_SHARE = 0.9
"""A prompt of which so much is kept already is not kept once more."""
HALF_LIFE_S = 7 * 24 * 3600.0
LOAD_BYTES_S = 200e6
"""Decrypting, writing and reading a state: 0.6 to 1.1 GB/s were measured on two cores; slow disks do this."""
_FIELDS = ("tools", "system", "systemInstruction", "messages", "prompt", "input_prefix", "input")
"""Of a request, what makes its prompt, in the order in which templates write it."""
_MARKS = frozenset({"cache_control"})


class PromptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a kept prompt. `chain` is its text's hashes, `identity` what the state fits (`identity`)."""

    owner: str
    model: str
    engine: str
    identity: str
    chain: bytes
    tokens: int
    """In the state: the prompt, and what was written after it."""
    prompt_tokens: int
    read_s: float
    """How long the engine takes to read the prompt."""
    state_bytes: int
    created_at: float


class PromptPlace(StrEnum):
    """Where a prompt is kept."""

    DISK = "disk"
    MEMORY = "memory"


class PromptEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One kept prompt; `size_bytes` is what it takes where it is, `used_at` Unix seconds."""

    id: str
    record: PromptRecord
    place: PromptPlace
    size_bytes: int
    used_at: float

    def value_at(self, now: float) -> float:
        """Return the seconds saved for each byte; half of it for each week without use."""
        age_s = max(0.0, now - self.used_at)
        return self.record.read_s / max(1, self.size_bytes) * math.pow(0.5, age_s / HALF_LIFE_S)


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a request that make its prompt."""

    tools: object = None
    system: object = None
    systemInstruction: object = None  # noqa: N815 -- Google's name
    messages: object = None
    prompt: object = None
    input_prefix: object = None
    input: object = None


def prompt_chain(body: bytes) -> bytes:
    """Return the hashes of a request's prompt, one for each whole block; empty for what is no request."""
    try:
        fields = msgspec.json.decode(body, type=_Body)
        parts = [part for name in _FIELDS for part in _list_texts(getattr(fields, name))]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return b""
    text = "\0".join(parts).encode(errors="surrogatepass")
    chain, digest = bytearray(), b""
    for start in range(0, len(text) - BLOCK_BYTES + 1, BLOCK_BYTES):
        digest = hashlib.blake2b(digest + text[start : start + BLOCK_BYTES], digest_size=DIGEST_BYTES).digest()
        chain += digest
    return bytes(chain)


def _list_texts(value: object) -> Iterator[str]:
    """Yield what a value says, whatever the order and the spaces it was written with.

    A text is one whether it stands alone or as a part of a message; marks of clients for caches, which wander from turn
    to turn, are no part of a prompt.
    """
    match value:
        case None:
            pass
        case str():
            yield value
        case {"type": "text", "text": str(text)}:
            yield text
        case dict():
            for key in sorted(value.keys() - _MARKS):
                yield str(key)
                yield from _list_texts(value[key])
        case list():
            for item in value:
                yield from _list_texts(item)
        case _:
            yield repr(value)


def count_shared_blocks(left_chain: bytes, right: bytes) -> int:
    """Return how many blocks two chains have in common from their beginning."""
    least, most = 0, min(len(left_chain), len(right)) // DIGEST_BYTES
    while least < most:  # a hash holds all before it, so the last one that agrees says it for the others
        middle = (least + most + 1) // 2
        end = middle * DIGEST_BYTES
        if left_chain[end - DIGEST_BYTES : end] == right[end - DIGEST_BYTES : end]:
            least = middle
        else:
            most = middle - 1
    return least


def count_shared_tokens(chain: bytes, tokens: int, other: bytes) -> int:
    """Return about how many tokens of a prompt, of which `chain` and `tokens` are known, another begins with."""
    blocks = len(chain) // DIGEST_BYTES
    return tokens * count_shared_blocks(chain, other) // blocks if blocks else 0


def choose_prompt(
    entries: Iterable[PromptEntry], chain: bytes, engine_has: int, *, load_bytes_s: float = LOAD_BYTES_S
) -> PromptEntry | None:
    """Return what saves most time for a request, None where loading anything would save none.

    `engine_has`: tokens of this prompt that the engine has without it.
    """
    best: tuple[float, PromptEntry] | None = None
    for entry in entries:
        record = entry.record
        gain = count_shared_tokens(record.chain, record.prompt_tokens, chain) - engine_has
        saved_s = record.read_s * gain / max(1, record.prompt_tokens) - record.state_bytes / load_bytes_s
        if gain >= LEAST_GAIN_TOKENS and saved_s > 0 and (best is None or saved_s > best[0]):
            best = saved_s, entry
    return None if best is None else best[1]


def is_kept_already(entries: Iterable[PromptEntry], chain: bytes, prompt_tokens: int) -> bool:
    """Tell whether nearly all of a prompt is among what is kept."""
    return any(
        count_shared_tokens(chain, prompt_tokens, entry.record.chain) >= ENOUGH_SHARE * prompt_tokens
        for entry in entries
    )


def find_replaced_entries(entries: Iterable[PromptEntry], record: PromptRecord) -> list[PromptEntry]:
    """Return what a new prompt makes needless: those of the same owner and model whose whole text it begins with."""
    return [
        entry
        for entry in entries
        if (entry.record.owner, entry.record.identity) == (record.owner, record.identity)
        and count_shared_blocks(entry.record.chain, record.chain) * DIGEST_BYTES == len(entry.record.chain)
    ]


def choose_evictions(entries: Sequence[PromptEntry], limit_bytes: int, now: float) -> list[PromptEntry]:
    """Return which go so that the rest fits: those that save least for their size."""
    excess = sum(entry.size_bytes for entry in entries) - limit_bytes
    evictions: list[PromptEntry] = []
    for entry in sorted(entries, key=lambda entry: (entry.value_at(now), entry.id)):
        if excess <= 0:
            break
        evictions.append(entry)
        excess -= entry.size_bytes
    return evictions
