"""What a kept state fits: the very same weights, template, engine build and shapes of context and cache.

Hashing weights takes seconds, so a file's hash is remembered with its size, times and inode, and is never computed
while a request waits.
"""

import hashlib
import logging
import threading
from pathlib import Path

import msgspec

from app.config.private_files import write_private
from app.hub.disk.verification import sha256_of
from app.hub.library.candidates import candidate_at
from app.supervisor.states import SlotStateLaunch

log = logging.getLogger(__name__)

_FORMAT = 1
"""Raised when what the identity is made of changes."""


class _FileHash(msgspec.Struct, frozen=True, kw_only=True):
    """The hash of a file as it was."""

    stat: tuple[int, ...]
    sha256: str


class WeightHashes:
    """Hashes of weights, kept in a file. Methods may block; they may be called from any thread."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._hashes: dict[str, _FileHash] | None = None

    def find_hashes(self, path: Path) -> tuple[str, ...] | None:
        """Return the hashes of a model's files if all of them are known. Raises OSError."""
        with self._lock:
            known_hashes = self._read_known()
        hashes = [known_hashes.get(str(part)) for part in candidate_at(path).parts]
        stats = [_stat_of(part) for part in candidate_at(path).parts]
        if not all(each is not None and each.stat == stat for each, stat in zip(hashes, stats, strict=True)):
            return None
        return tuple(each.sha256 for each in hashes if each is not None)

    def compute_hashes(self, path: Path) -> tuple[str, ...]:
        """Return the hashes of a model's files, reading those that are not known. Raises OSError."""
        if (known_hashes := self.find_hashes(path)) is not None:
            return known_hashes
        hashes = {}
        for part in candidate_at(path).parts:
            before = _stat_of(part)
            digest = sha256_of(part, lambda _file, _count: None)
            if _stat_of(part) == before:
                hashes[str(part)] = _FileHash(stat=before, sha256=digest)
        self._add_known(hashes)
        return tuple(each.sha256 for each in hashes.values())

    def _read_known(self) -> dict[str, _FileHash]:
        if self._hashes is None:
            try:
                self._hashes = msgspec.json.decode(self._file.read_bytes(), type=dict[str, _FileHash])
            except (OSError, msgspec.DecodeError, UnicodeDecodeError):
                self._hashes = {}
        return self._hashes

    def _add_known(self, hashes: dict[str, _FileHash]) -> None:
        with self._lock:
            known_hashes = self._read_known()
            known_hashes.update(hashes)
            for name in [name for name in known_hashes if not Path(name).exists()]:
                del known_hashes[name]
            try:
                write_private(self._file, msgspec.json.encode(known_hashes))
            except OSError as error:  # it is computed again after the next start
                log.info("The hashes of weights were not kept: %s", error)


def state_identity(launch: SlotStateLaunch, weights: tuple[str, ...]) -> str:
    """Return the hash of all that a state depends on."""
    options, build = launch.options, launch.installation
    parts = (
        *(
            _FORMAT,
            weights,
            launch.engine,
            build.version,
            build.backend,
            build.package,
            _program_stat(build.executable),
        ),
        *(options.context, options.kv_type, options.flash_attention, options.chat_template),
        *(
            options.gpu_layers,
            options.cpu_moe_layers,
            options.draft_name,
            options.extra_args,
            sorted(options.extra_env.items()),
        ),
    )
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def _program_stat(program: Path | None) -> tuple[int, ...]:
    """Return what tells one build of a person's own program from another of the same version."""
    try:
        return () if program is None else _stat_of(program)
    except OSError:
        return ()


def _stat_of(path: Path) -> tuple[int, ...]:
    stat = path.stat()
    return (stat.st_size, stat.st_mtime_ns, stat.st_ino)
