"""Which models the engines in use load, read from each version's own files once and kept with it. Blocks: use a thread.

What is read is worth keeping because a library has 100 MB; it is read again when the version, or a person's own
program, is another one.
"""

import contextlib
import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec

from app.core.errors import EngineFailed, StorageFault
from app.engine_store.catalogue import EngineCatalogue
from app.hub.library.registry_file import JsonFile
from engines.api import EngineInstallation
from engines.api.support import EngineSupport
from engines.program_probe import file_identity
from engines.support_files import read_support

log = logging.getLogger(__name__)

_FILE = "support.json"


class _SupportRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was read, and of what."""

    identity: str
    support: EngineSupport | None


class SupportReader:
    """What the versions in use load, by engine."""

    def __init__(self, catalogue: EngineCatalogue) -> None:
        self._catalogue = catalogue
        self._records: dict[str, _SupportRecord] = {}

    def read_all(self) -> Mapping[str, EngineSupport]:
        """Return what each installed engine loads; engines of which nobody can tell are not among them."""
        supports = {engine: self.read_engine(engine) for engine in self._catalogue.adapters}
        return {engine: support for engine, support in supports.items() if support is not None}

    def read_engine(self, engine: str) -> EngineSupport | None:
        """Return what the version in use loads; None where it is not here, or its files do not say."""
        sources = self._catalogue.adapters[engine].descriptor.support
        if not sources:
            return None
        try:
            installation = self._catalogue.find_installation(engine)
        except EngineFailed:
            return None
        identity = _identity_of(installation)
        known_support = self._records.get(engine)
        if known_support is None or known_support.identity != identity:
            known_support = self._records[engine] = self._read_kept(engine, installation, identity)
        return known_support.support

    def _read_kept(self, engine: str, installation: EngineInstallation, identity: str) -> _SupportRecord:
        json_file = JsonFile(self._place(engine), _SupportRecord, "what an engine loads")
        kept_support = json_file.read_value()
        if kept_support is not None and kept_support.identity == identity:
            return kept_support
        sources = self._catalogue.adapters[engine].descriptor.support
        fresh = _SupportRecord(identity=identity, support=read_support(sources, installation))
        if fresh.support is None:
            log.info("Nothing of %s %s says which models it loads.", engine, installation.version)
        with contextlib.suppress(StorageFault):  # it is read again next time
            json_file.write_value(fresh)
        return fresh

    def _place(self, engine: str) -> Path:
        """Return where it is kept: in the version's folder or, for what came with Roundhouse, beside its choice."""
        shelf = self._catalogue.shelf
        name = shelf.read_state(engine).current
        folder = shelf.version_folder(engine, name)
        return folder / _FILE if folder.is_dir() else folder.with_name(f"{name}-{_FILE}")


def _identity_of(installation: EngineInstallation) -> str:
    program = installation.executable
    return f"{installation.version} {file_identity(program) if program is not None else installation.python}"
