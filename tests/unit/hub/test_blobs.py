"""Uploaded files: whole and what their digest says, or not there at all."""

import hashlib
import os
import shutil
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.core.errors import BadRequest, NotFound, StorageFault
from app.hub.disk import blobs as module
from app.hub.disk.blobs import KEPT_S, BlobStore, BlobUpload, hex_of

DATA = b"weights" * 1000
DIGEST = "sha256:" + hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs", tmp_path / "created")


def upload(blobs: BlobStore, data: bytes = DATA, digest: str = DIGEST) -> None:
    with take_upload(blobs, digest, len(data)) as session:
        session.write_piece(data[:100])
        session.write_piece(data[100:])
        session.move_into_place()


@contextmanager
def take_upload(blobs: BlobStore, digest: str = DIGEST, expected_bytes: int | None = None) -> Iterator[BlobUpload]:
    session = blobs.start_upload(digest, expected_bytes=expected_bytes)
    try:
        session.open_file()
        yield session
    finally:
        session.close_and_clean()


def list_blobs(tmp_path: Path) -> list[str]:
    return sorted(file.name for file in (tmp_path / "blobs").iterdir())


def test_an_upload_is_there_whole(blobs: BlobStore, tmp_path: Path) -> None:
    assert not blobs.has_blob(DIGEST)
    upload(blobs)
    assert blobs.has_blob(DIGEST)
    assert blobs.has_blob(DIGEST.replace(":", "-")), "Ollama writes it both ways"
    assert blobs.blob_path(DIGEST).read_bytes() == DATA
    assert list_blobs(tmp_path) == [DIGEST.replace(":", "-")]


def test_what_is_not_what_its_digest_says_is_refused_and_leaves_nothing(blobs: BlobStore, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="digest mismatch"):
        upload(blobs, data=DATA + b"x")
    assert list_blobs(tmp_path) == []


def test_an_upload_that_is_broken_off_leaves_nothing(blobs: BlobStore, tmp_path: Path) -> None:
    with take_upload(blobs) as session:
        session.write_piece(DATA)
    assert list_blobs(tmp_path) == []


@pytest.mark.parametrize("expected_bytes", [None, 1 << 40])
def test_a_disk_without_room_is_not_filled(
    blobs: BlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected_bytes: int | None
) -> None:
    usage = namedtuple("usage", "free")  # noqa: PYI024 -- as `shutil` has it
    free = module.RESERVE_BYTES + len(DATA)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(free))
    with (
        pytest.raises(StorageFault, match="not enough disk space"),
        take_upload(blobs, expected_bytes=expected_bytes) as session,
    ):
        session.write_piece(DATA + DATA)
    assert list_blobs(tmp_path) == []


@pytest.mark.parametrize(
    "digest",
    [
        "",
        "sha256:",
        "sha256:" + "0" * 63,
        "sha256:" + "0" * 65,
        "sha256:" + "A" * 64,
        "md5:" + "0" * 64,
        "sha256:../../../etc/passwd",
        "sha256:" + "0" * 32 + "/" + "0" * 31,
        "sha256:" + "0" * 64 + "\n",
    ],
)
def test_a_digest_is_nothing_but_a_digest(digest: str) -> None:
    with pytest.raises(BadRequest, match="invalid digest format"):
        hex_of(digest)


def test_weights_are_linked_and_take_no_more_space(blobs: BlobStore) -> None:
    upload(blobs)
    placed_file = blobs.link_blobs({"weights.gguf": DIGEST})["weights.gguf"]
    assert placed_file.name == "weights.gguf"
    assert placed_file.samefile(blobs.blob_path(DIGEST))
    assert blobs.link_blobs({"weights.gguf": DIGEST})["weights.gguf"] == placed_file, "asking again changes nothing"


def test_where_links_are_not_to_be_had_a_copy_is_made(blobs: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_names: object) -> None:
        raise OSError("not supported")

    upload(blobs)
    monkeypatch.setattr(os, "link", refuse)
    assert blobs.link_blobs({"weights.gguf": DIGEST})["weights.gguf"].read_bytes() == DATA


def test_a_blob_that_was_never_uploaded_cannot_be_used(blobs: BlobStore) -> None:
    with pytest.raises(NotFound, match="no blob"):
        blobs.link_blobs({"weights.gguf": DIGEST})


def test_tidying_keeps_what_is_used_and_what_is_new(blobs: BlobStore) -> None:
    upload(blobs)
    placed_file = blobs.link_blobs({"weights.gguf": DIGEST})["weights.gguf"]
    later = placed_file.stat().st_mtime + 2 * KEPT_S
    blobs.remove_unused({str(placed_file)}, later)
    assert placed_file.is_file()
    assert blobs.has_blob(DIGEST)
    blobs.remove_unused(set(), placed_file.stat().st_mtime + 1)
    assert not placed_file.exists()
    assert blobs.has_blob(DIGEST), "creating it again needs no new upload"
    blobs.remove_unused(set(), later)
    assert not blobs.has_blob(DIGEST)
