"""What is put together around the frozen folder: the bill of materials, licences, and the Debian package."""

import json
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import jsonschema
import pytest

from tests.packaging_scripts import PACKAGING, script

DPKG = shutil.which("dpkg-deb") or ""


@pytest.fixture
def bill() -> ModuleType:
    return script("bill")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Three installed packages: one with a licence's text, one that only names it, one that only builds."""
    for name, about, files in (
        ("One", "License-Expression: MIT", {"licenses/LICENSE.txt": "MIT, in full"}),
        ("two", "Classifier: License :: OSI Approved :: BSD License", {}),
        ("pyinstaller", "License: GPL-2.0", {}),
    ):
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{about}\n")
        for inside, text in files.items():
            (folder / inside).parent.mkdir()
            (folder / inside).write_text(text)
        (folder / "RECORD").write_text("".join(f"{folder.name}/{inside},,\n" for inside in ("METADATA", *files)))
    return tmp_path


def test_the_bill_lists_what_is_packed_and_nothing_that_only_builds(
    bill: ModuleType, site: Path, tmp_path: Path
) -> None:
    bill.write_bill(tmp_path / "sbom.json", bill.packages(site), version="1.2.3")
    document = json.loads((tmp_path / "sbom.json").read_text())
    assert [
        (component["name"], component["licenses"][0]["license"]["name"]) for component in document["components"]
    ] == [
        ("One", "MIT"),
        ("two", "BSD License"),
    ]
    assert document["metadata"]["component"]["version"] == "1.2.3"
    assert document["dependencies"] == [{"ref": "roundhouse", "dependsOn": ["pkg:pypi/one@1.0", "pkg:pypi/two@1.0"]}]
    jsonschema.validate(document, _CYCLONEDX)


_CYCLONEDX = {
    "type": "object",
    "required": ["bomFormat", "specVersion", "version", "serialNumber", "components"],
    "properties": {
        "bomFormat": {"const": "CycloneDX"},
        "specVersion": {"const": "1.6"},
        "serialNumber": {"pattern": "^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
        "components": {
            "items": {
                "required": ["type", "name"],
                "properties": {
                    "type": {"enum": ["application", "framework", "library", "file"]},
                    "purl": {"pattern": "^pkg:pypi/[a-z0-9._-]+@[^/]+$"},
                },
            }
        },
    },
}
"""What the specification asks of the fields we write (cyclonedx.org/docs/1.6/json)."""


def test_the_same_contents_make_the_same_bill(bill: ModuleType, site: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        bill.write_bill(tmp_path / name, bill.packages(site), version="1")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_every_package_has_its_licence_and_those_without_a_text_are_told(
    bill: ModuleType, site: Path, tmp_path: Path
) -> None:
    assert bill.copy_licences(tmp_path / "licences", bill.packages(site)) == ["two"]
    assert (tmp_path / "licences/One/LICENSE.txt").read_text() == "MIT, in full"
    assert (tmp_path / "licences/two/LICENSE").read_text() == "BSD License\n"


@pytest.mark.skipif(not DPKG, reason="dpkg is Debian's")
def test_the_package_puts_everything_where_debian_wants_it(tmp_path: Path) -> None:
    debian = script("debian")
    for name in ("frozen", "icons", "documents"):
        (tmp_path / name).mkdir()
    program = tmp_path / "frozen/roundhouse"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o775)
    library = tmp_path / "frozen/libpython3.11.so.1.0"
    library.write_bytes(b"code")
    library.chmod(0o755)
    (tmp_path / "icons/48.png").write_bytes(b"a picture")
    parts = debian.Parts(
        frozen=tmp_path / "frozen",
        linux=PACKAGING / "linux",
        icons=tmp_path / "icons",
        documents=tmp_path / "documents",
        manual=".TH ROUNDHOUSE 1\n",
    )
    package = debian.build(parts, tmp_path, version="1.2.3", machine="x86_64", glibc="2.36")
    assert package.name == "roundhouse_1.2.3_amd64.deb"
    stdout = subprocess.run([DPKG, "-c", str(package)], capture_output=True, text=True, check=True).stdout
    rows = {line.split(maxsplit=5)[5]: line.split()[:2] for line in stdout.splitlines()}
    assert rows["./usr/lib/roundhouse/roundhouse"] == ["-rwxr-xr-x", "root/root"]
    assert rows["./usr/lib/roundhouse/libpython3.11.so.1.0"] == ["-rw-r--r--", "root/root"]
    assert rows["./usr/lib/roundhouse/installation.json"] == ["-rw-r--r--", "root/root"]
    assert "./usr/share/man/man1/roundhouse-window.1.gz -> roundhouse.1.gz" in rows
    assert rows["./usr/bin/roundhouse -> ../lib/roundhouse/roundhouse"][1] == "root/root"
    for path in (
        "applications/roundhouse.desktop",
        "mime/packages/roundhouse.xml",
        "metainfo/ai.roundhouse.Roundhouse.metainfo.xml",
        "icons/hicolor/48x48/apps/roundhouse.png",
        "icons/hicolor/scalable/apps/roundhouse.svg",
        "man/man1/roundhouse.1.gz",
        "doc/roundhouse/copyright",
    ):
        assert rows[f"./usr/share/{path}"] == ["-rw-r--r--", "root/root"]
    needs = subprocess.run([DPKG, "-f", str(package), "Depends"], capture_output=True, text=True, check=True)
    assert needs.stdout.startswith("libc6 (>= 2.36), libegl1")
