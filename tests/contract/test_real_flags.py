"""Tables of options against what an installed engine really takes, recorded in `tests/fixtures/engine_help`.

A record is made from the package that the engine's lock installs: the flags that its `--help` explains, the names that
its own registries of parsers hold, and the types of KV cache its argument parser takes. A new lock needs a new record.
"""

from pathlib import Path

import msgspec
import pytest

from app.engine_store.recipe import ENGINES, read_recipe
from engines.api import Installation, LaunchOptions, ModelFormat, ModelSource, Net
from engines.flags import checked_extra
from engines.served import Served
from engines.sglang.launch import ADAPTER as SGLANG
from engines.sglang.launch import KV_TYPES as SGLANG_KV_TYPES
from engines.vllm.launch import ADAPTER as VLLM
from engines.vllm.launch import KV_TYPES as VLLM_KV_TYPES

HELP = Path(__file__).resolve().parents[1] / "fixtures" / "engine_help"
KV_TYPES = {"vllm": VLLM_KV_TYPES, "sglang": SGLANG_KV_TYPES}


class Record(msgspec.Struct, frozen=True):
    """What one version of an engine takes."""

    engine: str
    version: str
    flags: frozenset[str]
    tool_parsers: frozenset[str]
    reasoning_parsers: frozenset[str]
    kv_types: frozenset[str]


RECORDS = [msgspec.json.decode(path.read_bytes(), type=Record) for path in sorted(HELP.glob("*.json"))]
EACH = pytest.mark.parametrize("record", RECORDS, ids=lambda record: f"{record.engine}-{record.version}")
ADAPTERS: dict[str, Served] = {"vllm": VLLM, "sglang": SGLANG}


def found(record: Record) -> Installation:
    return Installation(
        engine=record.engine, version=record.version, backend="cuda", python=Path("/e/python"), flags=record.flags
    )


def test_each_engine_has_a_record_of_the_version_it_is_installed_in() -> None:
    installed = {(engine, each.version) for engine in ADAPTERS for each in read_recipe(ENGINES / engine).variants}
    assert {(record.engine, record.version) for record in RECORDS} == installed


@EACH
def test_it_has_every_flag_an_option_may_become(record: Record) -> None:
    said = {name for flag in ADAPTERS[record.engine].table.flags for name in flag.names}
    assert said <= record.flags, said - record.flags


@EACH
def test_it_has_every_flag_each_launch_begins_with(record: Record) -> None:
    model = ModelSource(name="m", path=Path("/m"), format=ModelFormat.SAFETENSORS)
    plan = ADAPTERS[record.engine].plan(model, LaunchOptions(), Net(host="127.0.0.1", port=1, key="k"), found(record))
    server = plan.processes[0].argv
    said = {word for word in server[server.index("engines.foreign_worker") :] if word.startswith("--")}
    assert said <= record.flags, said - record.flags


@EACH
def test_what_is_reserved_is_there_to_be_reserved(record: Record) -> None:
    reserved = ADAPTERS[record.engine].table.reserved
    assert reserved <= record.flags, reserved - record.flags


@EACH
def test_it_has_the_parsers_and_types_that_are_named_to_it(record: Record) -> None:
    adapter = ADAPTERS[record.engine]
    assert set(adapter.descriptor.tool_parsers.values()) <= record.tool_parsers
    assert set(KV_TYPES[record.engine].values()) <= record.kv_types


@EACH
@pytest.mark.parametrize("shown", ["--data-parallel-size", "--grpc", "--tool-server", "-m", "-sc"])
def test_what_opens_doors_or_says_an_option_in_other_words_is_refused(record: Record, shown: str) -> None:
    if shown not in record.flags:
        pytest.skip("it has none")
    if (record.engine, shown) == ("sglang", "--data-parallel-size"):
        pytest.skip("its copies share one server")
    with pytest.raises(ValueError, match="Roundhouse's to set"):
        checked_extra(ADAPTERS[record.engine].table, LaunchOptions(extra_args=(shown, "2")), found(record))
