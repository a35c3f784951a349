"""Install uv from the package index into the folder named: `python3 packaging/get_uv.py .uv` makes `.uv/bin/uv`.

Runs on any Python 3.6 or later, standard library only, and tries three ways: a virtual environment with pip, pip alone,
and the index itself, because a fresh Debian or Ubuntu has neither ensurepip nor pip. A download is checked against the
SHA-256 that the index states.
"""

import hashlib
import html
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path

INDEX = "https://pypi.org/simple/uv/"
TIMEOUT_S = 120
SYSTEM, MACHINE = platform.system(), platform.machine()
NAME = "uv.exe" if os.name == "nt" else "uv"


def main(target):
    """Try each way in turn; return 0 once uv is there."""
    binary = target / "bin" / NAME
    sys.stderr.write("Installing uv from the package index into {} ...\n".format(target))
    reasons = []
    for way in (by_environment, by_pip, by_index):
        shutil.rmtree(str(target), ignore_errors=True)
        binary.parent.mkdir(parents=True)
        try:
            program = way(target)
            if not program.is_file():
                raise OSError("it brought no uv")
            if program != binary:
                shutil.copy2(str(program), str(binary))
            subprocess.check_call([str(binary), "--version"], stdout=sys.stderr)
        except (OSError, subprocess.SubprocessError, ValueError, LookupError, zipfile.BadZipFile) as error:
            reasons.append("  {}: {}".format(way.__name__, error))
        else:
            return 0
    shutil.rmtree(str(target), ignore_errors=True)
    sys.stderr.write("uv could not be installed.\n{}\nPut uv on PATH and try again.\n".format("\n".join(reasons)))
    return 1


def by_environment(target):
    """Use pip in a virtual environment: it knows this machine's index, proxy and certificates."""
    environment = target / "environment"
    quiet([sys.executable, "-m", "venv", str(environment)])
    scripts = environment / ("Scripts" if os.name == "nt" else "bin")
    quiet([str(scripts / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "uv"])
    return scripts / NAME


def by_pip(target):
    """Use the pip of this Python."""
    packages = target / "packages"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    quiet([*pip, "--target", str(packages), "uv"])
    return packages / "bin" / NAME


def by_index(target):
    """Ask the index for the newest wheel of this platform and take the program out of it."""
    url, sha256 = newest(links(fetch(INDEX).decode()))
    data = fetch(url)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ValueError("the download is not what the index announced")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        member = [name for name in archive.namelist() if name.endswith("/scripts/" + NAME)][0]
        binary = target / "bin" / NAME
        binary.write_bytes(archive.read(member))
    binary.chmod(0o755)
    return binary


def links(page):
    """Return the (URL, SHA-256) of every file on a page of the simple index (PEP 503)."""
    parts = (html.unescape(link).partition("#sha256=") for link in re.findall(r'href="([^"]+)"', page))
    return [(urllib.parse.urljoin(INDEX, url), sha256) for url, _, sha256 in parts if sha256]


def newest(files):
    """Return the newest release that fits this system. Raises LookupError when none does."""
    fitting_files = [(url, sha256) for url, sha256 in files if fits(url.rpartition("/")[2])]
    if not fitting_files:
        raise LookupError("no uv was built for " + SYSTEM + " " + MACHINE)
    return max(fitting_files, key=lambda file: version(file[0].rpartition("/")[2]))


def fits(filename, system=SYSTEM, machine=MACHINE):
    """Say whether a wheel's platform tag is this one's. On Linux the C library decides between two builds."""
    arch = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "(?:arm64|aarch64)", "aarch64": "aarch64"}
    wheel_arch = arch.get(machine.lower(), re.escape(machine))
    libc = "manylinux" if platform.libc_ver()[0] == "glibc" else "musllinux"
    tags = {
        "Linux": libc + r"[\w.]*_" + wheel_arch,
        "Darwin": r"macosx_\d+_\d+_" + wheel_arch,
        "Windows": "win_amd64" if wheel_arch == "x86_64" else "win_arm64",
    }
    return (
        re.match(r"uv-\d+(?:\.\d+)+-py3-none-[\w.]*" + tags.get(system, "none") + r"[\w.]*\.whl$", filename) is not None
    )


def version(filename):
    """Return the release number in a wheel's name, to compare by."""
    return tuple(int(part) for part in filename.split("-")[1].split("."))


def fetch(url):
    """Return what a URL holds."""
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as reply:
        return reply.read()


def quiet(argv):
    """Run a program; its output is shown only if it fails."""
    process = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if process.returncode:
        lines = process.stdout.decode(errors="replace").strip().splitlines()
        raise OSError(lines[-1] if lines else "exit code {}".format(process.returncode))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
