from pathlib import Path

import pytest

from app.core.errors import Bug
from app.engine_store import lock as lock_module
from app.engine_store import recipe as recipe_module
from app.engine_store.lock import compile_argv
from app.engine_store.recipe import FILE, InstallRecipe, VariantKind, read_recipe, read_recipes
from engines.api import ModelFormat
from engines.registry import ADAPTERS

RESOURCES = Path(__file__).resolve().parents[3] / "resources" / "guide"
EVERY = pytest.mark.parametrize("recipe", read_recipes().values(), ids=lambda recipe: recipe.engine)

VENV = """
engine = "x"
[smoke]
format = "gguf"
model = "guide-q8_0.gguf"
[[variant]]
name = "cpu"
kind = "venv"
version = "1.0"
backend = "cpu"
platforms = ["linux"]
package = "x"
requires = ["x==1.0"]
download_mb = 3
"""
ARCHIVE = """
engine = "x"
[release]
repository = "a/b"
asset = "x-(?P<os>linux)"
[[variant]]
name = "cpu"
kind = "archive"
version = "1.0"
backend = "cpu"
platforms = ["linux"]
pick = { os = "linux" }
executable = "x"
"""


def read(folder: Path, text: str) -> InstallRecipe:
    (folder / FILE).write_text(text, encoding="utf-8")
    return read_recipe(folder)


@EVERY
def test_a_recipe_belongs_to_an_engine_of_the_registry(recipe: InstallRecipe) -> None:
    assert recipe.engine in ADAPTERS
    assert recipe.variants
    about = ADAPTERS[recipe.engine].descriptor
    for variant in recipe.variants:
        assert set(variant.platforms) <= about.platforms
        assert variant.backend in about.accelerators


@EVERY
def test_what_proves_an_engine_is_there_and_in_a_format_it_reads(recipe: InstallRecipe) -> None:
    if not recipe.smoke.model:
        return
    assert ModelFormat(recipe.smoke.format) in ADAPTERS[recipe.engine].descriptor.formats
    assert (RESOURCES / recipe.smoke.model).exists()


@EVERY
def test_the_lock_has_the_version_the_recipe_promises_and_only_hashed_files(recipe: InstallRecipe) -> None:
    for variant in recipe.variants:
        if variant.kind is not VariantKind.VENV:
            continue
        starts = requirements(recipe.lock_of(variant).read_text(encoding="utf-8"))
        assert any(line.split()[0] == f"{variant.package}=={variant.version}" for line in starts)
        tools = requirements(recipe.tools_of(variant))
        assert bool(tools) == variant.builds
        assert all(line.endswith("\\") for line in (*starts, *tools)), "a requirement without a hash"


def requirements(lock: str) -> list[str]:
    return [line for line in lock.splitlines() if line and not line.startswith((" ", "#", "-"))]


def test_a_recipe_is_read_with_its_sizes_in_bytes(tmp_path: Path) -> None:
    recipe = read(tmp_path, VENV)
    (variant,) = recipe.variants
    assert (recipe.engine, variant.kind, variant.download_bytes, variant.disk_bytes) == (
        "x",
        VariantKind.VENV,
        3_000_000,
        0,
    )
    assert recipe.lock_of(variant) == tmp_path / "locks" / "cpu.txt"
    assert recipe.find_variant("cpu") is variant
    assert recipe.find_variant("cuda") is None


