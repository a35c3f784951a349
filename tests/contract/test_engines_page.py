"""Every engine that was promised is there, says what of it ran for real, and stands in `docs/engines.md` as it is."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from app.engine_store.recipe import recipes
from engines.api import Adapter, Family
from engines.registry import ADAPTERS

DOCS = Path(__file__).resolve().parents[2] / "docs"
RAN, NEVER = "Run for real ", "Never run "
SYSTEMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
RUNS_HERE = ("llama.cpp", "mlx-lm", "mlx-vlm", "openvino", "onnxruntime-genai", "attached")
CANNOT_RUN_HERE = (
    *("exllamav2", "exllamav3", "vllm", "sglang", "lmdeploy", "tensorrt-llm", "tgi", "mlc-llm", "dynamo"),
)
RECIPES = recipes()


def ran(adapter: Adapter) -> str:
    said = adapter.descriptor.verified
    return said.removeprefix(RAN).partition(":")[0].rstrip(".") if said.startswith(RAN) else "never; played"


def systems(platforms: Iterable[str]) -> str:
    return ", ".join(name for key, name in SYSTEMS.items() if key in platforms)


def comes(engine: str, family: Family, platforms: frozenset[str]) -> str:
    if engine in RECIPES:
        variants = RECIPES[engine].variants
        names = ", ".join(f"`{variant.name}`" for variant in variants)
        there = {platform for variant in variants for platform in variant.platforms}
        return f"`engines install`: {names}{'' if there == platforms else f', on {systems(there)} alone'}"
    if family is Family.EXTERNAL:
        return "`roundhouse attach`"
    return "its image, if it is here" if family is Family.CONTAINER else "not by Roundhouse"


def row(adapter: Adapter) -> str:
    about = adapter.descriptor
    formats = ", ".join(sorted(kind.value for kind in about.formats))
    name = f"{about.name} (`{about.id}`{', legacy' if about.legacy else ''})"
    how = comes(about.id, about.family, about.platforms)
    return f"| {name} | {formats} | {systems(about.platforms)} | {how} | {ran(adapter)} |"


@pytest.mark.parametrize("engine", RUNS_HERE)
def test_what_runs_on_a_processor_says_how_it_ran_for_real(engine: str) -> None:
    about = ADAPTERS[engine].descriptor
    assert about.verified.startswith(RAN)
    assert "ot run " in about.unverified, "and what of it did not"


@pytest.mark.parametrize("engine", CANNOT_RUN_HERE)
def test_what_never_ran_says_so_first(engine: str) -> None:
    about = ADAPTERS[engine].descriptor
    assert about.unverified.startswith(NEVER)
    assert not about.verified.startswith(RAN)


def test_no_engine_is_left_out() -> None:
    assert {*RUNS_HERE, *CANNOT_RUN_HERE} == set(ADAPTERS)


def test_the_page_lists_every_engine_as_its_descriptor_and_recipe_have_it() -> None:
    page = (DOCS / "engines.md").read_text(encoding="utf-8").splitlines()
    missing = [row(adapter) for adapter in ADAPTERS.values() if row(adapter) not in page]
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("name", ["libraries", "options", "failures"])
def test_it_leads_to_the_others(name: str) -> None:
    assert f"({name}.md)" in (DOCS / "engines.md").read_text(encoding="utf-8")
    assert (DOCS / f"{name}.md").exists()
