"""What a release says of itself, signed as a whole: version, notes, and the size and hash of every file.

    <channel>.json        this document
    <channel>.json.sig    signatures of its bytes, Ed25519 in base64, one a line

One signature by one trusted key is enough, so that keys can be changed: for a while a release bears two. A manifest
counts until it expires, so that nobody can withhold newer ones for ever by serving an old one. Pure, but for the keys.

What is remembered of updates: the newest version ever described, that description, and what a person skipped.

The highest version seen is what keeps an old description from counting as news, also when its signature holds.
"""

import base64
import binascii
import datetime as dt
import re
from pathlib import Path
from urllib.parse import urljoin

import msgspec

from app.config.paths import RESOURCES
from app.core.errors import Conflict, ErrorBody
from app.core.updates import InstallationKind
from app.hub.library.registry_file import JsonFile
from app.hub.repositories.signatures import is_signed

FORMAT = 1
PURPOSE = "roundhouse-update"
"""In every manifest: what else a key signed, such as a catalogue, is none."""
MAX_BYTES = 1 << 20
MAX_FILE_BYTES = 4_000_000_000
KEYS_FILE = RESOURCES / "update-keys.txt"
_KEY_BYTES = 32
_MOST_SIGNATURES = 8
MOST_NOTES = 64 << 10
"""Characters of what a version brings."""
_VERSION = re.compile(r"(\d{1,6}(?:\.\d{1,6}){1,3})(?:(a|b|rc)(\d{1,6}))?")
_FINAL = "z"
"""After every kind of forerunner."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")
_EVER = dt.datetime.min.replace(tzinfo=dt.UTC)
VersionOrder = tuple[tuple[int, ...], str, int]


class ReleaseFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a release. `url` may be relative to the manifest; `platform` is a `sys.platform`."""

    kind: InstallationKind
    platform: str
    architecture: str
    """"x86_64" or "arm64"."""
    url: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """What it is called on disk."""
        return self.url.rsplit("/", 1)[-1]


class UpdateManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The document. Days and times have their zone."""

    purpose: str
    format: int
    channel: str
    version: str
    issued: dt.datetime
    """When it was signed; the later counts where two are of one version."""
    expires: dt.datetime
    notes: str = ""
    files: list[ReleaseFile] = []

    def find_file(self, kind: InstallationKind, platform: str, architecture: str) -> ReleaseFile | None:
        """Return the file that updates such a copy."""
        target = (kind, platform, architecture)
        return next(
            (
                candidate
                for candidate in self.files
                if (candidate.kind, candidate.platform, candidate.architecture) == target
            ),
            None,
        )


class SignedManifest(msgspec.Struct, frozen=True, kw_only=True):
    """A manifest as it came, to be checked again whenever it is read."""

    content: bytes
    signatures: str


class UpdateRefused(Conflict):
    """What was fetched is nothing its owner published for this copy to take now."""

    default_code = "update_refused"


def read_trusted_keys(*files: Path) -> tuple[bytes, ...]:
    """Return the public keys that files list, one a line in base64; a file that is not there lists none."""
    lines = [line.partition("#")[0].strip() for file in files for line in _read_text(file).splitlines()]
    return tuple(key for key in map(_decode_base64, lines) if len(key) == _KEY_BYTES)


def verify_manifest(signed_manifest: SignedManifest, keys: tuple[bytes, ...]) -> UpdateManifest:
    """Return what a trusted key signed. Raises UpdateRefused."""
    signatures = [_decode_base64(line) for line in signed_manifest.signatures.split()[:_MOST_SIGNATURES]]
    if not any(is_signed(signed_manifest.content, signature, key) for signature in signatures for key in keys):
        raise UpdateRefused(
            "The description of the newest version has no signature that this copy trusts, so it was refused.",
            hint="Somebody on the way may have changed it. Nothing was installed; try another network.",
            code="update_signature",
        )
    return _parse_manifest(signed_manifest.content)


def check_current(manifest: UpdateManifest, channel: str, now: dt.datetime) -> None:
    """Raise UpdateRefused for another channel's manifest, and one whose time is over."""
    if manifest.channel != channel:
        raise UpdateRefused(
            f"What is served for the channel {channel} describes {manifest.channel[:40]!r}.", code="update_channel"
        )
    if manifest.expires <= now:
        raise UpdateRefused(
            f"The description of the newest version counted until {manifest.expires:%Y-%m-%d}, so it was refused.",
            hint=f"This computer's clock says {now:%Y-%m-%d}. If it is right, somebody may be withholding newer ones.",
            code="update_expired",
        )


