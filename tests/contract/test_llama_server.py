"""llama.cpp as a program: what it is started with, by which flags its build has. The help text is that of b10434."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engines.api import (
    Draft,
    EngineInstallation,
    EngineLocation,
    Failure,
    FailureKind,
    LaunchOptions,
    LaunchPlan,
    ListenOptions,
    LoadProgress,
    ModelFormat,
    ModelSource,
    Suspicion,
)
from engines.flags import flags_in
from engines.llama_cpp import binary
from engines.llama_cpp.launch import ADAPTER, ask_devices
from engines.program_probe import answer_of

PROGRAM = Path("/opt/llama/llama-server")
FLAGS = flags_in((Path(__file__).parent / "recorded" / "llama_server_help.txt").read_text(encoding="utf-8"))
HERE = EngineInstallation(engine="llama.cpp", version="b10434", backend="vulkan", executable=PROGRAM, flags=FLAGS)
MODEL = ModelSource(name="tiny", path=Path("/models/tiny.gguf"), format=ModelFormat.GGUF)
NET = ListenOptions(host="127.0.0.1", port=50_001, key="secret")
GOLDEN = Path(__file__).parent / "golden" / "llama-server.txt"


def plan(installation: EngineInstallation = HERE, **options: Any) -> LaunchPlan:  # noqa: ANN401 -- any field of the options
    return ADAPTER.plan(MODEL, LaunchOptions(**options), NET, installation)


def command_line(**options: Any) -> str:  # noqa: ANN401 -- any field of the options
    return " ".join(plan(**options).processes[0].argv)


PLAIN: dict[str, Any] = {}
EMBED: dict[str, Any] = {"task": "embed", "context": 512}
RICH: dict[str, Any] = {
    "context": 4096,
    "slots": 2,
    "threads": 6,
    "gpu_layers": 20,
    "device_ids": ("Vulkan0", "Vulkan1"),
    "split_ratio": (3.0, 1.0),
    "kv_type": "q8_0",
    "flash_attention": True,
    "cpu_moe_layers": 4,
    "draft": Draft(path=Path("/models/draft.gguf"), tokens=8),
    "lora": (Path("/models/tone.gguf"),),
    "projector": Path("/models/mmproj.gguf"),
    "chat_template": "{{ messages }}",
    "max_batch_tokens": 1024,
    "prefix_cache": False,
}


def test_the_command_line_is_as_it_was_reviewed() -> None:
    lines = [" ".join(plan(**options).processes[0].argv) for options in (PLAIN, RICH, EMBED)]
    assert "\n".join(lines) + "\n" == GOLDEN.read_text(encoding="utf-8")


def test_embedding_slots_have_a_context_each_in_the_cache_they_share() -> None:
    def argv(flags: frozenset[str]) -> Sequence[str]:
        installation = msgspec.structs.replace(HERE, flags=flags)
        return plan(installation, **{**EMBED, "slots": 4}).processes[0].argv

    newer, older = argv(FLAGS | {"--kv-unified-per-slot"}), argv(FLAGS)
    for words in (newer, older):
        assert words[words.index("--ctx-size") + 1] == "2048"
        assert "--kv-unified" in words
    assert newer[newer.index("--kv-unified-per-slot") + 1] == "512"
    assert "--kv-unified-per-slot" not in older


def test_every_flag_it_is_started_with_is_one_the_build_has() -> None:
    words = plan(**RICH).processes[0].argv
    assert {word for word in words if word.startswith("--")} <= FLAGS


def test_n_grams_are_short_as_measured() -> None:
    words = plan(draft=Draft(kind="ngram", tokens=3)).processes[0].argv
    begin = words.index("--spec-type")
    sizes = ("--spec-ngram-simple-size-n", "6", "--spec-ngram-simple-size-m", "8")
    assert words[begin : begin + 6] == ("--spec-type", "ngram-simple", *sizes)
    assert {word for word in words if word.startswith("--")} <= FLAGS


def test_an_older_build_is_started_with_less_and_without_what_it_lacks() -> None:
    old = EngineInstallation(
        engine="llama.cpp", version="b1", backend="cpu", executable=PROGRAM, flags=frozenset({"--ctx-size"})
    )
    argv = plan(old, context=512).processes[0].argv
    assert "--offline" not in argv
    with pytest.raises(ValueError, match="b1 has no --cache-type-k, so the type of the KV cache cannot be set"):
        plan(old, kv_type="q8_0")


def test_a_newer_build_writes_its_log_as_json_and_we_read_it() -> None:
    new = EngineInstallation(
        engine="llama.cpp", version="b9", backend="cpu", executable=PROGRAM, flags=FLAGS | {"--log-jsonl"}
    )
    assert "--log-jsonl" in plan(new).processes[0].argv
    line = json.dumps(
        {"type": "log", "time": 1, "level": "E", "msg": "error loading model: unknown model architecture: 'x'"}
    )
    assert [type(event) for event in ADAPTER.read_log(line)] == [Suspicion]
    line = json.dumps(
        {"type": "log", "time": 1, "level": "W", "msg": "warning: failed to mlock: Cannot allocate memory"}
    )
    assert not ADAPTER.read_log(line)
    line = json.dumps(
        {"type": "log", "time": 1, "level": "I", "msg": "load_tensors: loading model tensors, this can take"}
    )
    assert ADAPTER.read_log(line) == [LoadProgress(stage="Reading weights")]
    assert not list(ADAPTER.read_log('{"type": 5}'))


def test_the_key_travels_in_the_environment_and_the_lifeline_is_its_standard_input() -> None:
    (server,) = plan().processes
    assert server.secrets == {"LLAMA_API_KEY": "secret"}
    assert "secret" not in " ".join(server.argv)
    assert server.stdin_lifeline


@pytest.mark.parametrize(
    "options",
    [
        {"extra_args": ("--tools", "all")},
        {"extra_args": ("--agent",)},
        {"extra_args": ("-hf", "somebody/model")},
        {"extra_args": ("--rpc", "10.0.0.1:1")},
        {"extra_args": ("--models-preset", "x.ini")},
        {"extra_args": ("--mcp-servers-json", "{}")},
        {"extra_args": ("--host", "198.51.100.1")},
        {"extra_args": ("--no-such-flag",)},
        {"extra_args": ("-c", "1")},
        {"extra_env": {"LLAMA_ARG_HOST": "198.51.100.1"}},
        {"extra_env": {"LLAMA_ARG_TOOLS": "all"}},
        {"extra_env": {"LLAMA_ARG_AGENT": "1"}},
        {"extra_env": {"LLAMA_ARG_MCP_SERVERS_CONFIG": "/x.json"}},
        {"extra_env": {"LLAMA_ARG_RPC": "198.51.100.1:1"}},
        {"extra_env": {"llama_arg_rpc": "198.51.100.1:1"}},
        {"kv_type": "q3_k"},
        {"kv_type": "q8_0", "flash_attention": False},
        {"draft": Draft(kind="dance")},
        {"tensor_parallel": 2},
        {"gpu_memory_fraction": 0.5},
        {"trust_remote_code": True},
        {"tool_parser": "hermes"},
        {"reasoning_parser": "qwen3"},
    ],
    ids=str,
)
def test_what_it_cannot_honour_is_refused_with_a_sentence(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        plan(**options)


def test_flags_that_only_look_like_reserved_ones_are_passed_on() -> None:
    assert command_line(extra_args=("-mg", "1")).endswith(" -mg 1")


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
def test_a_program_is_asked_what_it_is(tmp_path: Path) -> None:
    program = tmp_path / "llama-server"
    program.write_text(
        """#!/bin/sh
