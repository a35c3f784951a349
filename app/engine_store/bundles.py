"""One file from which a machine without network can install a version.

A tar archive: `bundle.json` (what it is, and the SHA-256 of every file), and the files themselves: the wheels and the
lock of an environment, or the archives of a release. A bundle says what it is by itself, so whoever installs one trusts
where it came from; but where Roundhouse has a lock of its own for that version, the bundle's must be the same.
"""

import hashlib
import tarfile
from pathlib import Path

import msgspec

from app.core.errors import BadRequest
from app.engine_store.archives import unpack_archive
from app.engine_store.recipe import EngineVariant, InstallRecipe, VariantKind
from app.engine_store.releases import AssetSelection

ABOUT = "bundle.json"
FILES = "files"
_MOST_ABOUT = 4 << 20
_CHUNK = 1 << 20


class EngineBundleInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a bundle is. `platform` and `architecture` as in recipes."""

    engine: str
    variant: str
    version: str
    platform: str
    architecture: str
    files: dict[str, str]
    """Name -> SHA-256."""
    lock: str = ""
    tools: str = ""
    """The lock of what is built with, where something is."""
    chosen: AssetSelection | None = None


class EngineBundle(msgspec.Struct, frozen=True, kw_only=True):
    """An opened bundle: its files lie in a folder and are what it said they are."""

    about: EngineBundleInfo
    files: Path

    @property
    def lock(self) -> str:
        """The lock its wheels belong to."""
        return self.about.lock

    @property
    def tools(self) -> str:
        """The lock of what its packages are built with."""
        return self.about.tools

    @property
    def asset_selection(self) -> AssetSelection:
        """The archives it holds."""
        return self.about.chosen or AssetSelection(version=self.about.version, tag="", assets=())


def write_bundle(path: Path, about: EngineBundleInfo, folder: Path) -> None:
    """Write a bundle of the files in a folder; `about.files` is filled in. Replaces `path` once all is written."""
    names = sorted(file.name for file in folder.iterdir() if file.is_file())
    whole = msgspec.structs.replace(about, files={name: sha256_of(folder / name) for name in names})
    draft = path.with_name(path.name + ".part")
    try:
        with tarfile.open(draft, "w") as archive:
            note = folder.parent / ABOUT
            note.write_bytes(msgspec.json.encode(whole))
            archive.add(note, ABOUT)
            for name in names:
                archive.add(folder / name, f"{FILES}/{name}", filter=_anonymize_member)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _anonymize_member(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def read_about(path: Path) -> EngineBundleInfo:
    """Return what a bundle says it is. Raises BadRequest when it is none."""
    try:
        with tarfile.open(path, "r:") as archive:
            first = archive.next()
            content = (
                archive.extractfile(first) if first is not None and first.name == ABOUT and first.isreg() else None
            )
            if content is None or first is None or first.size > _MOST_ABOUT:
                raise _not_a_bundle(path)
            return msgspec.json.decode(content.read(), type=EngineBundleInfo)
    except (OSError, ValueError, tarfile.TarError) as error:
        raise _not_a_bundle(path) from error


def open_bundle(path: Path, recipe: InstallRecipe, variant: EngineVariant, stage: Path) -> EngineBundle:
    """Unpack a bundle into a stage and check every file. Raises BadRequest when it is not for this, or was changed."""
    about = read_about(path)
    if (about.engine, about.variant) != (recipe.engine, variant.name):
        raise BadRequest(
            f"{path.name} holds {about.engine} ({about.variant}), not {recipe.engine} ({variant.name}).",
            code="bad_bundle",
        )
    if variant.kind is VariantKind.VENV and about.version == variant.version:
        own = recipe.lock_of(variant).read_text(encoding="utf-8")
        if (own, recipe.tools_of(variant)) != (about.lock, about.tools):
            raise BadRequest(f"{path.name} was made with a different lock of {about.version}.", code="bad_bundle")
    folder = stage / "bundle"
    unpack_archive(path, folder)
    files = folder / FILES
    actual = {file.name: sha256_of(file) for file in files.iterdir()} if files.is_dir() else {}
    if actual != about.files:
        raise BadRequest(f"{path.name} is damaged: its files do not match its description.", code="bad_bundle")
    return EngineBundle(about=about, files=files)


def sha256_of(path: Path) -> str:
    """Return a file's SHA-256."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _not_a_bundle(path: Path) -> BadRequest:
    return BadRequest(
        f"{path} is not an engine bundle.",
        hint="`roundhouse engines bundle` creates one, on a machine with a network connection.",
        code="bad_bundle",
    )
