"""What a Linux desktop reads about us: entry, file type, AppStream data, manual. Checked by their own programs too."""

import configparser
import datetime as dt
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from app import __version__
from app.cli.main import COMMANDS
from tests.packaging_scripts import PACKAGING, script

LINUX = PACKAGING / "linux"
MIME = "{http://www.freedesktop.org/standards/shared-mime-info}"


def check_file(*argv: str | Path) -> None:
    """Run a program that checks a file, where there is one, and take no complaint."""
    if shutil.which(str(argv[0])) is None:
        pytest.skip(f"{argv[0]} is not installed")
    result = subprocess.run([str(part) for part in argv], capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture
def entry() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # as its documentation has it
    parser.read(LINUX / "roundhouse.desktop", encoding="utf-8")
    return parser["Desktop Entry"]


@pytest.fixture
def about() -> ET.Element:
    return ET.parse(LINUX / "roundhouse.metainfo.xml").getroot()  # noqa: S314 -- our own file


def test_the_desktop_entry_is_valid() -> None:
    check_file("desktop-file-validate", LINUX / "roundhouse.desktop")


def test_the_appstream_data_is_valid() -> None:
    check_file("appstreamcli", "validate", "--no-net", LINUX / "roundhouse.metainfo.xml")


def test_the_desktop_hands_over_files_and_links(entry: configparser.SectionProxy) -> None:
    assert entry["Exec"].split() == ["roundhouse-window", "%U"]
    assert set(filter(None, entry["MimeType"].split(";"))) == {"application/x-gguf", "x-scheme-handler/roundhouse"}


def test_entry_file_type_and_appstream_data_speak_of_the_same(
    entry: configparser.SectionProxy, about: ET.Element
) -> None:
    kinds = ET.parse(LINUX / "roundhouse.xml").getroot()  # noqa: S314 -- our own file
    kind = kinds.find(f"{MIME}mime-type")
    assert kind is not None
    assert kind.get("type") in entry["MimeType"].split(";")
    assert [glob.get("pattern") for glob in kind.iter(f"{MIME}glob")] == ["*.gguf"]
    assert about.findtext("launchable") == "roundhouse.desktop"
    assert about.findtext("provides/mediatype") == kind.get("type")
    assert {binary.text for binary in about.findall("provides/binary")} == {"roundhouse", entry["Exec"].split()[0]}


def test_the_appstream_data_names_this_version(about: ET.Element) -> None:
    newest = about.find("releases/release")
    assert newest is not None
    assert newest.get("version") == __version__


def test_the_manual_has_every_command_and_escapes_dashes(tmp_path: Path) -> None:
    page = script("manual").page(today=dt.date(2026, 1, 2))
    for name in COMMANDS:
        assert ".B " + name.replace("-", r"\-") in page
    assert ".TH ROUNDHOUSE 1" in page
    assert "2026" in page.splitlines()[0]
    (tmp_path / "roundhouse.1").write_text(page, encoding="utf-8")
    check_file("man", "--warnings", "-l", tmp_path / "roundhouse.1")