case "$1" in
  --version) echo "version: 11549 (7e4c0a9)" >&2 ;;
  --list-devices) echo "Available devices:"; echo "  CUDA0: NVIDIA RTX 4090 (24217 MiB, 23894 MiB free)" ;;
  --help) echo "-c, --ctx-size N   size"; echo "-m, --model FILE   model"; echo "--port N   port" ;;
esac
""",
        encoding="utf-8",
    )
    program.chmod(0o755)
    installation = ADAPTER.probe(EngineLocation(folder=tmp_path, version="", backend="cuda", executable=program))
    assert isinstance(installation, EngineInstallation)
    assert (installation.version, installation.flags) == (
        "b11549",
        frozenset({"-c", "--ctx-size", "-m", "--model", "--port"}),
    )
    assert ask_devices(installation) == ("CUDA0: NVIDIA RTX 4090 (24217 MiB, 23894 MiB free)",)
    assert list(tmp_path.iterdir()) == [program], "nothing is written beside a person's own program"


def test_a_build_without_devices_names_none(tmp_path: Path) -> None:
    assert binary.devices_of(tmp_path / "gone") == ()


BROKEN = {
    "elf": ("not an engine", FailureKind.NOT_INSTALLED, "is not a llama-server"),
    "other": ("#!/bin/sh\necho '--all --color'", FailureKind.NOT_INSTALLED, "is not a llama-server"),
    "killed": ("#!/bin/sh\nkill -ILL $$", FailureKind.ILLEGAL_INSTRUCTION, "lacks an instruction"),
    "lacking": (
        "#!/bin/sh\necho 'loading shared libraries: libgomp.so.1: cannot open shared object file'; exit 127",
        FailureKind.MISSING_LIBRARY,
        "A library that llama.cpp needs",
    ),
}


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins are shell scripts")
@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_is_no_llama_server_is_refused_as_such(name: str, tmp_path: Path) -> None:
    text, kind, sentence = BROKEN[name]
    program = tmp_path / name
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    failure = ADAPTER.probe(EngineLocation(folder=tmp_path, version="", backend="", executable=program))
    assert isinstance(failure, Failure)
    assert (failure.kind, sentence in failure.sentence) == (kind, True), failure


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
def test_a_program_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "llama-server"
    program.write_text("#!/bin/sh\nsleep 600", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(binary, "answer_of", lambda command: answer_of(command, 0.2))
    failure = ADAPTER.probe(EngineLocation(folder=tmp_path, version="", backend="", executable=program))
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.STALLED
