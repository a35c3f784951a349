"""An AppImage: a runtime that somebody else built, and behind it the application's folder as one compressed picture.

https://github.com/AppImage/AppImageSpec (type 2). The runtime mounts the picture and runs AppRun in it. No index of
packages that we build from carries one, so it is given as a file, with the SHA-256 its makers publish.
"""

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from debian import Parts, desktop_files

_ELF, _TYPE_2, _TYPE_AT = b"\x7fELF", b"AI\x02", 8
_PROGRAMS = "usr/lib/roundhouse"
_ICON_SIZE = 256
_APP_RUN = f"""\
#!/bin/sh
# Our programs start each other as `-P -m module`; a link called roundhouse is the command; all else is the window.
here=$(dirname "$(readlink -f "$0")")/{_PROGRAMS}
case "$(basename "${{ARGV0:-}}") ${{1:-}}" in
    "roundhouse "* | *" -P") exec "$here/roundhouse" "$@" ;;
esac
exec "$here/roundhouse-window" "$@"
"""


class Runtime(NamedTuple):
    """The program in front of the picture, and what its makers say it is."""

    file: Path
    sha256: str


class NotARuntime(ValueError):
    """What was given is not what was named."""


def checked(runtime: Runtime) -> bytes:
    """Return the runtime. Raises NotARuntime for another file than was named, or one of another kind."""
    data = runtime.file.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if digest != runtime.sha256.lower():
        raise NotARuntime(f"{runtime.file} has the SHA-256 {digest}, not {runtime.sha256}.")
    if not data.startswith(_ELF) or data[_TYPE_AT : _TYPE_AT + len(_TYPE_2)] != _TYPE_2:
        raise NotARuntime(f"{runtime.file} is no runtime of an AppImage (type 2).")
    return data


def build(parts: Parts, target: Path, runtime: Runtime, *, version: str, machine: str) -> Path:
    """Return the AppImage, made below `target`. Raises NotARuntime, or CalledProcessError of mksquashfs."""
    program = checked(runtime)
    folder, picture = target / "AppDir", target / "AppDir.squashfs"
    shutil.rmtree(folder, ignore_errors=True)
    lay_out(parts, folder)
    command = ["mksquashfs", str(folder), str(picture), "-root-owned", "-noappend", "-quiet", "-no-progress"]
    subprocess.run([*command, "-comp", "zstd", "-Xcompression-level", "19"], check=True, capture_output=True)
    image_file = target / f"roundhouse-{version}-{machine}.AppImage"
    with image_file.open("wb") as out, picture.open("rb") as packed_image:
        out.write(program)
        shutil.copyfileobj(packed_image, out)
    image_file.chmod(0o755)
    picture.unlink()
    shutil.rmtree(folder)
    return image_file


def lay_out(parts: Parts, folder: Path) -> None:
    """Lay out what is in the picture: the application, what a desktop reads, and the way in."""
    shutil.copytree(parts.frozen, folder / _PROGRAMS, symlinks=True)
    desktop_files(folder / "usr/share", parts)
    shutil.copytree(parts.documents, folder / "usr/share/doc/roundhouse")
    for name in ("roundhouse.desktop", "roundhouse.svg"):
        shutil.copyfile(parts.linux / name, folder / name)
    shutil.copyfile(parts.icons / f"{_ICON_SIZE}.png", folder / ".DirIcon")
    way_in = folder / "AppRun"
    way_in.write_text(_APP_RUN, encoding="utf-8")
    way_in.chmod(0o755)
