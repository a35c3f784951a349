"""The engine store as every program sees it: versions that are here, versions that could be, jobs that change it."""

import msgspec

from app.core.confinement import EngineConfinementState
from app.core.errors import ErrorBody

BUNDLED = "bundled"
"""Name of the version that came with Roundhouse itself."""
OWN = "own"
"""Name of a program a person pointed at."""


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """What came of loading a model in one version and having it write, at `at` (Unix seconds).

    `problem` is empty when all was well. `device` is what the engine says it computed on; empty when it does not say.
    """

    at: float
    model: str = ""
    text: str = ""
    tokens_per_s: float | None = None
    load_s: float | None = None
    backend: str = ""
    """What was asked for."""
    device: str = ""
    code: str = ""
    """A `FailureKind` value, or "gibberish", "wrong_device", "hung"."""
    problem: str = ""
    hint: str = ""
    log: str = ""
    """The engine's last words, where it failed."""

    @property
    def is_good(self) -> bool:
        """Whether it wrote what was expected, where it was expected."""
        return not self.code


class EngineVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version that is on this machine. `name` is what commands call it: "2026.10.11549-cpu", "bundled", "own"."""

    name: str
    version: str
    variant: str = ""
    backend: str = ""
    is_current: bool = False
    is_previous: bool = False
    """What a roll-back returns to."""
    size_bytes: int = 0
    installed_at: float | None = None
    path: str = ""
    proof: Proof | None = None
    problem: str = ""
    """Why it had better not be used: what its test or a load showed."""
    is_on_path: bool = False
    """Whether it is a program that lies on PATH and that nobody has chosen yet."""

    @property
    def is_working(self) -> bool:
        """Whether it passed its test, and has not failed since."""
        return self.proof is not None and self.proof.is_good and not self.problem

    @property
    def is_ours(self) -> bool:
        """Whether Roundhouse installed it, and can remove it."""
        return self.name not in {BUNDLED, OWN} and not self.is_on_path


class EngineOffer(msgspec.Struct, frozen=True, kw_only=True):
    """One variant that could be installed. `unfit` says why this machine cannot run it; empty when it can."""

    variant: str
    version: str
    backend: str
    download_bytes: int = 0
    disk_bytes: int = 0
    is_installed: bool = False
    unfit: str = ""
    problem: str = ""
    """Why it was not kept when it was installed last: what its test showed."""
    note: str = ""
    """Why it is offered first, where that is not what one would expect."""


class EngineListing(msgspec.Struct, frozen=True, kw_only=True):
    """What there is of one engine: whether it suits this machine and why, what is installed, what is on offer."""

    id: str
    name: str
    licence: str
    homepage: str
    formats: list[str]
    rank: int | None = None
    """Its place in the advisor's order for this machine, from 1; None where it cannot run or is redundant."""
    is_redundant: bool = False
    """Whether it could run here, and others do the same with less effort."""
    advice: str = ""
    """Why it suits this machine, or why not, in a sentence."""
    is_preferred: bool = False
    """Whether a person chose it for the formats it reads."""
    versions: list[EngineVersion] = []
    offers: list[EngineOffer] = []
    size_bytes: int = 0
    verified: str = ""
    unverified: str = ""
    span: str = ""
    """What was tried of one model over several computers; empty for an engine without a way to do that."""
    legacy: str = ""
    """Why nobody should begin with it; empty for others."""
    confinement: EngineConfinementState | None = None
    """Whether it is confined when it is next loaded, and what that comes to."""

    @property
    def runs_here(self) -> bool:
        """Whether it has been seen running on this machine, or should."""
        return self.rank is not None or any(version.is_working for version in self.versions)

    @property
    def is_hidden(self) -> bool:
        """Whether lists leave it out unless it is asked for: legacy, and not here."""
        return bool(self.legacy) and not self.versions


class InstallEngine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for a version. Without a variant the first that suits the machine; `version` only with the latest channel.

    `bundle` is a file made by `engines bundle`: nothing is fetched then. `use` switches to it once it is proved.
    """

    variant: str = ""
    channel: str = "stable"
    version: str = ""
    bundle: str = ""
    use: bool = True


class UseEngine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for a version to be used from now on; a `path` names a program of the person's own.

    One that failed is tested first, unless `force` says that it is wanted all the same.
    """

    version: str = ""
    path: str = ""
    force: bool = False


class TestEngine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for a version to be tested; without one, the current."""

    __test__ = False  # it is no test, whatever pytest makes of its name
    version: str = ""


class BundleEngine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for a file from which a machine without network can install a variant."""

    path: str
    variant: str = ""


class EngineUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """What an update would change. `to` is empty when there is nothing newer."""

    engine: str
    variant: str = ""
    channel: str = "stable"
    current: str = ""
    """The version that is used now."""
    to: str = ""
    download_bytes: int = 0
    is_here: bool = False
    """Whether it is installed already, and only has to be tested and used."""
    changes: list[str] = []
    """Packages that change, as "numpy 2.4.6 -> 2.5.5"."""


class EngineJob(msgspec.Struct, frozen=True, kw_only=True):
    """One change to the store, going on or over. There is one at a time. `fraction` is 0..1, None when unknown."""

    id: str
    engine: str
    verb: str
    """"install", "update", "use", "test" or "bundle"."""
    version: str = ""
    """What it is about, once that is known."""
    note: str = ""
    """Why this build was taken, where that is not what one would expect."""
    stage: str = ""
    """What it does now, in words."""
    fraction: float | None = None
    is_done: bool = False
    error: ErrorBody | None = None
    proofs: list[Proof] = []
