"""What an archive may do to the folder it is unpacked into: nothing but fill it."""

import io
import os
import stat
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from app.core.errors import EnvironmentFault
from app.engine_store.archives import unpack_archive

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def file(name: str, content: bytes = b"x", *, mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.mode = mode
    return info, content


def other(name: str, kind: bytes, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


@POSIX
def test_links_and_the_right_to_execute_are_kept_and_the_one_top_folder_is_not(tmp_path: Path) -> None:
    archive = tar(
        tmp_path / "a.tar.gz",
        other("llama-b1", tarfile.DIRTYPE),
        file("llama-b1/llama-server", b"program", mode=0o755),
        file("llama-b1/libggml.so.0", b"library"),
        other("llama-b1/libggml.so", tarfile.SYMTYPE, "libggml.so.0"),
        other("llama-b1/copy", tarfile.LNKTYPE, "llama-b1/libggml.so.0"),
    )
    into = tmp_path / "into"
    unpack_archive(archive, into)
    assert names(into) == ["copy", "libggml.so", "libggml.so.0", "llama-server"]
    assert stat.S_IMODE((into / "llama-server").stat().st_mode) == 0o755
    assert stat.S_IMODE((into / "libggml.so.0").stat().st_mode) == 0o644
    assert (into / "libggml.so").readlink() == Path("libggml.so.0")
    assert (into / "libggml.so").read_bytes() == (into / "copy").read_bytes() == b"library"


def test_a_companion_is_unpacked_into_the_same_folder_and_replaces_nothing(tmp_path: Path) -> None:
    first = tar(tmp_path / "a.tar.gz", file("a", b"1"), file("lib/one", b"1"))
    second = tar(tmp_path / "b.tar.gz", file("b", b"2"), file("lib/two", b"2"))
    into = tmp_path / "into"
    unpack_archive(first, into)
    unpack_archive(second, into)
    assert sorted(path.name for path in into.rglob("*")) == ["a", "b", "lib", "one", "two"]
    with pytest.raises(EnvironmentFault, match="conflict"):
        unpack_archive(tar(tmp_path / "c.tar.gz", file("a", b"3"), file("c", b"3")), into)
    assert (into / "a").read_bytes() == b"1"


def test_a_zip_keeps_the_right_to_execute(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as zip_file:
        info = zipfile.ZipInfo("llama-server")
        info.external_attr = (stat.S_IFREG | 0o755) << 16
        zip_file.writestr(info, b"program")
        zip_file.writestr("readme.txt", b"text")
        zip_file.writestr("llama-server.exe", b"program")
    unpack_archive(archive, tmp_path / "into")
    assert (tmp_path / "into" / "llama-server").stat().st_mode & stat.S_IXUSR
    assert (tmp_path / "into" / "llama-server.exe").stat().st_mode & stat.S_IXUSR
    if sys.platform != "win32":
        assert not (tmp_path / "into" / "readme.txt").stat().st_mode & stat.S_IXUSR


ATTACKS: dict[str, tuple[tuple[tarfile.TarInfo, bytes], ...]] = {
    "up": (file("../evil"),),
    "up in the middle": (file("a/../../evil"),),
    "absolute": (file("/tmp/evil"),),  # noqa: S108 -- the attack itself
    "backslashes": (file("..\\evil"),),
    "a drive": (file("C:evil"),),
    "a link up": (other("a/b", tarfile.SYMTYPE, "../../evil"), file("c")),
    "an absolute link": (other("a", tarfile.SYMTYPE, "/etc/passwd"), file("c")),
    "through a link": (other("a", tarfile.SYMTYPE, ".."), file("a/evil")),
    "a hard link out": (other("a", tarfile.LNKTYPE, "../../etc/passwd"), file("c")),
    "a hard link to nothing": (other("a", tarfile.LNKTYPE, "b"), file("c")),
    "a device": (other("null", tarfile.CHRTYPE), file("c")),
    "a pipe": (other("pipe", tarfile.FIFOTYPE), file("c")),
    "twice": (file("a", b"1"), file("a", b"2")),
    "a file as a folder": (file("a"), file("a/b")),
    "a link to itself": (other("a", tarfile.SYMTYPE, "a"), file("c")),
    "links in a circle": (other("a", tarfile.SYMTYPE, "b"), other("b", tarfile.SYMTYPE, "a"), file("c")),
    "links that only together lead out": (
        other("x", tarfile.DIRTYPE),
        other("a", tarfile.SYMTYPE, "b/c/../.."),
        other("b", tarfile.DIRTYPE),
        other("b/c", tarfile.SYMTYPE, "../x"),
    ),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_what_reaches_out_of_the_folder_is_refused(
    tmp_path: Path, attack: tuple[tuple[tarfile.TarInfo, bytes], ...]
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    archive = tar(tmp_path / "a.tar.gz", *attack)
    with pytest.raises(EnvironmentFault) as error:
        unpack_archive(archive, home / "into")
    assert error.value.code == "bad_archive"
    assert names(tmp_path) == ["a.tar.gz", "home"]
    assert names(home) == ["into"]
    assert names(home / "into") == []


def test_a_zip_that_reaches_out_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as zip_file:
        info = zipfile.ZipInfo("link")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        zip_file.writestr(info, "../../etc/passwd")
        zip_file.writestr("x", b"")
    with pytest.raises(EnvironmentFault, match="points outside"):
        unpack_archive(archive, tmp_path / "into")


def test_a_bomb_is_caught_by_the_bytes_it_writes(tmp_path: Path) -> None:
    archive = tar(tmp_path / "a.tar.gz", file("zeros", bytes(5_000_000)))
    assert archive.stat().st_size < 50_000
    with pytest.raises(EnvironmentFault, match="more than it may"):
        unpack_archive(archive, tmp_path / "into", most_bytes=4_000_000)
    with pytest.raises(EnvironmentFault, match="more than 2 entries"):
        unpack_archive(tar(tmp_path / "b.tar.gz", file("a"), file("b"), file("c")), tmp_path / "b", most_files=2)


@pytest.mark.parametrize(
    "spoil", [lambda _data: b"this is no archive", lambda data: data[: len(data) // 2], lambda _data: b""]
)
def test_what_is_no_archive_or_half_of_one_is_refused(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    archive = tar(tmp_path / "a.tar.gz", file("a", os.urandom(10_000)))
    archive.write_bytes(spoil(archive.read_bytes()))
    with pytest.raises(EnvironmentFault) as error:
        unpack_archive(archive, tmp_path / "into")
    assert error.value.code == "bad_archive"


def test_folders_that_an_archive_does_not_name_are_made(tmp_path: Path) -> None:
    archive = tar(
        tmp_path / "a.tar.gz",
        file("top/a/b/one", b"1"),
        other("top/c/d/two", tarfile.LNKTYPE, "top/a/b/one"),
        *([other("top/e/f/three", tarfile.SYMTYPE, "../../a/b/one")] if sys.platform != "win32" else []),
    )
    into = tmp_path / "into"
    unpack_archive(archive, into)
    for path in ("a/b/one", "c/d/two", *(["e/f/three"] if sys.platform != "win32" else [])):
        assert (into / path).read_bytes() == b"1"


def test_an_archive_may_have_so_many_bytes_and_entries_and_no_more(tmp_path: Path) -> None:
    archive = tar(tmp_path / "a.tar.gz", file("top/a", b"12"), file("top/b", b"34"))
    unpack_archive(archive, tmp_path / "enough", most_bytes=4, most_files=2)
    assert names(tmp_path / "enough") == ["a", "b"]
    for most_bytes, most_files in ((3, 2), (4, 1)):
        with pytest.raises(EnvironmentFault):
            unpack_archive(archive, tmp_path / "less", most_bytes=most_bytes, most_files=most_files)
