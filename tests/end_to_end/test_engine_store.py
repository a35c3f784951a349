"""Engines of the package index, installed for real by the command line; needs the index or a cache that has them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.config.paths import Paths
from tests.end_to_end.conftest import Roundhouse

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]

OTHER = "2026.9.11063"
"""An older xllamacpp whose parameters our worker cannot set: a bad update as they really come."""


COMPILING_S = 1700
"""A compiler on two busy cores."""


def run_engines(roundhouse: Roundhouse, *arguments: str, within_s: float = 90) -> Any:  # noqa: ANN401 -- any JSON
    result = roundhouse("engines", *arguments, "--json", within_s=within_s)
    return json.loads(result.stdout)


def versions(roundhouse: Roundhouse, engine: str) -> dict[str, Any]:
    return {version["name"]: version for version in run_engines(roundhouse, "list", engine)["engines"][0]["versions"]}


@pytest.fixture(autouse=True)
def nothing_installed(roundhouse: Roundhouse) -> None:
    """Begin with what came with Roundhouse, whatever the tests before left."""
    roundhouse("engines", "cancel")
    roundhouse("unload", "guide")
    roundhouse("engines", "use", "llama.cpp", "bundled")
    for engine in ("llama.cpp", "openvino", "onnxruntime-genai", "mlx-lm"):
        for name in set(versions(roundhouse, engine)) - {"bundled"}:
            assert roundhouse("engines", "remove", engine, name).returncode == 0


def test_a_second_llama_cpp_is_installed_proved_used_and_removed(roundhouse: Roundhouse, home: Paths) -> None:
    job = run_engines(roundhouse, "install", "llama.cpp", "--variant", "cpu")["job"]
    assert job["proofs"][0]["text"].startswith("Roundhouse is a desktop app")
    assert job["proofs"][0]["tokens_per_s"] > 0
    name = job["version"]
    here = versions(roundhouse, "llama.cpp")
    assert here[name]["is_current"]
    assert here["bundled"]["is_previous"]
    assert "Guide" in roundhouse("run", "guide", "--temperature", "0", "hello").stdout
    assert roundhouse("engines", "remove", "llama.cpp", name).returncode == 2, "a model runs on it"

    refusal = roundhouse(
        "engines", "install", "llama.cpp", "--variant", "cpu", "--channel", "latest", "--version", OTHER
    )
    assert refusal.returncode == 1
    assert "its test failed" in refusal.stderr
    assert versions(roundhouse, "llama.cpp")[name]["is_current"]
    assert "Guide" in roundhouse("run", "guide", "--temperature", "0", "hello").stdout

    assert "bundled is in use" in roundhouse("engines", "rollback", "llama.cpp").stdout
    assert "Guide" in roundhouse("run", "guide", "--temperature", "0", "hello").stdout
    assert "freed" in roundhouse("engines", "remove", "llama.cpp", name).stdout
    assert not (home.data / "engines" / "llama.cpp" / name).exists()


FAULTS = {
    "crashed": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "illegal_instruction": "import os, signal; os.kill(os.getpid(), signal.SIGILL)",
    "missing_library": "raise ImportError('libllama.so: cannot open shared object file: No such file or directory')",
    "stalled": "import time; time.sleep(600)",
}
"""What the library does as it is loaded, by what that is to be called."""


@contextmanager
def break_library(version: Path, package: str, fault: str) -> Iterator[None]:
    """Put something before a library's own code. A start-up file in the environment would be refused as foreign."""
    (module,) = version.glob(f"venv/lib/python*/site-packages/{package}/__init__.py")
    text = module.read_text(encoding="utf-8")
    module.write_text(f"{fault}\n{text}", encoding="utf-8")
    yield
    module.write_text(text, encoding="utf-8")


def test_a_version_that_breaks_is_named_and_left_by_its_test(roundhouse: Roundhouse, home: Paths) -> None:
    name = run_engines(roundhouse, "install", "llama.cpp", "--variant", "cpu")["job"]["version"]
    for code, fault in FAULTS.items():
        with break_library(home.data / "engines" / "llama.cpp" / name, "xllamacpp", fault):
            error = run_engines(roundhouse, "test", "llama.cpp", name)["error"]
            assert (error["code"], "failed its test" in error["sentence"]) == (code, True), error
            assert versions(roundhouse, "llama.cpp")["bundled"]["is_current"]
        assert run_engines(roundhouse, "test", "llama.cpp", name)["job"]["proofs"][0]["code"] == ""
        assert roundhouse("engines", "use", "llama.cpp", name).returncode == 0
    roundhouse("engines", "rollback", "llama.cpp")
    roundhouse("engines", "remove", "llama.cpp", name)


@pytest.mark.timeout(1800)
def test_llama_cpp_is_compiled_for_this_processor_and_given_up_where_it_crashes(
    roundhouse: Roundhouse, home: Paths
) -> None:
    job = run_engines(roundhouse, "install", "llama.cpp", "--variant", "native", within_s=COMPILING_S)["job"]
    name = job["version"]
    assert name.endswith("-native")
    assert job["proofs"][0]["text"].startswith("Roundhouse is a desktop app")
    assert "Guide" in roundhouse("run", "guide", "--temperature", "0", "hello").stdout
    assert name.partition("-")[0] in roundhouse("ps").stdout

    roundhouse("unload", "guide")
    # As AMX did before it was compiled with care: a kernel that crashes as the library is loaded.
    with break_library(home.data / "engines" / "llama.cpp" / name, "llama_cpp", FAULTS["crashed"]):
        assert "Guide" in roundhouse("run", "guide", "--temperature", "0", "hello").stdout, (
            "the previous version answers, and nobody had to ask"
        )
        here = versions(roundhouse, "llama.cpp")
        assert (here["bundled"]["is_current"], bool(here[name]["problem"])) == (True, True)

        assert run_engines(roundhouse, "test", "llama.cpp", name)["error"]["code"] == "crashed"
        assert versions(roundhouse, "llama.cpp")["bundled"]["is_current"]
    roundhouse("engines", "remove", "llama.cpp", name)


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime-genai", "mlx-lm"])
def test_an_engine_is_installed_and_writes_what_the_guide_says(roundhouse: Roundhouse, engine: str) -> None:
    job = run_engines(roundhouse, "install", engine)["job"]
    assert job["proofs"][0]["text"].startswith("Roundhouse is a desktop app")


def test_a_bundle_installs_llama_cpp_again(roundhouse: Roundhouse, tmp_path: Path) -> None:
    file = tmp_path / "llama.bundle"
    assert roundhouse("engines", "bundle", "llama.cpp", str(file), "--variant", "cpu").returncode == 0
    assert file.stat().st_size > 10_000_000
    job = run_engines(roundhouse, "install", "--from", str(file))["job"]
    assert job["proofs"][0]["text"].startswith("Roundhouse is a desktop app")
