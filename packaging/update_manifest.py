"""Describe and sign a release, so that copies of Roundhouse find it: see `app/updates/manifest.py`.

    python packaging/update_manifest.py key FILE        # once: the private key goes to FILE, the public one is printed
    UPDATE_KEY=... python packaging/update_manifest.py make FOLDER --base https://…/v0.2.0/
    UPDATE_KEY=... python packaging/update_manifest.py renew FOLDER   # the same release, for another while

`make` looks through a folder of what `make package` and its like made, and writes `<channel>.json` and `.json.sig`
beside. It signs with nothing that no copy would trust: the public key has to be in `resources/update-keys.txt` first.
"""

import argparse
import base64
import datetime as dt
import hashlib
import os
import re
import sys
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app import __version__
from app.core.errors import RoundhouseError
from app.core.updates import InstallationKind
from app.updates.manifest import (
    FORMAT,
    KEYS_FILE,
    MOST_NOTES,
    PURPOSE,
    ReleaseFile,
    SignedManifest,
    UpdateManifest,
    read_trusted_keys,
    verify_manifest,
)

ROOT = Path(__file__).resolve().parents[1]
VARIABLE = "UPDATE_KEY"
_MORE = "\n- And more: see CHANGELOG.md."
DAYS = 120
"""How long a description counts: `renew` it in time, or the next release does."""
NAMES = (
    (InstallationKind.DEB, "linux", re.compile(r"roundhouse_.+_(?P<cpu>amd64|arm64)\.deb")),
    (InstallationKind.ARCHIVE, "linux", re.compile(r"roundhouse-.+-linux-(?P<cpu>x86_64|aarch64)\.tar\.xz")),
    (InstallationKind.APPIMAGE, "linux", re.compile(r"roundhouse-.+-(?P<cpu>x86_64|aarch64)\.AppImage")),
    (InstallationKind.EXE, "win32", re.compile(r"roundhouse-.+-windows-(?P<cpu>x86_64|arm64)\.exe")),
    (InstallationKind.DMG, "darwin", re.compile(r"roundhouse-.+-macos-(?P<cpu>x86_64|arm64)\.dmg")),
)
"""What the packers call their files."""
_CPUS = {"amd64": "x86_64", "aarch64": "arm64"}


def main(argv: list[str] | None = None) -> int:
    """Do what is asked. Returns 0, or 1 with what is wrong."""
    args = _parser().parse_args(argv)
    try:
        if args.what == "key":
            _say(make_key(args.file))
        else:
            key, folder, channel = private_key(os.environ.get(VARIABLE, "")), args.folder, args.channel
            is_new = args.what == "make"
            manifest = described(folder, channel=channel, base=args.base) if is_new else renewed(folder, channel)
            _say(f"{signed(manifest, key, folder)}: version {manifest.version}, {len(manifest.files)} files")
    except (OSError, ValueError, RoundhouseError) as error:
        _say(str(error))
        return 1
    return 0


def make_key(file: Path) -> str:
    """Write a new private key, readable by its owner only; return the public one."""
    new_key = Ed25519PrivateKey.generate()
    with open(file, "x", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
        out.write(base64.b64encode(new_key.private_bytes_raw()).decode() + "\n")
    return public_of(new_key)


def public_of(key: Ed25519PrivateKey) -> str:
    """Return a key's public half, as `resources/update-keys.txt` has it."""
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()


def private_key(text: str, keys_file: Path = KEYS_FILE) -> Ed25519PrivateKey:
    """Return the key of a secret. Raises ValueError for one that copies would not trust."""
    try:
        key = Ed25519PrivateKey.from_private_bytes(base64.b64decode(text.strip(), validate=True))
    except ValueError:
        raise ValueError(f"{VARIABLE} holds no private key: 32 bytes in base64.") from None
    if key.public_key().public_bytes_raw() not in read_trusted_keys(keys_file):
        raise ValueError(f"No copy would trust what this key signs: add {public_of(key)} to {keys_file.name} first.")
    return key


def described(folder: Path, *, channel: str, base: str, version: str = __version__) -> UpdateManifest:
    """Return what a folder of packed files is. Raises ValueError for one that holds none."""
    files = [entry for path in sorted(folder.iterdir()) if (entry := _file(path, base)) is not None]
    if not files:
        raise ValueError(f"There is nothing in {folder} that was packed.")
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    return UpdateManifest(
        purpose=PURPOSE,
        format=FORMAT,
        channel=channel,
        version=version,
        issued=now,
        expires=now + dt.timedelta(days=DAYS),
        notes=notes_of(version, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")),
        files=files,
    )


def renewed(folder: Path, channel: str) -> UpdateManifest:
    """Return a description again, for another while; its signature is looked at first. Raises ValueError."""
    file = folder / f"{channel}.json"
    old = verify_manifest(
        SignedManifest(content=file.read_bytes(), signatures=_signatures(file).read_text()),
        read_trusted_keys(KEYS_FILE),
    )
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    return msgspec.structs.replace(old, issued=now, expires=now + dt.timedelta(days=DAYS))


def signed(manifest: UpdateManifest, key: Ed25519PrivateKey, folder: Path) -> Path:
    """Write a description and its signature; return where."""
    content = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    file = folder / f"{manifest.channel}.json"
    file.write_bytes(content)
    _signatures(file).write_text(base64.b64encode(key.sign(content)).decode() + "\n")
    return file


def notes_of(version: str, changelog: str) -> str:
    """Return what the changelog says of a version: everything below its heading, in whole lines as far as it may go."""
    match = re.search(rf"(?ms)^## {re.escape(version)}(?:\s[^\n]*)?\n(.*?)(?=^## |\Z)", changelog)
    text = match[1].strip() if match else ""
    if len(text) <= MOST_NOTES:
        return text
    whole, _, _ = text[: MOST_NOTES - len(_MORE)].rpartition("\n")
    return whole + _MORE


def _file(path: Path, base: str) -> ReleaseFile | None:
    for kind, platform, pattern in NAMES:
        match = pattern.fullmatch(path.name)
        if match is not None:
            content = path.read_bytes()
            return ReleaseFile(
                kind=kind,
                platform=platform,
                architecture=_CPUS.get(match["cpu"], match["cpu"]),
                url=base + path.name,
                size=len(content),
                sha256=hashlib.sha256(content).hexdigest(),
            )
    return None


def _signatures(file: Path) -> Path:
    return file.with_name(f"{file.name}.sig")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Describe and sign a release.")
    verbs = parser.add_subparsers(dest="what", required=True)
    verbs.add_parser("key", help="make a key pair").add_argument("file", type=Path)
    for name, about in (("make", "describe what a folder holds"), ("renew", "sign a description again")):
        verb = verbs.add_parser(name, help=about)
        verb.add_argument("folder", type=Path)
        verb.add_argument("--channel", default="stable", choices=["stable", "beta"])
        verb.add_argument("--base", default="", help="what files' addresses begin with; beside the description without")
    return parser


def _say(sentence: str) -> None:
    sys.stdout.write(f"{sentence}\n")


if __name__ == "__main__":
    sys.exit(main())
