"""Files of a hub that a paired machine has: asked for by repository and hash, never by path, and fetched from there.

The machine is believed no further than the hub: ranges are checked to be those that were asked for, and the whole by
its hash. One that fails is not asked again by this process, and the hub goes on with what it brought.
"""

import base64
from pathlib import Path
from urllib.parse import quote

from app.core.connections import ConnectionReason, Program, Purpose
from app.core.errors import BadRequest, NotFound, quote_value
from app.core.machines import DOMAIN
from app.hub.download.job import MachineSource, MachineSources
from app.hub.download.wire import HttpSource, LowestPace, remote_without_limit
from app.hub.repositories.repository import REPOSITORY, RepoFile
from app.network.pinned_tls import MachineAddress, TlsIdentity, fingerprint_of, make_client_context
from app.network.urls import build_machine_opener

FILES = "/machine/files/"
TRIES = 1
"""In a row without a byte, after the first, before the hub goes on: it is there anyway."""
MOST_BREAKS = 8
"""Of streams of one file, whatever each of them brought."""
SLOWEST_BYTES_PER_S = 100e3
"""Slower than the lowest limit that a machine can be given (1 MB/s for four streams), and than most lines to a hub."""
_DIGITS = frozenset("0123456789abcdef")
_HASH_LENGTHS = frozenset({40, 64})
"""Of git's SHA-1, by which the hub names small files, and of SHA-256."""


def file_address(repository: str, digest: str) -> str:
    """Return the path and query by which a paired machine is asked for a file."""
    return f"{FILES}{digest}?repository={quote(repository)}"


def check_file_name(repository: str, digest: str) -> None:
    """Raise BadRequest unless this can be a repository and a hash: neither can then lead out of a folder."""
    if not REPOSITORY.fullmatch(repository) or ".." in repository or "--" in repository:
        raise BadRequest(f"{quote_value(repository)} is not a model name.", code="bad_address")
    if len(digest) not in _HASH_LENGTHS or not _DIGITS.issuperset(digest):
        raise BadRequest("A file is asked for by its hash.", code="bad_address")


class MachineHost:
    """One paired machine, for the files of one repository."""

    def __init__(self, sources: MachineSources, machine: MachineSource, repository: str) -> None:
        """Read this machine's key. Raises OSError, ValueError for a certificate that is none."""
        certificate = base64.b64decode(machine.certificate)
        identity = TlsIdentity(Path(sources.identity_file), sources.passphrase, b"")
        fingerprint = fingerprint_of(certificate)
        context = make_client_context(identity, certificate)
        address = MachineAddress(machine.name, machine.address, machine.port, context, fingerprint)
        purpose = Purpose(why=ConnectionReason.MACHINES, about=machine.name, by=Program.DOWNLOADER)
        self.name, self._repository = machine.name, repository
        self._remote = remote_without_limit(
            f"https://{fingerprint[:16]}{DOMAIN}", purpose, opener=build_machine_opener(purpose, address)
        )

    def find_source(self, file: RepoFile) -> HttpSource:
        """Return where a file would be there. Raises NotFound for one whose hash the hub did not say."""
        if not file.etag:
            raise NotFound("The hub did not say the file's hash.", code="model_not_found")
        url = self._remote.endpoint + file_address(self._repository, file.etag)
        return HttpSource(self._remote, url, size=file.size, pace=LowestPace(SLOWEST_BYTES_PER_S, is_final=True))
