"""A file is compared with the hash it is named by; without one, with what its header says."""

import hashlib
import os
from pathlib import Path

import pytest

from app.core.errors import BadRequest
from app.core.library import Verdict
from app.core.models import ModelInfo
from app.hub.disk.verification import check_files, files_of
from tests.gguf_files import TinyLlama


class EndedError(Exception):
    """Ends a reading."""


def quiet(_file: Path, _more: int) -> None:
    """Say nothing."""


def verdict(file: Path) -> Verdict:
    (result,) = check_files([file], quiet)
    return result.verdict


def test_a_name_that_is_a_hash_is_held_against_the_content(tmp_path: Path) -> None:
    content = TinyLlama().content()
    blob = tmp_path / f"sha256-{hashlib.sha256(content).hexdigest()}"
    blob.write_bytes(content)
    assert verdict(blob) is Verdict.RIGHT
    with blob.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x7f")
    assert verdict(blob) is Verdict.WRONG


def test_links_of_the_hubs_cache_are_followed_to_both_kinds_of_hash(tmp_path: Path) -> None:
    names = {
        "model.gguf": hashlib.sha256(b"weights").hexdigest(),
        "config.json": hashlib.sha1(b"blob 7\0weights", usedforsecurity=False).hexdigest(),
    }
    links = []
    for name, digest in names.items():
        (tmp_path / digest).write_bytes(b"weights")
        links.append(tmp_path / name)
        try:
            links[-1].symlink_to(tmp_path / digest)
        except OSError:
            pytest.skip("this system lets nobody make links")
    assert [file.verdict for file in check_files(links, quiet)] == [Verdict.RIGHT, Verdict.RIGHT]
    (tmp_path / names["config.json"]).write_bytes(b"changed")
    assert [file.verdict for file in check_files(links, quiet)] == [Verdict.RIGHT, Verdict.WRONG]


def test_without_a_hash_the_header_tells_what_is_cut_off(tmp_path: Path) -> None:
    file = TinyLlama().write(tmp_path / "model.gguf")
    assert verdict(file) is Verdict.WHOLE
    os.truncate(file, file.stat().st_size - 40)
    (result,) = check_files([file], quiet)
    assert (result.verdict, result.note) == (Verdict.CUT_OFF, "40 bytes are missing at its end.")
    assert verdict(tmp_path / "gone.gguf") is Verdict.CUT_OFF


def test_every_byte_is_told_and_telling_can_end_it(tmp_path: Path) -> None:
    file = tmp_path / f"sha256-{'a' * 64}"
    file.write_bytes(bytes(9 << 20))
    amounts: list[int] = []
    assert [result.verdict for result in check_files([file], lambda _file, more: amounts.append(more))] == [
        Verdict.WRONG
    ]
    assert sum(amounts) == 9 << 20

    def enough(_file: Path, _more: int) -> None:
        raise EndedError

    with pytest.raises(EndedError):
        list(check_files([file], enough))


def test_a_model_is_all_its_files_and_one_elsewhere_has_none(tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors", "other.gguf"):
        (tmp_path / name).touch()
    folder = ModelInfo(name="m", title="m", path=str(tmp_path), format="safetensors", size_bytes=1)
    assert [file.name for file in files_of(folder)] == ["config.json", "model.safetensors"]
    far = ModelInfo(name="m", title="m", path="/x", format="remote", size_bytes=0, attached="http://far")
    with pytest.raises(BadRequest, match="runs elsewhere"):
        files_of(far)
