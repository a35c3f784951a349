"""What a program that makes an engine's environment is told."""

import sys
from pathlib import Path

import pytest

from app.engine_store.running import run

SHOW = "import os; print(os.environ.get('UV_CACHE_DIR'), os.environ.get('UV_PYTHON_INSTALL_DIR'))"


async def told(stage: Path) -> str:
    lines: list[str] = []
    await run([sys.executable, "-c", SHOW], stage=stage, hear=lines.append, env={})
    return lines[0]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("UV_CACHE_DIR", raising=False)
    monkeypatch.delenv("UV_PYTHON_INSTALL_DIR", raising=False)
    made = tmp_path / "engines/.stage/one"
    made.mkdir(parents=True)
    return made


async def test_a_checkout_leaves_uv_to_its_owner(stage: Path) -> None:
    assert await told(stage) == "None None"


async def test_a_frozen_application_keeps_what_uv_keeps_among_the_engines(
    stage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    engines = stage.parents[1]
    assert await told(stage) == f"{engines / '.cache'} {engines / '.python'}"


async def test_a_place_that_a_person_named_counts(stage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setenv("UV_CACHE_DIR", "/theirs")
    assert (await told(stage)).split()[0] == "/theirs"
