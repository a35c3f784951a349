"""Whether a model's files are what they should be: against the hashes that the hub and Ollama name them by.

Where nobody kept a hash, a header still says how long its file must be; that finds what was cut off, not what was
changed in the middle, and the verdict says so.

Reading whole files to know what is in them: in stretches, saying how far it is, and stopping when told to.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from app.core.errors import BadRequest, UserError
from app.core.library import FileCheck, Verdict
from app.core.models import ModelInfo
from app.hub.gguf.listing import read_gguf
from app.hub.library.candidates import candidate_at

STRETCH_BYTES = 4 << 20

ReadProgress = Callable[[Path, int], None]
"""Told after every stretch: of which file, and how many bytes more. It raises what ends the reading."""


def sha256_of(file: Path, report: ReadProgress) -> str:
    """Return the SHA-256 of a file. Raises OSError, and what `report` raises."""
    return _hash_file(file, hashlib.sha256(), report)


def git_oid_of(file: Path, report: ReadProgress) -> str:
    """Return git's own hash of a file's content, as the hub names small files. Raises as `sha256_of`."""
    digest = hashlib.sha1(b"blob %d\0" % file.stat().st_size, usedforsecurity=False)
    return _hash_file(file, digest, report)


def _hash_file(file: Path, digest: "hashlib._Hash", report: ReadProgress) -> str:
    with file.open("rb", buffering=0) as source:
        while stretch := source.read(STRETCH_BYTES):
            digest.update(stretch)
            report(file, len(stretch))
    return digest.hexdigest()


_SHA256 = re.compile(r"(?:sha256-)?([0-9a-f]{64})")
_OID = re.compile(r"[0-9a-f]{40}")


def files_of(model: ModelInfo) -> list[Path]:
    """Return the files of a model under the names it has here. Raises BadRequest for one that runs elsewhere."""
    if model.attached:
        raise BadRequest(f"{model.name} runs elsewhere: its files are not on this computer.")
    path = Path(model.path)
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.is_file() and file.suffix.lower() != ".gguf")
    return list(candidate_at(path).parts)


def check_files(files: list[Path], report: ReadProgress) -> Iterator[FileCheck]:
    """Yield what each file came to. Raises what `report` raises."""
    for file in files:
        try:
            yield _check_file(file, report)
        except OSError as error:
            yield FileCheck(path=str(file), verdict=Verdict.CUT_OFF, note=f"It cannot be read: {error.strerror}.")


def _check_file(file: Path, report: ReadProgress) -> FileCheck:
    file_name = file.resolve().name
    if (digest := _SHA256.fullmatch(file_name)) is not None:
        return _compare_hashes(file, digest[1], sha256_of(file, report))
    if _OID.fullmatch(file_name):
        return _compare_hashes(file, file_name, git_oid_of(file, report))
    problem = _structure_problem(file)
    report(file, file.stat().st_size)
    if problem:
        return FileCheck(path=str(file), verdict=Verdict.CUT_OFF, note=problem)
    return FileCheck(path=str(file), verdict=Verdict.WHOLE, note="Its hash is not known.")


def _compare_hashes(file: Path, expected_hash: str, actual: str) -> FileCheck:
    if expected_hash == actual:
        return FileCheck(path=str(file), verdict=Verdict.RIGHT, note=f"Its hash is {expected_hash[:12]}….")
    note = f"Its hash is {actual[:12]}… and should be {expected_hash[:12]}…: download it again."
    return FileCheck(path=str(file), verdict=Verdict.WRONG, note=note)


def _structure_problem(file: Path) -> str:
    """Return what a file's own header says is wrong with it."""
    if file.suffix.lower() != ".gguf":
        return "" if file.stat().st_size else "It is empty."
    try:
        missing_bytes = read_gguf(file).missing_bytes
    except UserError as error:
        return str(error)
    return f"{missing_bytes:,} bytes are missing at its end." if missing_bytes else ""
