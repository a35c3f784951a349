#!/bin/sh
# Install uv from the package index into the folder named, with whichever Python 3 and installer this machine has.
# Three ways, because a fresh Debian has no ensurepip and a fresh Mac may have no pip outside a virtual environment.
set -eu
target=$1
python=$(command -v python3 || command -v python) || {
    echo "Roundhouse needs Python 3.11 or later; no python3 was found on PATH." >&2
    exit 1
}
say() { echo "Installing uv from the package index into $target ..." >&2; }

if "$python" -m venv "$target" >/dev/null 2>&1; then
    say
    "$target/bin/python" -m pip install --quiet --disable-pip-version-check uv
elif "$python" -m pip --version >/dev/null 2>&1; then
    say
    rm -rf "$target"
    "$python" -m pip install --quiet --disable-pip-version-check --target "$target/lib" uv
    mkdir -p "$target/bin"
    ln -sf ../lib/bin/uv "$target/bin/uv"
elif command -v pipx >/dev/null 2>&1; then
    say
    rm -rf "$target"
    PIPX_HOME=$target/pipx PIPX_BIN_DIR=$target/bin pipx install --quiet uv
else
    rm -rf "$target"
    echo "uv could not be installed: this Python has neither venv nor pip." >&2
    echo "On Debian or Ubuntu: apt install python3-venv. Or put uv on PATH: https://docs.astral.sh/uv" >&2
    exit 1
fi
"$target/bin/uv" --version >&2
