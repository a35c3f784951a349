"""Content as Hugging Face's Xet keeps it: what `hf_xet` itself uploaded, put together again from ranges of xorbs.

Chunking, compression and hashes are those of the real client (`uploading`), so that a download is proved against its
format and not against our idea of it: https://huggingface.co/docs/xet (xorbs, shards, reconstructions).
"""

import itertools
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_RECORD = 48
"""Bytes of everything in a shard."""
_HAS_PROOFS, _HAS_SHA256 = 1 << 31, 1 << 30
_END = b"\xff" * 32


class Chunk(NamedTuple):
    """One chunk of a xorb: where it is there, packed, and how long its content is."""

    start: int
    end: int
    length: int


class Term(NamedTuple):
    """Chunks of one xorb, `start` up to `end`, that follow each other in a file."""

    xorb: str
    start: int
    end: int


@dataclass
class FakeCas:
    """The storage: xorbs by their hash, and the terms of every file by its hash."""

    xorbs: dict[str, bytes] = field(default_factory=dict)
    chunks: dict[str, list[Chunk]] = field(default_factory=dict)
    files: dict[str, list[Term]] = field(default_factory=dict)
    xet_hashes: dict[str, str] = field(default_factory=dict)
    """The Xet hash of content, by its SHA-256."""
    faults: dict[str, Callable[..., bool]] = field(default_factory=dict)
    """By kind of request ("grant", "reconstruction", "xorb"), what happens instead of an answer; see `faults`."""
    address: str = ""
    """What the hub says where this is; by default where it is."""
    tokens: list[str] = field(default_factory=list)
    """Those given out. Only the last is good."""
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Kind, range and Authorization of every request."""

    def asked_for(self, kind: str) -> list[str]:
        """Return the ranges that were asked for of one kind."""
        return [asked_range for what, asked_range, _authorization in self.requests if what == kind]

    def take_from(self, other: "FakeCas") -> None:
        """Have all content that another has."""
        for name in ("xorbs", "chunks", "files", "xet_hashes"):
            getattr(self, name).update(getattr(other, name))

    def grant(self) -> str:
        """Return a token that is good until the next one is asked for."""
        self.tokens.append(f"xet-{len(self.tokens)}")
        return self.tokens[-1]

    def is_good(self, authorization: str | None) -> bool:
        """Tell whether a request may ask."""
        return bool(self.tokens) and authorization == f"Bearer {self.tokens[-1]}"

    def take_xorb(self, name: str, xorb: bytes) -> None:
        """Keep an upload."""
        self.xorbs[name], self.chunks[name] = xorb, list(_chunks(xorb))

    def take_shard(self, shard: bytes) -> None:
        """Note which chunks of which xorbs the files of a shard are made of."""
        records = (shard[at : at + _RECORD] for at in range(_RECORD, len(shard), _RECORD))
        for head in itertools.takewhile(lambda record: record[:32] != _END, records):
            flags, count = struct.unpack_from("<II", head, 32)
            self.files[_hex(head[:32])] = [_term(next(records)) for _entry in range(count)]
            for _passed_over in range(count * bool(flags & _HAS_PROOFS) + bool(flags & _HAS_SHA256)):
                next(records)

    def reconstruction(self, file: str, byte_range: range, storage: str) -> dict[str, Any] | None:
        """Return how the bytes of a range are put together; None if it begins behind the file's end."""
        terms, before = self._find_chunks(file, byte_range)
        if not terms:
            return None
        fetch_info: dict[str, list[dict[str, Any]]] = {}
        for term in dict.fromkeys(terms):
            fetch_info.setdefault(term.xorb, []).append(self._place(term, storage))
        return {
            "offset_into_first_range": byte_range.start - before,
            "terms": [{"hash": term.xorb, "unpacked_length": self._length(term), **_range(term)} for term in terms],
            "fetch_info": fetch_info,
        }

    def _find_chunks(self, file: str, byte_range: range) -> tuple[list[Term], int]:
        """Return the chunks that a range touches, in runs, and where the first of them begins in the file."""
        terms, before, at = list[Term](), 0, 0
        for xorb, index in ((term.xorb, index) for term in self.files[file] for index in range(term.start, term.end)):
            length = self.chunks[xorb][index].length
            if at < byte_range.stop and at + length > byte_range.start:
                before = before if terms else at
                if terms and terms[-1][::2] == (xorb, index):
                    terms[-1] = terms[-1]._replace(end=index + 1)
                else:
                    terms.append(Term(xorb, index, index + 1))
            at += length
        return terms, before

    def _length(self, term: Term) -> int:
        return sum(chunk.length for chunk in self.chunks[term.xorb][term.start : term.end])

    def _place(self, term: Term, storage: str) -> dict[str, Any]:
        chunks = self.chunks[term.xorb]
        url_range = {"start": chunks[term.start].start, "end": chunks[term.end - 1].end - 1}
        return {**_range(term), "url": f"{storage}/xorb/{term.xorb}?signature=secret", "url_range": url_range}


def _range(term: Term) -> dict[str, Any]:
    return {"range": {"start": term.start, "end": term.end}}


def _chunks(xorb: bytes) -> Iterator[Chunk]:
    """Yield where the chunks of a xorb are: each has a head of eight bytes."""
    at = 0
    while at < len(xorb) and not xorb.startswith(b"XETBLOB", at):
        packed_length, length = (int.from_bytes(xorb[at + skip : at + skip + 3], "little") for skip in (1, 5))
        yield Chunk(at, at + 8 + packed_length, length)
        at += 8 + packed_length


def _term(record: bytes) -> Term:
    _flags, _length, start, end = struct.unpack_from("<IIII", record, 32)
    return Term(_hex(record[:32]), start, end)


def _hex(digest: bytes) -> str:
    """Write a hash as Xet does: four little-endian numbers."""
    return "".join(f"{number:016x}" for number in struct.unpack("<4Q", digest))
