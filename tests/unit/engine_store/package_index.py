"""A package index in a folder, with tiny wheels that are made here: what installs in a tenth of a second."""

import base64
import hashlib
import io
import zipfile
from pathlib import Path

import msgspec

from app.engine_store.recipe import EngineVariant, InstallRecipe, SmokeModel, VariantKind

PACKAGE = "roundhouse-fake-engine"
MODULE = "roundhouse_fake_engine"


class Index:
    """`add(version)` publishes a version of the package."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "simple" / PACKAGE
        self._folder.mkdir(parents=True, exist_ok=True)
        self.url = (folder / "simple").as_uri()
        self.hashes = {
            path.name.split("-")[1]: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in self._folder.glob("*.whl")
        }

    def add(self, version: str, *, files: int = 1) -> None:
        data = wheel(version, files=files)
        name = f"{MODULE}-{version}-py3-none-any.whl"
        (self._folder / name).write_bytes(data)
        self.hashes[version] = hashlib.sha256(data).hexdigest()
        links = "".join(
            f'<a href="{MODULE}-{build}-py3-none-any.whl#sha256={sha}">{MODULE}-{build}-py3-none-any.whl</a>\n'
            for build, sha in self.hashes.items()
        )
        (self._folder / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>", encoding="utf-8")

    def recipe(self, folder: Path, version: str, *, engine: str = "fake") -> InstallRecipe:
        """Return a recipe that installs `version`, with its lock in `folder`."""
        variant = EngineVariant(
            name="cpu",
            kind=VariantKind.VENV,
            version=version,
            backend="cpu",
            platforms=("linux", "darwin", "win32"),
            package=PACKAGE,
            requires=(f"{PACKAGE}=={version}",),
            index_urls=(self.url,),
            download_mb=1,
        )
        recipe = InstallRecipe(
            engine=engine, folder=folder, smoke=SmokeModel(format="gguf", model="guide-q8_0.gguf"), variants=(variant,)
        )
        lock = recipe.lock_of(variant)
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.write_text(f"{PACKAGE}=={version} \\\n    --hash=sha256:{self.hashes[version]}\n", encoding="utf-8")
        return recipe


def with_hash(recipe: InstallRecipe, sha256: str) -> InstallRecipe:
    """Return the recipe with another hash in its lock."""
    (variant,) = recipe.variants
    recipe.lock_of(variant).write_text(
        f"{PACKAGE}=={variant.version} \\\n    --hash=sha256:{sha256}\n", encoding="utf-8"
    )
    return msgspec.structs.replace(recipe)


def wheel(version: str, *, files: int = 1, package: str = PACKAGE) -> bytes:
    """Return a wheel of the package, or of another."""
    module = package.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    content = {
        **{f"{module}/part{number}.py": f"VERSION = {version!r}\n".encode() for number in range(files)},
        f"{module}/__init__.py": f"__version__ = {version!r}\n".encode(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},sha256={_urlsafe(data)},{len(data)}\n" for name, data in content.items())
    wheel_bytes = io.BytesIO()
    with zipfile.ZipFile(wheel_bytes, "w") as archive:
        for name, data in {**content, f"{info}/RECORD": (record + f"{info}/RECORD,,\n").encode()}.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), data)
    return wheel_bytes.getvalue()


def _urlsafe(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
