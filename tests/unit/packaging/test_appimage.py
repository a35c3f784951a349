"""The AppImage behind a stand-in for the runtime: what is packed, the way in, and files that are refused."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from tests.packaging_scripts import PACKAGING, script

UNSQUASHFS = shutil.which("unsquashfs") or ""
RUNTIME = b"\x7fELF\x02\x01\x01\x00AI\x02" + bytes(4085)
"""As long as a page; a real one finds its own end in its header."""
SHA256 = hashlib.sha256(RUNTIME).hexdigest()
PROGRAM = '#!/bin/sh\necho "$(basename "$0")" "$@"\n'


@pytest.fixture
def appimage(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(PACKAGING))  # it shares what a desktop reads with the Debian package
    return script("appimage")


@pytest.fixture
def parts(appimage: ModuleType, tmp_path: Path) -> object:
    for name in ("frozen", "icons", "documents"):
        (tmp_path / name).mkdir()
    for name in ("roundhouse", "roundhouse-window"):
        program = tmp_path / "frozen" / name
        program.write_text(PROGRAM)
        program.chmod(0o755)
    for size in (48, 256):
        (tmp_path / f"icons/{size}.png").write_bytes(b"a picture")
    (tmp_path / "documents/sbom.cdx.json").write_text("{}")
    return appimage.Parts(
        frozen=tmp_path / "frozen",
        linux=PACKAGING / "linux",
        icons=tmp_path / "icons",
        documents=tmp_path / "documents",
        manual="",
    )


@pytest.fixture
def runtime(appimage: ModuleType, tmp_path: Path) -> object:
    (tmp_path / "runtime").write_bytes(RUNTIME)
    return appimage.Runtime(file=tmp_path / "runtime", sha256=SHA256)


@pytest.mark.skipif(not (UNSQUASHFS and shutil.which("mksquashfs")), reason="squashfs-tools are not installed")
def test_the_runtime_comes_first_and_behind_it_the_application(
    appimage: ModuleType, parts: object, runtime: object, tmp_path: Path
) -> None:
    image = appimage.build(parts, tmp_path, runtime, version="1.2.3", machine="x86_64")
    assert image.name == "roundhouse-1.2.3-x86_64.AppImage"
    assert os.access(image, os.X_OK)
    assert image.read_bytes().startswith(RUNTIME)
    folder = tmp_path / "unpacked"
    argv = [UNSQUASHFS, "-q", "-n", "-o", str(len(RUNTIME)), "-d", str(folder), str(image)]
    subprocess.run(argv, check=True, capture_output=True)
    assert {path.name for path in folder.iterdir()} == {
        "AppRun",
        ".DirIcon",
        "roundhouse.desktop",
        "roundhouse.svg",
        "usr",
    }
    assert (folder / "usr/share/metainfo/ai.roundhouse.Roundhouse.metainfo.xml").is_file()
    assert (folder / "usr/share/doc/roundhouse/sbom.cdx.json").is_file()
    assert sorted(path.name for path in tmp_path.glob("AppDir*")) == []


@pytest.mark.skipif(os.name != "posix", reason="AppRun is a shell script")
@pytest.mark.parametrize(
    ("argv", "ran"),
    [
        (["Roundhouse.AppImage"], "roundhouse-window"),
        (["Roundhouse.AppImage", "/home/me/a b.gguf"], "roundhouse-window /home/me/a b.gguf"),
        (["Roundhouse.AppImage", "roundhouse://chat"], "roundhouse-window roundhouse://chat"),
        (["Roundhouse.AppImage", "-P", "-m", "app.gateway"], "roundhouse -P -m app.gateway"),
        (["/home/me/bin/roundhouse", "ps"], "roundhouse ps"),
        (["/home/me/bin/roundhouse"], "roundhouse"),
    ],
)
def test_the_way_in_is_the_window_the_command_or_a_program_of_ours(
    appimage: ModuleType, parts: object, tmp_path: Path, argv: list[str], ran: str
) -> None:
    folder = tmp_path / "an AppDir"
    appimage.lay_out(parts, folder)
    environment = {**os.environ, "ARGV0": argv[0]}
    result = subprocess.run([folder / "AppRun", *argv[1:]], capture_output=True, text=True, check=True, env=environment)
    assert result.stdout.strip() == ran


def test_another_file_than_was_named_is_refused(appimage: ModuleType, runtime: object, tmp_path: Path) -> None:
    (tmp_path / "runtime").write_bytes(RUNTIME + b"!")
    with pytest.raises(appimage.NotARuntime, match="SHA-256"):
        appimage.checked(runtime)


@pytest.mark.parametrize("data", [b"", b"#!/bin/sh\n", b"\x7fELF" + bytes(60)])
def test_a_file_that_is_no_runtime_is_refused(appimage: ModuleType, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "other").write_bytes(data)
    runtime = appimage.Runtime(file=tmp_path / "other", sha256=hashlib.sha256(data).hexdigest().upper())
    with pytest.raises(appimage.NotARuntime, match="type 2"):
        appimage.checked(runtime)
