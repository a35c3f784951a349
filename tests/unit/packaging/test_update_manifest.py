"""What describes and signs a release: what it writes is what copies accept, and it signs nothing they would refuse."""

import base64
import datetime as dt
import io
import json
import lzma
import os
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

from app import __version__
from app.config.programs import NOTE
from app.core.updates import InstallationKind
from app.updates.manifest import MOST_NOTES, SignedManifest, UpdateManifest, read_trusted_keys, verify_manifest
from tests.packaging_scripts import PACKAGING, script

MADE = {
    "roundhouse_0.2.0_amd64.deb": (InstallationKind.DEB, "linux", "x86_64"),
    "roundhouse-0.2.0-linux-aarch64.tar.xz": (InstallationKind.ARCHIVE, "linux", "arm64"),
    "roundhouse-0.2.0-windows-x86_64.exe": (InstallationKind.EXE, "win32", "x86_64"),
    "roundhouse-0.2.0-macos-arm64.dmg": (InstallationKind.DMG, "darwin", "arm64"),
}


@pytest.fixture
def tool() -> ModuleType:
    return script("update_manifest")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    dist = tmp_path / "made"
    dist.mkdir()
    for name in MADE:
        (dist / name).write_bytes(name.encode())
    (dist / "SHA256SUMS").write_text("not one of them")
    return dist


def read(folder: Path, keys: Path) -> UpdateManifest:
    content = (folder / "stable.json").read_bytes()
    signatures = (folder / "stable.json.sig").read_text()
    return verify_manifest(SignedManifest(content=content, signatures=signatures), read_trusted_keys(keys))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such rights")
def test_the_private_key_is_its_owner_s_only(tool: ModuleType, tmp_path: Path) -> None:
    public = tool.make_key(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o077 == 0
    assert len(base64.b64decode(public)) == 32
    with pytest.raises(FileExistsError):
        tool.make_key(tmp_path / "key")


def test_what_was_packed_is_described_for_the_copies_it_is_for(tool: ModuleType, folder: Path, tmp_path: Path) -> None:
    public = tool.make_key(tmp_path / "private")
    keys = tmp_path / "keys.txt"
    keys.write_text(public)
    key = tool.private_key((tmp_path / "private").read_text(), keys)
    base = "https://example.org/v0.2.0/"
    tool.signed(tool.described(folder, channel="stable", base=base, version="0.2.0"), key, folder)
    data = read(folder, keys)
    assert {file.name: (file.kind, file.platform, file.architecture) for file in data.files} == MADE
    assert all(file.url == base + file.name and file.size == len(file.name) for file in data.files)
    assert dt.timedelta(days=100) < data.expires - data.issued < dt.timedelta(days=200)


def test_nothing_is_signed_that_no_copy_would_trust(tool: ModuleType, tmp_path: Path) -> None:
    tool.make_key(tmp_path / "private")
    nobody = tmp_path / "keys.txt"
    nobody.write_text("# nobody\n")
    with pytest.raises(ValueError, match="No copy would trust"):
        tool.private_key((tmp_path / "private").read_text(), nobody)
    for wrong in ("", "nonsense", base64.b64encode(bytes(31)).decode()):
        with pytest.raises(ValueError, match="holds no private key"):
            tool.private_key(wrong, nobody)


def test_a_folder_without_anything_packed_is_said(tool: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing in"):
        tool.described(tmp_path, channel="stable", base="")


def test_a_description_is_signed_again_for_another_while(
    tool: ModuleType, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text(tool.make_key(tmp_path / "private"))
    monkeypatch.setattr(tool, "read_trusted_keys", lambda *_file: read_trusted_keys(keys))
    monkeypatch.setenv("UPDATE_KEY", (tmp_path / "private").read_text())
    assert tool.main(["make", str(folder)]) == 0
    first = read(folder, keys)
    old = {**json.loads((folder / "stable.json").read_bytes()), "expires": "2020-01-01T00:00:00Z"}
    content = json.dumps(old).encode()
    key = tool.private_key(os.environ["UPDATE_KEY"], keys)
    (folder / "stable.json").write_bytes(content)
    (folder / "stable.json.sig").write_text(base64.b64encode(key.sign(content)).decode())
    assert tool.main(["renew", str(folder)]) == 0
    again = read(folder, keys)
    assert (again.files, again.version) == (first.files, __version__)
    assert again.expires > dt.datetime.now(dt.UTC)
    (folder / "stable.json").write_bytes(content.replace(b"2020", b"2040"))
    assert tool.main(["renew", str(folder)]) == 1, "what is not signed is not signed again"


def test_the_notes_are_what_the_changelog_says_of_the_version(tool: ModuleType) -> None:
    changelog = "# Changelog\n\n## 0.2.0 (2027-01-01)\n\n- New.\n\n## 0.1.0\n\n- Old.\n"
    assert tool.notes_of("0.2.0", changelog) == "- New."
    assert tool.notes_of("0.1.0", changelog) == "- Old."
    assert tool.notes_of("0.2", changelog) == ""
    long = tool.notes_of("0.3", "## 0.3\n\n" + "- A line of it.\n" * 9_000)
    assert len(long) <= MOST_NOTES
    assert long.endswith("- A line of it.\n- And more: see CHANGELOG.md.")
    assert tool.notes_of(__version__, (PACKAGING.parent / "CHANGELOG.md").read_text(encoding="utf-8"))


@pytest.mark.skipif(sys.platform == "win32", reason="`make package` is not for Windows")
def test_an_archive_holds_the_note_of_how_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PACKAGING))
    build = script("build")
    bundle = tmp_path / "roundhouse"
    bundle.mkdir()
    (bundle / "roundhouse").write_text("#!/bin/sh\n")
    monkeypatch.setattr(build, "FROZEN", bundle)
    monkeypatch.setattr(build, "DIST", tmp_path)
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(build.archive().read_bytes()))) as archive:
        top = archive.getnames()[0]
        content = archive.extractfile(f"{top}/{NOTE}")
        assert content is not None
        assert json.loads(content.read()) == {"kind": "tar.xz", "version": __version__}
