"""Dynamo's and LMDeploy's tables against the flags and parsers of real installations, as recorded in `fixtures`.

`flags/<engine>-<version>.txt` is what `flags_of` made of the help of that version, installed from the committed lock.
Dynamo's worker gives its help only where vLLM finds a GPU; it was recorded with vLLM told that there is one.
"""

from pathlib import Path

import pytest

from app.engine_store.recipe import ENGINES, read_recipe
from engines.api import Descriptor, Draft, Installation, LaunchOptions, LaunchPlan, ModelFormat, ModelSource, Net
from engines.dynamo.descriptor import DESCRIPTOR as DYNAMO_IS
from engines.dynamo.launch import TABLE as DYNAMO_TABLE
from engines.flags import Table
from engines.lmdeploy.descriptor import DESCRIPTOR as LMDEPLOY_IS
from engines.lmdeploy.launch import TABLE as LMDEPLOY_TABLE
from engines.parsers import Calls
from engines.registry import ADAPTERS

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
RECORDED = {"dynamo": "1.6.0", "lmdeploy": "0.18.0"}
MODEL = ModelSource(name="m", path=Path("/models/m"), format=ModelFormat.SAFETENSORS)
NET = Net(host="127.0.0.1", port=50_001, key="secret")
READ_BY_DYNAMO = frozenset(
    {Calls.HERMES, Calls.QWEN_CODER, Calls.GLM_47, Calls.LLAMA_3, Calls.DEEPSEEK_V3, Calls.DEEPSEEK_V31}
    | {Calls.DEEPSEEK_V32, Calls.KIMI_K2, Calls.MINIMAX_M2, Calls.GEMMA_4}
)
"""What its frontend 1.6.0 was seen to read, whole and streamed, from a worker that wrote one call in that form."""


def recorded(folder: str, name: str) -> frozenset[str]:
    return frozenset((FIXTURES / folder / f"{name}.txt").read_text(encoding="utf-8").split())


def found(engine: str) -> Installation:
    flags = recorded("flags", f"{engine}-{RECORDED[engine]}")
    return Installation(
        engine=engine, version=RECORDED[engine], backend="cuda", python=Path("/e/bin/python"), flags=flags
    )


def said_of(engine: str, **options: object) -> LaunchPlan:
    asked = LaunchOptions(**options)  # type: ignore[arg-type]  # the test knows which it names
    return ADAPTERS[engine].plan(MODEL, asked, NET, found(engine))


@pytest.mark.parametrize("engine", RECORDED)
def test_what_was_recorded_is_what_is_installed(engine: str) -> None:
    (variant,) = read_recipe(ENGINES / engine).variants
    assert variant.version == RECORDED[engine]


@pytest.mark.parametrize(("engine", "table"), [("dynamo", DYNAMO_TABLE), ("lmdeploy", LMDEPLOY_TABLE)])
def test_every_flag_of_the_table_is_there(engine: str, table: Table) -> None:
    named = {name for flag in table.flags for name in flag.names}
    assert named <= found(engine).flags


@pytest.mark.parametrize("engine", RECORDED)
def test_what_a_plan_says_is_there_too(engine: str) -> None:
    plan = said_of(engine, context=8192, slots=4, tool_parser="x", draft=Draft(path=Path("/d"), kind="eagle3"))
    flags = found(engine).flags | recorded("flags", "dynamo-frontend-1.6.0")
    for process in plan.processes:
        said = process.argv[4:] if engine == "dynamo" else process.argv[5:]
        assert {word for word in said if word.startswith("--")} <= flags
    assert not plan.left_out


@pytest.mark.parametrize("about", [DYNAMO_IS, LMDEPLOY_IS], ids=lambda about: about.id)
def test_its_parsers_of_tool_calls_have_these_names(about: Descriptor) -> None:
    names = recorded("parsers", f"{about.id}-{RECORDED[about.id]}-tool-call")
    assert about.tool_parsers
    assert set(about.tool_parsers.values()) <= names


def test_dynamo_is_given_no_parser_that_was_not_seen_to_read() -> None:
    assert set(DYNAMO_IS.tool_parsers) == READ_BY_DYNAMO


@pytest.mark.parametrize(
    "options", [{"draft": Draft(path=Path("/d"), kind="eagle3")}, {"lora": (Path("/models/tone"),)}], ids=list
)
def test_lmdeploy_takes_the_engine_that_heeds_drafts_and_adapters(options: dict[str, object]) -> None:
    argv = said_of("lmdeploy", **options).processes[0].argv
    assert argv[argv.index("--backend") + 1] == "pytorch"
    assert "--backend" not in said_of("lmdeploy").processes[0].argv
