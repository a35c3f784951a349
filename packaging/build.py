"""Freeze the application and pack it: `python packaging/build.py [freeze] [archive] [deb]`, all without arguments.

`appimage` besides takes a runtime, which comes from no index of packages: `--runtime FILE --sha256 HEX`. Runs in an
environment that holds exactly what is packed, which `make package` makes from the lock. Everything goes to `dist/`;
what is made on the way to `build/`.
"""

import argparse
import datetime as dt
import io
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
from functools import partial
from pathlib import Path

import appimage
import bill
import debian
import manual

from app import __version__
from app.config.programs import NOTE, encode_note
from app.core.updates import InstallationKind

ROOT = Path(__file__).resolve().parents[1]
BUILD, DIST = ROOT / "build" / "package", ROOT / "dist"
FROZEN = BUILD / "roundhouse"
ICON_SIZES = (16, 24, 32, 48, 64, 128, 256, 512)
STEPS, IMAGE = ("freeze", "archive", "deb"), "appimage"
_MB = 1e6


def main() -> int:
    """Do the steps named, all without any. Returns 0, or 1 with what went wrong."""
    parser = argparse.ArgumentParser(description="Freeze the application and pack it.")
    parser.add_argument("steps", nargs="*", choices=[*STEPS, IMAGE, []], help="all but the AppImage without any")
    parser.add_argument("--runtime", type=Path, help="the program at the front of an AppImage")
    parser.add_argument("--sha256", default="", help="what that file is known by")
    options = parser.parse_args()
    if IMAGE in options.steps and not (options.runtime and options.sha256):
        parser.error("an AppImage takes --runtime and --sha256; see docs/guide/installing.md")
    steps = options.steps or STEPS
    do = {"freeze": freeze, "archive": archive, "deb": deb, IMAGE: partial(image, options.runtime, options.sha256)}
    DIST.mkdir(exist_ok=True)
    try:
        for step in steps:
            began = time.monotonic()
            result = do[step]()
            _say(f"{step}: {result} ({_size(result) / _MB:.0f} MB, {time.monotonic() - began:.0f} s)")
    except subprocess.CalledProcessError as error:
        output = error.stderr.decode(errors="replace") if error.stderr else ""
        _say(f"{error}\n{output}")
        return 1
    except (appimage.NotARuntime, OSError) as error:
        _say(str(error))
        return 1
    return 0


def freeze() -> Path:
    """Return the frozen folder."""
    command = [sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level", "ERROR"]
    places = ["--distpath", str(BUILD), "--workpath", str(BUILD / "work"), str(ROOT / "packaging/roundhouse.spec")]
    subprocess.run([*command, *places], check=True, cwd=ROOT)
    documents = BUILD / "documents"
    shutil.rmtree(documents, ignore_errors=True)
    (documents / "licences").mkdir(parents=True)
    packages = bill.packages(Path(sysconfig.get_path("purelib")))
    bill.write_bill(documents / "sbom.cdx.json", packages, version=__version__)
    bill.copy_licences(documents / "licences", packages)
    shutil.copyfile(ROOT / "LICENSE", documents / "licences" / "LICENSE")
    shutil.copytree(documents, FROZEN / "documents", dirs_exist_ok=True)
    return FROZEN


def archive() -> Path:
    """Return the frozen folder as a .tar.xz that runs where it is unpacked."""
    name = f"roundhouse-{__version__}-{sys.platform}-{platform.machine()}"
    target = DIST / f"{name}.tar.xz"
    # The program packs on every core; the library would take three times as long.
    argv = [shutil.which("xz") or "xz", "-6", "-T0"]
    with target.open("wb") as out, subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=out) as xz:
        assert xz.stdin is not None  # noqa: S101 -- for the type checker: it is a pipe
        with tarfile.open(fileobj=xz.stdin, mode="w|") as packed_archive:
            packed_archive.add(FROZEN, arcname=name, filter=_without_owner)
            note_bytes = encode_note(InstallationKind.ARCHIVE, __version__)
            entry = tarfile.TarInfo(f"{name}/{NOTE}")
            entry.size = len(note_bytes)
            packed_archive.addfile(_without_owner(entry), io.BytesIO(note_bytes))
        xz.stdin.close()
    if xz.returncode:
        raise subprocess.CalledProcessError(xz.returncode, "xz")
    return target


def deb() -> Path:
    """Return the Debian package."""
    glibc = os.confstr("CS_GNU_LIBC_VERSION") or "glibc 2.36"
    return debian.build(
        _parts(), DIST, version=__version__, machine=platform.machine(), glibc=glibc.removeprefix("glibc ")
    )


def image(runtime: Path, sha256: str) -> Path:
    """Return the AppImage."""
    known_runtime = appimage.Runtime(file=runtime, sha256=sha256)
    return appimage.build(_parts(), DIST, known_runtime, version=__version__, machine=platform.machine())


def _parts() -> debian.Parts:
    return debian.Parts(
        frozen=FROZEN,
        linux=ROOT / "packaging/linux",
        icons=_icons(),
        documents=BUILD / "documents",
        manual=manual.page(today=_today()),
    )


def _icons() -> Path:
    """Draw the icon in every size a desktop asks for."""
    from PySide6.QtCore import QSize  # noqa: PLC0415 -- only icons need Qt
    from PySide6.QtGui import QGuiApplication, QIcon  # noqa: PLC0415 -- as above

    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    gui = QGuiApplication.instance() or QGuiApplication([])
    folder = BUILD / "icons"
    folder.mkdir(parents=True, exist_ok=True)
    icon = QIcon(str(ROOT / "packaging/linux/roundhouse.svg"))
    for size in ICON_SIZES:
        if not icon.pixmap(QSize(size, size)).save(str(folder / f"{size}.png")):
            raise subprocess.CalledProcessError(1, "drawing the icon")
    del gui
    return folder


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mtime = int(os.environ.get("SOURCE_DATE_EPOCH", entry.mtime))
    return entry


def _today() -> dt.date:
    return dt.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), tz=dt.UTC).date()


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(file.lstat().st_size for file in path.rglob("*") if file.is_file())


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


if __name__ == "__main__":
    sys.exit(main())
