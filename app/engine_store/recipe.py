"""How an engine is installed, as data: `engines/<folder>/install.toml`, parsed once and checked whole.

A recipe lists variants, one per way of building the engine (processor, CUDA, ...). A variant is either a virtual
environment made from a committed lock with hashes, or release archives that are named by a pattern. CONTRIBUTING
("An engine's recipe") describes every field.
"""

import re
import tomllib
from enum import StrEnum
from functools import cached_property
from pathlib import Path

import msgspec

from app.core.errors import Bug
from app.engine_store.prebuilt import PrebuiltSource
from app.engine_store.toolkits import TOOLKITS, find_toolkits

FILE = "install.toml"
ENGINES = Path(__file__).resolve().parents[2] / "engines"
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
_MB = 1_000_000


class VariantKind(StrEnum):
    """How a variant comes to the disk."""

    VENV = "venv"
    ARCHIVE = "archive"


class Channel(StrEnum):
    """Which version is wanted: the one this Roundhouse was made with and tested, or the newest there is."""

    STABLE = "stable"
    LATEST = "latest"


class SmokeModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What proves a fresh install: the form of the Guide it loads. Empty `model`: there is none, nothing is proved."""

    format: str = ""
    """An `engines.api.ModelFormat` value."""
    model: str = ""
    """A file or folder below `resources/guide`."""


class ReleaseSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """Where archives are published: a GitHub repository, and how its assets are named.

    `asset` is a verbose regular expression with named groups; a variant picks by them. `pointer` is the asset of a
    stable release that names the tag which carries the archives, where stable releases carry none.
    """

    repository: str
    asset: str
    pointer: str = ""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled `asset`."""
        return re.compile(self.asset, re.VERBOSE)


class EngineVariant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way the engine is built. `version` is what the stable channel installs."""

    name: str
    kind: VariantKind
    version: str
    backend: str
    """What it computes on: "cpu", "cuda", "metal", ...; the smoke test checks that it does."""
    platforms: tuple[str, ...]
    """`sys.platform` values."""
    architectures: tuple[str, ...] = ("x86_64", "arm64")
    glibc: str = ""
    """The oldest C library it starts with, on Linux."""
    driver: dict[str, str] = {}
    """Vendor of a GPU there must be -> oldest driver; empty: any."""
    gains: dict[str, str] = {}
    """Extension of a processor -> what this build makes of it that others do not, in a sentence, measured."""
    download_mb: int = 0
    disk_mb: int = 0

    package: str = ""
    """venv: the distribution whose version is the engine's."""
    requires: tuple[str, ...] = ()
    """venv: what is locked, as pip writes requirements."""
    python: str = ">=3.11,<3.15"
    index_urls: tuple[str, ...] = ()
    """venv: indexes beside PyPI, searched first."""
    builds: bool = False
    """venv: something is compiled on this machine; without it wheels alone are taken."""
    build_requires: tuple[str, ...] = ()
    """venv: what may be needed to build `package`, locked as `requires` is."""
    build_settings: dict[str, str] = {}
    """venv: what `package`'s build backend is told. `{folder}` stands for the recipe's own folder, `{compiler}` for
    the toolkit's compiler."""
    toolkit: str = ""
    """venv: what must be here to build it, a name in `toolkits.TOOLKITS`."""
    lock: str = ""
    """venv: the variant whose locks serve this one too; empty: its own."""
    needs_prebuilt: bool = False
    """venv: it is of no use without a wheel of `[prebuilt]`, since nothing is compiled there."""

    pick: dict[str, str] = {}
    """archive: the pattern's groups and what they must be; a version may be given by its beginning."""
    companions: tuple[dict[str, str], ...] = ()
    """archive: further assets that belong into the same folder, picked likewise."""
    executable: str = ""
    """archive: the program's name, without `.exe`."""
    pins: dict[str, str] = {}
    """archive: asset -> SHA-256 that it must have, whatever the release says."""

    @property
    def download_bytes(self) -> int:
        """About what is fetched; 0 where nobody measured."""
        return self.download_mb * _MB

    @property
    def disk_bytes(self) -> int:
        """About what it takes on disk; 0 where nobody measured."""
        return self.disk_mb * _MB


class BundledVersion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The version that comes with Roundhouse itself, and the hashes of its wheels by platform tag."""

    package: str
    version: str
    wheels: dict[str, str] = {}
    build: str = ""
    """What the engine's own makers call it."""


