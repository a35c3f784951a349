"""Go's proxy is built when it is asked for and not there yet; where Go cannot be had, that is a sentence."""

import os
import sys
from pathlib import Path

import pytest

from tests.bench import go_proxy

SCRIPT = "#!/bin/sh\necho one more >> {calls}\necho 'something first' >&2\necho 'no network' >&2\nexit {code}\n"
on_posix = pytest.mark.skipif(sys.platform == "win32", reason="plays programs by shell scripts")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(go_proxy, "FOLDER", tmp_path)
    monkeypatch.setattr(go_proxy, "_BUILT", tmp_path / "go_proxy")
    monkeypatch.setattr(go_proxy, "_PROGRAMS", tmp_path / "bin")
    return tmp_path


def play_program(path: Path, *, code: int = 0) -> Path:
    """Return a program that notes its calls beside itself."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(SCRIPT.format(calls=path.with_suffix(".calls"), code=code))
    path.chmod(0o755)
    return path


@on_posix
def test_what_fails_is_said_in_its_last_words(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uv = play_program(folder / "uv", code=1)
    monkeypatch.setattr(go_proxy, "uv_program", lambda: uv)
    with pytest.raises(go_proxy.GoUnavailable, match=r"^Go cannot be had here: no network$"):
        go_proxy.build()


def test_without_uv_there_is_no_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(go_proxy, "uv_program", lambda: None)
    with pytest.raises(go_proxy.GoUnavailable, match="no uv"):
        go_proxy.build()


@on_posix
def test_it_is_built_again_only_where_its_source_is_newer(folder: Path) -> None:
    go, program = play_program(folder / "bin" / "go"), folder / "go_proxy"
    source = max(file.stat().st_mtime for file in go_proxy.SOURCE.iterdir())
    for age_s, calls in ((1.0, 1), (-1.0, 1)):
        program.touch()
        os.utime(program, (source - age_s, source - age_s))
        assert go_proxy.build() == program
        assert go.with_suffix(".calls").read_text().count("one more") == calls
