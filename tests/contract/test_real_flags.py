"""Tables of options against what an installed engine really takes, recorded in `tests/fixtures/engine_help`.

A record is made from the package that the engine's lock installs: the flags that its `--help` explains, the names that
its own registries of parsers hold, and the types of KV cache its argument parser takes. A new lock needs a new record.
Dynamo's worker gives its help only where vLLM finds a GPU; it was recorded with vLLM told that there is one.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.engine_store.recipe import ENGINES, read_recipe
from engines.api import Draft, EngineInstallation, LaunchOptions, ListenOptions, ModelFormat, ModelSource
from engines.dynamo.launch import TABLE as DYNAMO
from engines.flags import check_extra_arguments
from engines.lmdeploy.launch import TABLE as LMDEPLOY
from engines.parsers import ToolCallFormat
from engines.registry import ADAPTERS
from engines.sglang.launch import KV_TYPES as SGLANG_KV_TYPES
from engines.sglang.launch import TABLE as SGLANG
from engines.vllm.launch import KV_TYPES as VLLM_KV_TYPES
from engines.vllm.launch import TABLE as VLLM

HELP = Path(__file__).resolve().parents[1] / "fixtures" / "engine_help"
KV_TYPES = {"vllm": VLLM_KV_TYPES, "sglang": SGLANG_KV_TYPES}


class Record(msgspec.Struct, frozen=True):
    """What one version of an engine takes."""

    engine: str
    version: str
    flags: frozenset[str]
    tool_parsers: frozenset[str]
    reasoning_parsers: frozenset[str]
    kv_types: frozenset[str] = frozenset()
    frontend_flags: frozenset[str] = frozenset()
    """Of the second program, where there are two."""


RECORDS = [msgspec.json.decode(path.read_bytes(), type=Record) for path in sorted(HELP.glob("*.json"))]
EACH = pytest.mark.parametrize("record", RECORDS, ids=lambda record: f"{record.engine}-{record.version}")
TABLES = {"vllm": VLLM, "sglang": SGLANG, "lmdeploy": LMDEPLOY, "dynamo": DYNAMO}
MODEL = ModelSource(name="m", path=Path("/m"), format=ModelFormat.SAFETENSORS)
NET = ListenOptions(host="127.0.0.1", port=1, key="k")


def installation_of(record: Record) -> EngineInstallation:
    return EngineInstallation(
        engine=record.engine, version=record.version, backend="cuda", python=Path("/e/python"), flags=record.flags
    )


def test_each_engine_has_a_record_of_the_version_it_is_installed_in() -> None:
    installed_versions = {
        (engine, each.version) for engine in TABLES for each in read_recipe(ENGINES / engine).variants
    }
    assert {(record.engine, record.version) for record in RECORDS} == installed_versions


@EACH
def test_it_has_every_flag_an_option_may_become(record: Record) -> None:
    rows = TABLES[record.engine].flags
    named_flags = [(name, flag.renamed.get(name, name)) for flag in rows for name in flag.names]
    flags = {name if name in record.flags else newer for name, newer in named_flags}
    assert flags <= record.flags, flags - record.flags


@EACH
def test_it_has_every_flag_that_launches_say(record: Record) -> None:
    launch_options = LaunchOptions(context=8192, slots=4, tool_parser="x", draft=Draft(path=Path("/d"), kind="eagle3"))
    for options in (LaunchOptions(), launch_options):
        plan = ADAPTERS[record.engine].plan(MODEL, options, NET, installation_of(record))
        words = {word for process in plan.processes for word in process.argv[3:] if word.startswith("--")}
        assert words <= record.flags | record.frontend_flags
        assert not plan.left_out


@EACH
def test_what_is_reserved_is_there_to_be_reserved(record: Record) -> None:
    if record.engine == "dynamo":
        pytest.skip("it has vLLM's list, of which its worker takes a part")
    reserved_names = TABLES[record.engine].reserved
    assert reserved_names <= record.flags, reserved_names - record.flags


@EACH
def test_it_has_the_parsers_and_types_that_are_named_to_it(record: Record) -> None:
    named_parsers = ADAPTERS[record.engine].descriptor.tool_parsers
    assert named_parsers
    assert set(named_parsers.values()) <= record.tool_parsers
    assert set(KV_TYPES.get(record.engine, {}).values()) <= record.kv_types


@EACH
@pytest.mark.parametrize("flag", ["--data-parallel-size", "--grpc", "--tool-server", "-m", "-sc"])
def test_what_opens_doors_or_says_an_option_in_other_words_is_refused(record: Record, flag: str) -> None:
    if flag not in record.flags:
        pytest.skip("it has none")
    if (record.engine, flag) == ("sglang", "--data-parallel-size"):
        pytest.skip("its copies share one server")
    with pytest.raises(ValueError, match="Roundhouse's to set"):
        check_extra_arguments(TABLES[record.engine], LaunchOptions(extra_args=(flag, "2")), installation_of(record))


READ_BY_DYNAMO = frozenset(
    {
        ToolCallFormat.HERMES,
        ToolCallFormat.QWEN_CODER,
        ToolCallFormat.GLM_47,
        ToolCallFormat.LLAMA_3,
        ToolCallFormat.DEEPSEEK_V3,
        ToolCallFormat.DEEPSEEK_V31,
    }
    | {ToolCallFormat.DEEPSEEK_V32, ToolCallFormat.KIMI_K2, ToolCallFormat.MINIMAX_M2, ToolCallFormat.GEMMA_4}
)
"""What its frontend 1.6.0 was seen to read, whole and streamed, from a worker that wrote one call in that form."""


def test_dynamo_is_given_no_parser_that_was_not_seen_to_read() -> None:
    assert set(ADAPTERS["dynamo"].descriptor.tool_parsers) == READ_BY_DYNAMO


@pytest.mark.parametrize(
    "options", [{"draft": Draft(path=Path("/d"), kind="eagle3")}, {"lora": (Path("/models/tone"),)}], ids=list
)
def test_lmdeploy_takes_the_engine_that_heeds_drafts_and_adapters(options: dict[str, Any]) -> None:
    record = next(entry for entry in RECORDS if entry.engine == "lmdeploy")
    adapter = ADAPTERS["lmdeploy"]
    argv = adapter.plan(MODEL, LaunchOptions(**options), NET, installation_of(record)).processes[0].argv
    assert argv[argv.index("--backend") + 1] == "pytorch"
    assert "--backend" not in adapter.plan(MODEL, LaunchOptions(), NET, installation_of(record)).processes[0].argv


def test_vllm_is_told_not_to_keep_prompts_as_its_version_calls_it() -> None:
    (record,) = (record for record in RECORDS if record.engine == "vllm")
    (process,) = ADAPTERS["vllm"].plan(MODEL, LaunchOptions(prefix_cache=False), NET, installation_of(record)).processes
    assert "--disable-prefix-caching" in process.argv
    before = msgspec.structs.replace(installation_of(record), flags=frozenset({"--no-enable-prefix-caching"}))
    (process,) = ADAPTERS["vllm"].plan(MODEL, LaunchOptions(prefix_cache=False), NET, before).processes
    assert "--no-enable-prefix-caching" in process.argv
    with pytest.raises(ValueError, match="is Roundhouse's to set"):
        check_extra_arguments(VLLM, LaunchOptions(extra_args=("--disable-prefix-caching",)), installation_of(record))


TRACED = LaunchOptions(traces_url="http://127.0.0.1:4318/v1/traces")


@pytest.mark.parametrize("record", [record for record in RECORDS if ADAPTERS[record.engine].descriptor.traces_flag])
def test_traces_of_its_own_go_where_roundhouse_sends_its_own(record: Record) -> None:
    adapter = ADAPTERS[record.engine]
    plan = adapter.plan(MODEL, TRACED, NET, installation_of(record))
    worker = plan.processes[-1]
    at = worker.argv.index("--otlp-traces-endpoint")
    assert worker.argv[at + 1] == TRACED.traces_url
    assert worker.env["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] == "http/protobuf"
    assert worker.env["OTEL_SERVICE_NAME"] == record.engine
    assert plan.left_out == ()


@pytest.mark.parametrize("engine", ["vllm", "dynamo"])
def test_a_version_without_the_flag_runs_without_and_says_so(engine: str) -> None:
    record = next(record for record in RECORDS if record.engine == engine)
    older = msgspec.structs.replace(installation_of(record), flags=record.flags - {"--otlp-traces-endpoint"})
    plan = ADAPTERS[engine].plan(MODEL, TRACED, NET, older)
    assert "--otlp-traces-endpoint" not in plan.processes[-1].argv
    (left_out,) = plan.left_out
    assert left_out.option == "traces_url"
    assert record.version in left_out.sentence


def test_a_collector_that_a_person_names_for_an_engine_counts() -> None:
    record = next(record for record in RECORDS if record.engine == "vllm")
    own = msgspec.structs.replace(TRACED, extra_args=("--otlp-traces-endpoint=http://elsewhere:4318/v1/traces",))
    argv = ADAPTERS["vllm"].plan(MODEL, own, NET, installation_of(record)).processes[-1].argv
    assert [word for word in argv if word.startswith("--otlp-traces-endpoint")] == list(own.extra_args)