def test_the_pattern_of_assets_is_verbose(tmp_path: Path) -> None:
    release = read(tmp_path, ARCHIVE.replace("x-(?P", "x - (?P")).release
    assert release is not None
    assert release.pattern.fullmatch("x-linux")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "engine"),
        ("engine = [", "Invalid|Expected|Unclosed|line"),
        (VENV + "colour = 'red'", "colour"),
        (VENV.replace('name = "cpu"', 'name = "../up"'), "a name is lower-case"),
        (VENV + VENV[VENV.index("[[variant]]") :], "two variants"),
        (VENV.replace('["linux"]', "[]"), "platforms"),
        (VENV.replace('package = "x"', ""), "a venv needs"),
        (VENV.replace('requires = ["x==1.0"]', ""), "a venv needs"),
        (VENV + "needs_prebuilt = true", "wants a .prebuilt."),
        (VENV.replace('"venv"', '"zip"'), "zip"),
        (ARCHIVE.replace('executable = "x"', ""), "an archive needs"),
        (ARCHIVE.replace("(?P<os>linux)", "(?P<os>linux"), "unterminated"),
        (ARCHIVE[: ARCHIVE.index("[release]")] + ARCHIVE[ARCHIVE.index("[[variant]]") :], "need a .release."),
    ],
)
def test_a_wrong_recipe_is_a_bug_that_names_the_file(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(Bug, match=problem) as error:
        read(tmp_path, text)
    assert str(tmp_path / FILE) in str(error.value)


def test_a_build_is_told_where_the_recipe_lies(tmp_path: Path) -> None:
    text = (
        VENV
        + """builds = true
[variant.build_settings]
flags = '-include "{folder}/a.h"'
"""
    )
    recipe = read(tmp_path, text)
    assert recipe.variants[0].build_settings == {"flags": f'-include "{tmp_path}/a.h"'}


def test_a_missing_recipe_is_a_bug(tmp_path: Path) -> None:
    with pytest.raises(Bug, match="cannot be used"):
        read_recipe(tmp_path)


def test_a_lock_is_made_of_wheels_alone_unless_something_is_compiled(tmp_path: Path) -> None:
    (variant,) = read(tmp_path, VENV.replace("download_mb = 3", 'index_urls = ["https://a.example/simple"]')).variants
    argv = compile_argv(Path("uv"), variant)
    assert argv[argv.index("--only-binary") + 1] == ":all:"
    assert argv[argv.index("--index") + 1] == "https://a.example/simple"
    assert "--universal" in argv
    (built_variant,) = read(tmp_path, VENV + "builds = true").variants
    here = compile_argv(Path("uv"), built_variant, python="3.12")
    assert "--only-binary" not in here
    assert "--universal" not in here
    assert here[here.index("--python-version") + 1] == "3.12"


def test_a_lock_with_the_address_of_a_file_is_made_for_its_system_and_python_alone(tmp_path: Path) -> None:
    text = VENV.replace('["x==1.0"]', '["x==1.0", "y @ https://a.example/y-1-cp312-cp312-win_amd64.whl"]')
    (variant,) = read(tmp_path, text.replace('"linux"', '"win32"') + 'python = ">=3.12,<3.13"\n').variants
    argv = compile_argv(Path("uv"), variant)
    assert "--universal" not in argv
    assert argv[argv.index("--python-platform") + 1] == "x86_64-pc-windows-msvc"
    assert argv[argv.index("--python-version") + 1] == "3.12"


def test_a_build_is_told_its_compiler_where_that_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = VENV + 'builds = true\ntoolkit = "cuda"\n[variant.build_settings]\ncc = "{compiler}"\nother = "{folder}"\n'
    monkeypatch.setattr(recipe_module, "find_toolkits", lambda: {"cuda": "/opt/cuda/bin/nvcc"})
    assert read(tmp_path, text).variants[0].build_settings == {"cc": "/opt/cuda/bin/nvcc", "other": str(tmp_path)}
    monkeypatch.setattr(recipe_module, "find_toolkits", dict)
    assert read(tmp_path, text).variants[0].build_settings["cc"] == ""


def test_what_a_build_needs_is_locked_beside_what_is_built_and_a_shared_lock_is_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built_text = VENV.replace('name = "cpu"', 'name = "native"') + 'builds = true\nbuild_requires = ["cmake"]\n'
    shared_text = VENV[VENV.index("[[variant]]") :].replace('name = "cpu"', 'name = "other"') + 'lock = "native"\n'
    plain = VENV[VENV.index("[[variant]]") :]
    recipe = read(tmp_path, built_text + shared_text + plain)
    monkeypatch.setattr(lock_module, "read_recipes", lambda: {"x": recipe})
    monkeypatch.setattr(lock_module, "compile_lock", lambda _argv, requires: " ".join(requires))
    monkeypatch.setattr(lock_module, "uv_program", lambda: Path("uv"))
    assert lock_module.main(["another"]) == 0
    assert not (tmp_path / "locks").exists()
    assert lock_module.main([]) == 0
    assert {path.name: path.read_text() for path in (tmp_path / "locks").iterdir()} == {
        "native.txt": "x==1.0",
        "native.build.txt": "cmake",
        "cpu.txt": "x==1.0",
    }
    monkeypatch.setattr(lock_module, "uv_program", lambda: None)
    assert lock_module.main([]) == 1