def check_no_downgrade(manifest: UpdateManifest, known_version: str, issued_at: dt.datetime = _EVER) -> None:
    """Raise UpdateRefused for what is older than the version known, or, of the same, than what was `issued` of it."""
    if (version_order(manifest.version), manifest.issued) < (version_order(known_version), issued_at):
        raise UpdateRefused(
            f"What is served describes version {manifest.version}, and {known_version} is known already: "
            "it was refused.",
            hint="Somebody may be serving old descriptions. The current version stays in use.",
            code="update_downgrade",
        )


def version_order(version: str) -> VersionOrder:
    """Return what versions are compared by; trailing zeros count for nothing. Raises UpdateRefused for no version."""
    match = _VERSION.fullmatch(version)
    if match is None:
        raise _unreadable_manifest(f"{version[:40]!r} is no version")
    numbers = [int(part) for part in match[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers), match[2] or _FINAL, int(match[3] or 0)


def is_final(version: str) -> bool:
    """Tell whether a version is one that everybody gets. Raises UpdateRefused for no version."""
    return version_order(version)[1] == _FINAL


def file_address(manifest_url: str, file: ReleaseFile) -> str:
    """Return where a file is fetched from; whoever fetches looks that it is a safe address."""
    return urljoin(manifest_url, file.url)


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _parse_manifest(content: bytes) -> UpdateManifest:
    try:
        manifest = msgspec.json.decode(content, type=UpdateManifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable_manifest(str(error)) from None
    if manifest.purpose != PURPOSE:
        raise _unreadable_manifest("it is for something else")
    if manifest.format != FORMAT:
        raise UpdateRefused(
            "The description of the newest version is in a format that this version does not know.",
            hint="Install the newest version by hand, the way you did the first time.",
            code="update_unreadable",
        )
    if manifest.issued.tzinfo is None or manifest.expires.tzinfo is None or len(manifest.notes) > MOST_NOTES:
        raise _unreadable_manifest("its times have no zone, or its notes no end")
    version_order(manifest.version)
    for file in manifest.files:
        if not (_NAME.fullmatch(file.name) and _SHA256.fullmatch(file.sha256) and 0 < file.size <= MAX_FILE_BYTES):
            raise _unreadable_manifest(f"it lists a file that cannot be: {file.name[:80]!r}")
    return manifest


def _unreadable_manifest(why: str) -> UpdateRefused:
    return UpdateRefused(
        "The description of the newest version cannot be read.",
        hint="Try again later.",
        code="update_unreadable",
        detail=why,
    )


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


class NewestRelease(msgspec.Struct, frozen=True, kw_only=True):
    """The newest description of the highest version that a channel ever had."""

    version: str
    issued: dt.datetime


class UpdateRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The file. `signed` is the description found last."""

    seen: dict[str, NewestRelease] = {}
    """By channel."""
    signed: SignedManifest | None = None
    checked_at: float | None = None
    skipped: str = ""
    failure: ErrorBody | None = None


class UpdateMemory:
    """Owned by whoever looks for updates; blocks."""

    def __init__(self, file: Path) -> None:
        self._file = JsonFile(file, UpdateRecord, "what is known of updates")
        self._record: UpdateRecord | None = None

    def read_record(self) -> UpdateRecord:
        """Return what is remembered; what cannot be read was put aside."""
        if self._record is None:
            self._record = self._file.read_value() or UpdateRecord()
        return self._record

    def change_record(self, **changes: object) -> UpdateRecord:
        """Remember something else. Raises StorageFault."""
        changed_record = msgspec.structs.replace(self.read_record(), **changes)
        self._file.write_value(changed_record)
        self._record = changed_record
        return changed_record
