"""Take out of a record who and which one this computer is, and nothing that decides what it can do.

Names of this computer and its user are known and replaced wherever they stand as words. Serial numbers, MAC addresses,
disk ids, home folders, Windows account ids and UUIDs are known by their form or by the name beside them. UUIDs and the
like get stable stand-ins of the same form, since they join what several drivers say of one card: the same one
everywhere in a report, shortened ones the same start.
"""

import getpass
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

_SOMEONE, _SOMEHOST, _REDACTED = "someone", "somehost", "REDACTED"

_GENERIC = frozenset(
    {"root", "user", "admin", "administrator", "localhost", "localdomain", "local", "home", "linux", "windows", "macos"}
    | {"ubuntu", "debian", "fedora", "runner", "guest", "default", "public", "docker", "container", "system", "bare"}
    | {"measured", "derived", "table", "unknown", "absent", "timeout", "crashed", "nvidia", "amd", "intel", "apple"}
)
"""Names that tell nobody apart, and that facts contain."""
_SHORTEST_NAME = 3

_ID = re.compile(
    r"(?P<whole>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}"
    r"|(?<![0-9a-z])(?:[0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{32})(?![0-9a-z]))"
    r"|(?<=\b(?:GPU|MIG)-)[0-9a-f]{2,}(?:-[0-9a-f]+)*(?![0-9a-z])",
    re.IGNORECASE,
)
"""UUIDs; container, machine and Vulkan device ids, longer than any size in hexadecimal; a GPU's id shortened, as
CUDA_VISIBLE_DEVICES allows, or of amdgpu's 16 digits."""
_MAC = re.compile(r"(?<![0-9a-f:-])[0-9a-f]{2}([:-])[0-9a-f]{2}(?:\1[0-9a-f]{2}){4,6}(?![0-9a-f:-])", re.IGNORECASE)
_SERIAL = re.compile(
    r"(serial(?:[ _-]?(?:number|num|no\.?))?(?: \([^()]*\))?\"?\s*+[:=]\s*+\"?)[^\"\n,;}]+", re.IGNORECASE
)
_POSIX_HOME = re.compile(r"(/(?:home|Users)/)[^/\"'\s:;,]+")
_WINDOWS_HOME = re.compile(
    r"([a-z]:[\\/]{1,4}(?:Users|Documents and Settings)[\\/]{1,4})[^\\/\"'\n:;,|<>*?]+", re.IGNORECASE
)
_ACCOUNT = re.compile(r"S-1-5-21(?:-\d+)+")
_DISK = re.compile(r"((?:/dev/disk/by-[a-z]+/|\b(?:wwn-|eui\.|naa\.|nvme\.)))[\w.:-]+", re.IGNORECASE)
_PARTITION = re.compile(r"\b((?:PART)?(?:UUID|LABEL)=)[^\s\"]+")
_BUILDER = re.compile(r"(?<=\()[^()@\s]+@[^()@\s]+(?=\))")
"""/proc/version names who built the kernel and where: with kernels of one's own, oneself."""
_OWN_FILES = re.compile(r"(?:serial|unique_id|_uuid|hostname|machine-id)[\w-]*$", re.IGNORECASE)
"""Files that hold nothing but an id, by the end of their path."""


class PrivateNames(msgspec.Struct, frozen=True, kw_only=True):
    """What this computer and its user are called."""

    users: list[str] = []
    hosts: list[str] = []


def names_here() -> PrivateNames:
    """Return the names of this computer, of its user, and of the user's folder."""
    host = socket.gethostname()
    try:
        users = [getpass.getuser(), Path.home().name]
    except (OSError, KeyError, RuntimeError, ImportError):  # no account in a container
        users = []
    return PrivateNames(users=users, hosts=[host, host.partition(".")[0]])


class RecordRedactor:
    """Redacts any number of values, one person's names and one numbering for all of them."""

    def __init__(self, private: PrivateNames) -> None:
        self._names = [
            *((_word_pattern(name), _SOMEHOST) for name in _names_to_replace(private.hosts)),
            *((_word_pattern(name), _SOMEONE) for name in _names_to_replace(private.users)),
        ]
        self._numbers: dict[str, int] = {}

    def redact_value(self, document: Any) -> Any:  # noqa: ANN401 -- JSON of any shape
        """Return plain JSON without what identifies. Ids are numbered as they come: redact the fullest value first."""
        for text in _iter_texts(document):
            for match in _ID.finditer(text):
                if match["whole"]:
                    self._number_id(match[0])
        return self._redact_field(document, "")

    def _redact_field(self, field: Any, name: str) -> Any:  # noqa: ANN401 -- as above
        if isinstance(field, Mapping):
            return {self._redact_key(str(key)): self._redact_field(value, str(key)) for key, value in field.items()}
        if isinstance(field, list):
            return [self._redact_field(value, name) for value in field]
        if not isinstance(field, str):
            return field
        return self._stand_in(field) if _OWN_FILES.search(name) else self._redact_text(field)

    def _redact_key(self, key: str) -> str:
        """Return a path or command redacted; names of fields are ours."""
        return key if key.isidentifier() else self._redact_text(key)

    def _redact_text(self, text: str) -> str:
        for pattern, replacement in self._redaction_rules():
            text = pattern.sub(replacement, text)
        return text

    def _redaction_rules(self) -> Iterator[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]]:
        yield _SERIAL, rf"\g<1>{_REDACTED}"
        yield _PARTITION, rf"\g<1>{_REDACTED}"
        yield _DISK, rf"\g<1>{_REDACTED}"
        yield _WINDOWS_HOME, rf"\g<1>{_SOMEONE}"
        yield _POSIX_HOME, rf"\g<1>{_SOMEONE}"
        yield _ACCOUNT, "S-1-5-21-0"
        yield _BUILDER, f"{_SOMEONE}@{_SOMEHOST}"
        yield from self._names
        yield _MAC, self._redact_mac
        yield _ID, lambda match: self._stand_in(match[0])

    def _redact_mac(self, match: re.Match[str]) -> str:
        parts = match[0].count(match[1]) + 1
        return match[1].join(["00"] * (parts - 1) + [f"{self._number_id(match[0]):02x}"])

    def _stand_in(self, text: str) -> str:
        """Return zeros of its form, after the number of the id: a shortened id stays the start of the whole."""
        number = f"{self._number_id(text):02x}"
        digits = iter(number)
        return "".join(next(digits, "0") if character.isalnum() else character for character in text)

    def _number_id(self, text: str) -> int:
        bare = "".join(filter(str.isalnum, text.lower()))
        whole = next((known_number for known_number in self._numbers if known_number.startswith(bare)), bare)
        return self._numbers.setdefault(whole, len(self._numbers) + 1)


def _names_to_replace(names: list[str]) -> list[str]:
    """Return the names worth replacing, longest first: a computer's full name contains its short one."""
    useful = {name for name in names if len(name) >= _SHORTEST_NAME and name.lower() not in _GENERIC}
    return sorted(useful, key=len, reverse=True)


def _word_pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![0-9a-z]){re.escape(name)}(?![0-9a-z])", re.IGNORECASE)


def _iter_texts(document: Any) -> Iterator[str]:  # noqa: ANN401 -- as above
    if isinstance(document, str):
        yield document
    elif isinstance(document, Mapping):
        for key, value in document.items():
            yield str(key)
            yield from _iter_texts(value)
    elif isinstance(document, list):
        for value in document:
            yield from _iter_texts(value)
