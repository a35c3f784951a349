"""A model's own code, its parsers and further arguments: set for one model, told its engine, shown, and refused."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from app.config.paths import Paths
from app.core.benchmarks import StartTune
from app.core.engines import EngineInfo
from app.core.errors import EngineFailed
from app.core.events import ModelsChanged
from app.core.models import ModelSettings
from app.gateway.benchmarking.self_tuning import SelfTuning
from app.gateway.exchange.capability_fallback import running_descriptor
from app.gateway.loading.launch import UNCHOSEN, find_model, launch_options, resolve_model
from app.gateway.services import Services
from engines.api import EngineInstallation, Feature, LaunchOptions
from engines.registry import ADAPTERS as REAL
from tests.gateway.loading.over_models import over
from tests.gateway.loading.test_tuned import Admin
from tests.gateway.played import Gateway, ListedEngines
from tests.gguf_files import TinyLlama

GUIDE = Path(__file__).resolve().parents[3] / "resources" / "guide" / "hf"
HERMES = "{% for m in messages %}{{ m.content }}{% endfor %}{{ '<tool_call>' }}"
USED = ("llama.cpp", "vllm", "sglang", "mlc-llm", "tgi")


class Catalogue(ListedEngines):
    """vLLM for folders and llama.cpp for files; MLC LLM is there too."""

    def list_engines(self) -> list[EngineInfo]:
        common: dict[str, Any] = {"licence": "", "homepage": "", "installed": True}
        others: dict[str, Any] = {**common, "installed": False}
        return [
            EngineInfo(id="llama.cpp", name="llama.cpp", formats=["gguf"], **common),
            EngineInfo(id="vllm", name="vLLM", formats=["safetensors"], **common),
            EngineInfo(id="sglang", name="SGLang", formats=["safetensors"], **others),
            EngineInfo(id="mlc-llm", name="MLC LLM", formats=["mlc"], **common),
        ]

    def find_installation(self, engine_id: str) -> EngineInstallation:
        if engine_id == "sglang":
            raise EngineFailed("SGLang is not installed.", code="not_installed")
        known_flags = _flags(engine_id)
        flags = frozenset({"--seed", *known_flags}) if known_flags else frozenset()
        return EngineInstallation(
            engine=engine_id, version="1", backend="cuda", python=Path(sys.executable), flags=flags
        )


def _flags(engine_id: str) -> set[str]:
    table = getattr(REAL[engine_id], "flag_table", None)
    return set() if table is None else {name for row in table.flags for name in row.names}


def folder(at: Path, template: str, **config: object) -> Path:
    shutil.copytree(GUIDE, at)
    (at / "chat_template.jinja").write_text(template, encoding="utf-8")
    written_config = json.loads((at / "config.json").read_text(encoding="utf-8"))
    (at / "config.json").write_text(json.dumps({**written_config, **config}), encoding="utf-8")
    return at


@pytest.fixture
def models(tmp_path: Path) -> Path:
    there = tmp_path / "models"
    there.mkdir()
    folder(there / "coder", HERMES, auto_map={"AutoModel": "modeling_coder.Coder"})
    folder(there / "plain", "{% for m in messages %}{{ m.content }}{% endfor %}")
    TinyLlama().write(there / "file.gguf")
    return there


@pytest.fixture
def services(services: Services, paths: Paths, models: Path) -> Services:
    return over(models, services, paths, catalogue=Catalogue(), adapters={name: REAL[name] for name in USED})


@pytest.fixture
async def admin(gateway: Gateway) -> Admin:
    return Admin(gateway)


async def options_of(gateway: Gateway, model: str) -> LaunchOptions:
    return (await resolve_model(gateway.services, model)).load.options


async def test_code_runs_only_once_it_is_allowed_and_no_longer_when_it_is_taken_back(
    gateway: Gateway, admin: Admin, models: Path
) -> None:
    choices = await admin.choices("coder")
    assert (choices.brings_code, choices.settings.allows_code, "allows_code" in choices.takes) == (True, False, True)
    assert not (await admin.choices("plain")).brings_code
    assert not (await options_of(gateway, "coder")).trust_remote_code
    kept_settings = await admin.set("coder", allows_code=True)
    assert kept_settings == ModelSettings(allows_code=True, code_from=str(models / "coder"))
    assert (await options_of(gateway, "coder")).trust_remote_code
    assert not (await options_of(gateway, "plain")).trust_remote_code, "it is allowed for one model"
    await admin.set("coder")
    assert not (await options_of(gateway, "coder")).trust_remote_code


@pytest.mark.slow
async def test_another_model_of_the_same_name_may_run_nothing(
    gateway: Gateway, admin: Admin, models: Path, tmp_path: Path
) -> None:
    await admin.set("coder", allows_code=True)
    (models / "coder").rename(tmp_path / "gone")
    folder(models / "elsewhere" / "coder", HERMES, auto_map={"AutoModel": "modeling_other.Other"})
    gateway.services.events.publish(ModelsChanged())
    gateway.services.library.look_again()
    assert not (await options_of(gateway, "coder")).trust_remote_code
    choices = await admin.choices("coder")
    assert (choices.brings_code, choices.settings.allows_code) == (True, False)


@pytest.mark.slow
async def test_a_template_s_parser_is_taken_unless_another_is_named_or_none(gateway: Gateway, admin: Admin) -> None:
    assert (await admin.choices("coder")).tool_parser == "hermes"
    assert (await options_of(gateway, "coder")).tool_parser == "hermes"
    assert (await options_of(gateway, "plain")).tool_parser is None
    await admin.set("coder", tool_parser="mistral", reasoning_parser="qwen3")
    options = await options_of(gateway, "coder")
    assert (options.tool_parser, options.reasoning_parser) == ("mistral", "qwen3")
    await admin.set("coder", tool_parser="none")
    assert (await options_of(gateway, "coder")).tool_parser is None
    await admin.set("plain", chat_template=HERMES)
    assert (await options_of(gateway, "plain")).tool_parser == "hermes", "the template that counts"


@pytest.mark.slow
async def test_calls_are_read_by_the_engine_only_with_a_parser(gateway: Gateway, admin: Admin) -> None:
    async def can(model: str) -> frozenset[Feature]:
        resolved_model = await resolve_model(gateway.services, model)
        return running_descriptor(
            gateway.services.adapters, gateway.services.supervisor, resolved_model.load
        ).features & {
            Feature.TOOLS,
            Feature.REASONING,
        }

    assert await can("coder") == {Feature.TOOLS}
    assert await can("plain") == frozenset()
    await admin.set("plain", tool_parser="hermes", reasoning_parser="qwen3")
    assert await can("plain") == {Feature.TOOLS, Feature.REASONING}


@pytest.mark.slow
async def test_further_arguments_are_told_the_engine_and_reset_clears_them(gateway: Gateway, admin: Admin) -> None:
    await admin.set("plain", extra_args=["--seed", "7"])
    assert (await options_of(gateway, "plain")).extra_args == ("--seed", "7")
    await admin.set("plain")
    assert (await options_of(gateway, "plain")).extra_args == ()


@pytest.mark.slow
async def test_more_requests_than_llama_cpp_takes_are_set_for_an_engine_that_serves(
    gateway: Gateway, admin: Admin
) -> None:
    await admin.set("plain", slots=512)
    assert (await options_of(gateway, "plain")).slots == 512
    await admin.set("file", slots=256)
    assert gateway.services.model_settings.settings_of("file").slots == 256


async def test_an_engine_that_is_not_installed_yet_takes_what_it_would_take(admin: Admin) -> None:
    kept_settings = await admin.set("plain", engine="sglang", extra_args=["--seed=7"], slots=512)
    assert (kept_settings.engine, kept_settings.extra_args, kept_settings.slots) == ("sglang", ["--seed=7"], 512)


async def test_what_an_engine_takes_is_told(admin: Admin) -> None:
    assert (await admin.choices("coder")).takes == [
        "threads",
        "allows_code",
        "tool_parser",
        "reasoning_parser",
        "gpu_memory_fraction",
        "batch_tokens",
    ]
    choices = await admin.choices("file")
    assert choices.takes == ["threads", "batch_tokens", "flash_attention", "gpu_layers"]
    assert choices.tool_parser == ""


async def test_how_an_engine_computes_can_be_set(gateway: Gateway, admin: Admin) -> None:
    await admin.set("file", threads=3, batch_tokens=256, flash_attention="off", gpu_layers=2)
    options = await options_of(gateway, "file")
    assert (options.threads, options.max_batch_tokens, options.flash_attention) == (3, 256, False)
    assert options.gpu_layers == 2


async def test_an_engine_that_chooses_its_threads_is_told_none(gateway: Gateway, admin: Admin) -> None:
    assert "SGLang chooses its number of threads itself." in await admin.expect_refusal(
        "plain", engine="sglang", threads=2
    )
    model = await find_model(gateway.services, "plain")
    threads = {
        engine: launch_options(gateway.services, model, UNCHOSEN, ModelSettings(), engine=engine).threads
        for engine in ("vllm", "sglang", "tgi")
    }
    assert threads["vllm"]
    assert (threads["sglang"], threads["tgi"]) == (None, None), "TGI would refuse to be told"


async def test_an_engine_without_a_place_for_experts_refuses_them(admin: Admin) -> None:
    assert "does not keep experts aside" in await admin.expect_refusal("file", cpu_moe_layers=2)


@pytest.mark.slow
async def test_what_self_tuning_tries_is_what_the_engine_takes(gateway: Gateway) -> None:
    self_tuning, model = SelfTuning(gateway.services), await find_model(gateway.services, "file")
    request = StartTune(model="file", most_loss=0.01)
    scope = await self_tuning._find_scope(model, ModelSettings(), request)
    assert scope.takes >= {"threads", "batch_tokens", "flash_attention"}
    assert scope.threads
    assert scope.engine == "llama.cpp"
    assert (scope.tries_kv, scope.kv_problem) == (True, "")


@pytest.mark.slow(cases=7)
@pytest.mark.parametrize(
    ("model", "settings", "sentence"),
    [
        ("file", {"allows_code": True}, "llama.cpp runs no custom code"),
        ("file", {"tool_parser": "hermes"}, "there is none to set"),
        ("file", {"extra_args": ["--seed=7"]}, "accepts no extra arguments"),
        ("file", {"slots": 257}, "llama.cpp answers at most 256 requests at once."),
        ("file", {"slots": 1025}, "slots"),
        (
            "plain",
            {"extra_args": ["--tensor-parallel-size=4"]},
            "--tensor-parallel-size is Roundhouse's to set for vLLM.",
        ),
        (
            "plain",
            {"engine": "sglang", "extra_args": ["--tp-size=4"]},
            "The argument --tp-size is Roundhouse's to set for SGLang.",
        ),
        ("plain", {"engine": "sglang", "extra_args": ["--nnodes=2"]}, "is Roundhouse's to set for SGLang."),
        ("plain", {"extra_args": ["--host=0.0.0.0"]}, "The argument --host is Roundhouse's to set for vLLM."),
        ("plain", {"extra_args": ["--trust-remote-code"]}, "is Roundhouse's to set"),
        ("plain", {"extra_args": ["--tool-call-parser=x"]}, "is Roundhouse's to set"),
        ("plain", {"extra_args": ["--mood=good"]}, "has no argument --mood"),
        ("plain", {"extra_args": ["/another/model"]}, "must begin with a dash"),
        ("plain", {"extra_args": ["--seed 7"]}, "Each extra argument must be one word"),
        ("plain", {"extra_args": [""]}, "extra_args"),
        ("plain", {"extra_args": ["--a\0"]}, "extra_args"),
        ("plain", {"extra_args": ["--seed=1"] * 65}, "extra_args"),
        ("plain", {"extra_args": "--seed=1"}, "extra_args"),
        ("plain", {"tool_parser": "--api-key"}, "tool_parser"),
        ("plain", {"reasoning_parser": "a b"}, "reasoning_parser"),
        ("plain", {"allows_code": "yes"}, "allows_code"),
    ],
)
async def test_what_cannot_be_had_is_refused_before_it_is_kept(
    gateway: Gateway, admin: Admin, model: str, settings: dict[str, Any], sentence: str
) -> None:
    assert sentence in await admin.expect_refusal(model, **settings)
    assert gateway.services.model_settings.all_settings() == {}
