"""Engines that are compiled here: what the real uv tells their build, what is built anew, what GCC makes of AMX."""

import asyncio
import hashlib
import io
import json
import platform
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import msgspec
import pytest

from app.config.programs import uv_program
from app.core.errors import EnvironmentFault
from app.engine_store.environments import make_environment, write_locks
from app.engine_store.recipe import ENGINES, EngineVariant, VariantKind
from tests.unit.engine_store import package_index
from tests.unit.engine_store.package_index import Index

TOOL, TOOL_MODULE = package_index.PACKAGE, package_index.MODULE
PACKAGE, MODULE, VERSION = "roundhouse-built-engine", "roundhouse_built_engine", "1.0"
PROJECT = f'[build-system]\nrequires = ["{TOOL}"]\nbuild-backend = "backend"\nbackend-path = ["."]\n'
BACKEND = f"""
import json, zipfile
from pathlib import Path
import {TOOL_MODULE} as tool

INFO = "{MODULE}-{VERSION}.dist-info"
METADATA = "Metadata-Version: 2.1\\nName: {PACKAGE}\\nVersion: {VERSION}\\n"

def build_wheel(folder, config_settings=None, metadata_directory=None):
    files = {{
        "{MODULE}/settings.json": json.dumps([tool.__version__, config_settings]),
        f"{{INFO}}/METADATA": METADATA,
        f"{{INFO}}/WHEEL": "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }}
    record = "".join(f"{{name}},,\\n" for name in files) + f"{{INFO}}/RECORD,,\\n"
    with zipfile.ZipFile(Path(folder) / "{MODULE}-{VERSION}-py3-none-any.whl", "w") as wheel:
        for name, text in {{**files, f"{{INFO}}/RECORD": record}}.items():
            wheel.writestr(name, text)
    return "{MODULE}-{VERSION}-py3-none-any.whl"
"""
TILES = """
#include <immintrin.h>
struct Tiles { char palette, other[15]; short widths[16]; char rows[16]; };
void configure() {
    Tiles tiles = {};
    tiles.rows[7] = 77;
    _tile_loadconfig(&tiles);
}
"""


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def index(tmp_path: Path) -> Index:
    """Two versions of what is built with."""
    package_index = Index(tmp_path)
    package_index.add("1.0")
    package_index.add("2.0")
    return package_index


@pytest.fixture
def variant(tmp_path: Path, index: Index) -> EngineVariant:
    """What is built from a source that lies in an index, a folder."""
    name = f"{MODULE}-{VERSION}.tar.gz"
    folder = tmp_path / "simple" / PACKAGE
    folder.mkdir(parents=True)
    (folder / name).write_bytes(source())
    (folder / "index.html").write_text(f'<!DOCTYPE html><html><body><a href="{name}">{name}</a></body></html>')
    return EngineVariant(
        name="native",
        kind=VariantKind.VENV,
        version=VERSION,
        backend="cpu",
        platforms=(sys.platform,),
        package=PACKAGE,
        requires=(f"{PACKAGE}=={VERSION}",),
        index_urls=(index.url,),
        builds=True,
        build_settings={"cmake.define.FLAGS": '-include "/a folder/a.h"'},
    )


def source() -> bytes:
    files = {"pyproject.toml": PROJECT, "backend.py": BACKEND, "PKG-INFO": ""}
    source_bytes = io.BytesIO()
    with tarfile.open(fileobj=source_bytes, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"{MODULE}-{VERSION}/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return source_bytes.getvalue()


def build_variant(variant: EngineVariant, stage: Path, tools: str) -> tuple[str, dict[str, str]]:
    """Build it; return what it was built with and what its build was told."""
    uv = uv_program()
    assert uv is not None
    stage.mkdir()
    write_locks(stage, f"{PACKAGE}=={VERSION} --hash=sha256:{hashlib.sha256(source_of(variant)).hexdigest()}\n", tools)
    asyncio.run(make_environment(uv, variant, stage, lambda _stage, _fraction: None))
    (settings,) = (stage / "venv").rglob(f"{MODULE}/settings.json")
    version, setting = json.loads(settings.read_text(encoding="utf-8"))
    return version, setting


def write_lock(index: Index, version: str) -> str:
    return f"{TOOL}=={version} --hash=sha256:{index.hashes[version]}\n"


def source_of(variant: EngineVariant) -> bytes:
    folder = Path(variant.index_urls[0].removeprefix("file://")) / PACKAGE
    return (folder / f"{MODULE}-{VERSION}.tar.gz").read_bytes()


@pytest.mark.slow
def test_a_build_is_told_its_settings_and_done_again_where_they_change(
    variant: EngineVariant, index: Index, tmp_path: Path
) -> None:
    tools = write_lock(index, "1.0")
    assert build_variant(variant, tmp_path / "one", tools) == ("1.0", variant.build_settings)
    other = msgspec.structs.replace(variant, build_settings={"cmake.define.FLAGS": "-O1"})
    assert build_variant(other, tmp_path / "two", tools) == ("1.0", other.build_settings)


def test_what_it_is_built_with_has_a_hash_of_its_own(variant: EngineVariant, index: Index, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault) as error:
        build_variant(
            variant, tmp_path / "one", write_lock(index, "1.0").replace(index.hashes["1.0"], index.hashes["2.0"])
        )
    assert "Hash mismatch" in error.value.body.detail


def test_nothing_is_built_that_does_not_say_so(variant: EngineVariant, index: Index, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault):
        build_variant(msgspec.structs.replace(variant, builds=False), tmp_path / "one", write_lock(index, "1.0"))


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64" or not shutil.which("g++"), reason="there is no GCC that knows AMX")
def test_what_amx_is_told_is_written_down_before_it_is_told() -> None:
    header = str(ENGINES / "llama_cpp" / "amx.h")
    compiler = ("g++", "-O3", "-mamx-tile", "-S", "-o", "-", "-x", "c++", "-include", header, "-")
    compiled_code = subprocess.run(compiler, input=TILES, capture_output=True, text=True, check=True).stdout
    assert compiled_code.index("$77,") < compiled_code.index("ldtilecfg")