class _RecipeFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    engine: str
    smoke: SmokeModel = SmokeModel()
    release: ReleaseSource | None = None
    prebuilt: PrebuiltSource | None = None
    bundled: BundledVersion | None = None
    variant: tuple[EngineVariant, ...] = ()


class InstallRecipe(msgspec.Struct, frozen=True, kw_only=True):
    """One engine's recipe. `folder` holds it and its locks."""

    engine: str
    folder: Path
    smoke: SmokeModel
    variants: tuple[EngineVariant, ...]
    release: ReleaseSource | None = None
    prebuilt: PrebuiltSource | None = None
    """Where wheels with compiled kernels are, which an environment gets if one fits."""
    bundled: BundledVersion | None = None

    def lock_of(self, variant: EngineVariant) -> Path:
        """Return where a venv's lock lies."""
        return self.folder / "locks" / f"{variant.lock or variant.name}.txt"

    def tools_lock_of(self, variant: EngineVariant) -> Path:
        """Return where the lock of what it is built with lies; only where something is."""
        return self.folder / "locks" / f"{variant.lock or variant.name}.build.txt"

    def tools_of(self, variant: EngineVariant) -> str:
        """Return the lock of what it is built with, empty where nothing is."""
        return self.tools_lock_of(variant).read_text(encoding="utf-8") if variant.build_requires else ""

    def find_variant(self, name: str) -> EngineVariant | None:
        """Return the variant of that name."""
        return next((variant for variant in self.variants if variant.name == name), None)


def read_recipes(engines: Path = ENGINES) -> dict[str, InstallRecipe]:
    """Return every recipe by its engine's id. Raises Bug when one is wrong."""
    recipes = (read_recipe(path.parent) for path in sorted(engines.glob(f"*/{FILE}")))
    return {recipe.engine: recipe for recipe in recipes}


def read_recipe(folder: Path) -> InstallRecipe:
    """Read `install.toml` of an engine's folder. Raises Bug when it is missing or wrong: it is a file of ours."""
    path = folder / FILE
    try:
        document = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _RecipeFile)
        for source in (document.release, document.prebuilt):
            if source is not None:
                re.compile(source.asset, re.VERBOSE)
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError, re.error) as error:
        raise Bug(f"The recipe {path} cannot be used: {error}.", hint="Install Roundhouse again.") from error
    for variant in document.variant:
        problem = _variant_problem(variant, document)
        if problem:
            raise Bug(f"The recipe {path} cannot be used: {variant.name}: {problem}.", hint="Install Roundhouse again.")
    return InstallRecipe(
        engine=document.engine,
        folder=folder,
        smoke=document.smoke,
        variants=tuple(_resolve_settings(variant, folder) for variant in document.variant),
        release=document.release,
        prebuilt=document.prebuilt,
        bundled=document.bundled,
    )


def _resolve_settings(variant: EngineVariant, folder: Path) -> EngineVariant:
    compiler = find_toolkits().get(variant.toolkit, "") if variant.toolkit else ""
    settings = {
        name: value.replace("{folder}", str(folder)).replace("{compiler}", compiler)
        for name, value in variant.build_settings.items()
    }
    return msgspec.structs.replace(variant, build_settings=settings)


def _variant_problem(variant: EngineVariant, document: _RecipeFile) -> str:
    """Return what is missing in a variant, or an empty string."""
    if not _NAME.fullmatch(variant.name):
        return "a name is lower-case letters, digits, dots and dashes"
    if [other.name for other in document.variant].count(variant.name) > 1:
        return "two variants have this name"
    if not variant.platforms:
        return "platforms are missing"
    if variant.kind is VariantKind.VENV:
        return _environment_problem(variant, document)
    if document.release is None:
        return "archives need a [release]"
    return "" if variant.pick and variant.executable else "an archive needs pick and executable"


def _environment_problem(variant: EngineVariant, document: _RecipeFile) -> str:
    if variant.toolkit and variant.toolkit not in TOOLKITS:
        return f"there is no toolkit {variant.toolkit}"
    if variant.needs_prebuilt and document.prebuilt is None:
        return "needs_prebuilt wants a [prebuilt]"
    return "" if variant.package and variant.requires else "a venv needs package and requires"
