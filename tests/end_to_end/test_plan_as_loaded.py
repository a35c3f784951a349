"""What a plan says is what the engine has once the Guide is loaded: context, slots, and the KV cache, to the byte."""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from app.advisor.memory.estimate import sum_components
from app.advisor.memory.setting import RunSetting
from app.config.paths import RESOURCES
from app.gateway.loading.load_plan import options_from_plan, plan_setting
from app.hub.facts.folders import read_facts
from engines import worker_base
from engines.api import BufferAllocated, ContextSet, Draft, EngineInstallation, LaunchOptions, LogEvent, ModelFormat
from engines.registry import ADAPTERS
from tests.end_to_end.worker import Worker, environment, installation
from tests.engine_environments import engine_environment
from tests.gguf_files import TinyLlama, Value
from tests.patience import PATIENCE_S
from tests.unit.advisor.engines import engines_on
from tests.unit.advisor.test_recipes import linux, make_machine

GUIDE = RESOURCES / "guide"
XEON = make_machine(linux(cpu="Intel Xeon Platinum 8480+", ram_gb=16))
CONTEXT, SLOTS = 500, 3
LOGGED = 0.01 * 1024 * 1024
"""llama.cpp logs sizes in hundredths of a MiB."""
ASK_OPENVINO = """
import json, os
from engines.openvino.worker import OpenVinoBackend
backend = OpenVinoBackend()
backend.load(json.loads(os.environ["ROUNDHOUSE_WORKER_CONFIG"]), lambda *_: None)
settings = backend._pipeline.get_config()
settings.max_new_tokens = 2
backend._pipeline.generate(["Hello"], [settings])  # blocks are taken with the first answer
print(backend._pipeline.get_metrics().kv_cache_size_in_bytes)
"""
ASK_ONNX = """
import json, os
from engines.onnx_genai.worker import OnnxBackend
backend, config = OnnxBackend(), json.loads(os.environ["ROUNDHOUSE_WORKER_CONFIG"])
loaded = backend.load(config, lambda *_: None)
settings = backend._genai.GeneratorParams(backend._model)
settings.set_search_options(max_length=loaded.context)
generator = backend._genai.Generator(backend._model, settings)
generator.append_tokens([1])
outputs = [f"present.{layer}.{part}" for layer in range(5) for part in ("key", "value")]
print(loaded.slots * sum(generator.get_output(name).nbytes for name in outputs))
"""
ASK_MLX = """
import json, os
import mlx.core as mx
from mlx_lm import load
from mlx_lm.models.cache import make_prompt_cache
config = json.loads(os.environ["ROUNDHOUSE_WORKER_CONFIG"])
model, _ = load(config["model"])
cache = make_prompt_cache(model)
mx.eval(model(mx.ones((1, config["context"]), dtype=mx.int32), cache=cache))
slots = int(config["arguments"][1 + config["arguments"].index("--decode-concurrency")])
print(slots * sum(part.nbytes for layer in cache for part in (layer.keys, layer.values)))
"""


class Loaded(NamedTuple):
    """An engine that runs here, in an environment of its own unless it came with Roundhouse, and what it is asked."""

    engine: str
    environment: str
    form: ModelFormat
    model: Path
    question: str = ""

    def find(self) -> EngineInstallation:
        """Return where the engine is. Skips the test where it cannot be fetched."""
        return engine_environment(*self.environment.split()) if self.environment else installation()


OPENVINO = Loaded("openvino", "openvino", ModelFormat.OPENVINO, GUIDE / "openvino", ASK_OPENVINO)
ONNX = Loaded("onnxruntime-genai", "onnx_genai", ModelFormat.ONNX_GENAI, GUIDE / "onnx", ASK_ONNX)
MLX = Loaded("mlx-lm", "mlx_lm", ModelFormat.SAFETENSORS, GUIDE / "hf", ASK_MLX)
BUNDLED = Loaded("llama.cpp", "", ModelFormat.GGUF, GUIDE / "guide-q8_0.gguf")
BINDING = BUNDLED._replace(environment="llama_cpp native")
CASES = (
    *((BUNDLED, kv_type) for kv_type in (None, "q8_0")),
    *((OPENVINO, kv_type) for kv_type in (None, "q8_0")),
    (ONNX, None),
    pytest.param(MLX, None, marks=pytest.mark.skipif(sys.platform != "linux", reason="a Mac's plan is for its GPU")),
    pytest.param(BINDING, None, marks=pytest.mark.engines),  # compiled
)


def plan_case(case: Loaded, kv_type: str | None) -> tuple[RunSetting, LaunchOptions]:
    """Return how the advisor would run it, and what the engine is then told."""
    setting = RunSetting(engine=engines_on(XEON)[case.engine], context=CONTEXT, slots=SLOTS, kv_type=kv_type or "f16")
    options = LaunchOptions(context=CONTEXT, slots=SLOTS, kv_type=kv_type)
    pick = plan_setting(read_facts(case.model), XEON, setting, kv_type=kv_type, is_fixed=True)
    if pick is None:  # MLX-LM is advised for Macs alone
        assert case is MLX
        return setting, options
    assert (pick.setting.kv_type, pick.setting.context, pick.setting.slots) == (kv_type or "f16", CONTEXT, SLOTS)
    return pick.setting, options_from_plan(options, pick, XEON)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "kv_type"), CASES)
def test_the_engine_has_what_the_plan_says(case: Loaded, kv_type: str | None) -> None:
    setting, options = plan_case(case, kv_type)
    adapter, library_binding = ADAPTERS[case.engine], case.find()
    with closing(Worker(case.model, options, engine=Formed(adapter, library_binding, case.form))) as worker:  # type: ignore[arg-type]  # as an Engine
        assert worker.is_ready(), worker.lines
        events = [event for line in list(worker.lines) for event in adapter.read_log(line)]
        assert contexts(events) <= {(-(-CONTEXT // 256) * 256, SLOTS), (CONTEXT, SLOTS)}, "llama.cpp rounds up"
        actual = ask_library(worker, library_binding, case.question) if case.question else kv_of(events)
    expected_bytes = sum_components(read_facts(case.model), setting).kv.bytes
    assert actual == (expected_bytes if case.question else pytest.approx(expected_bytes, abs=LOGGED)), (
        "to the byte, or the digit"
    )


class Formed(NamedTuple):
    """`Engine`, told which of its formats to load."""

    adapter: object
    installed_engine: EngineInstallation
    format: ModelFormat


def contexts(events: list[LogEvent]) -> set[tuple[int, int | None]]:
    return {(event.tokens, event.slots or SLOTS) for event in events if isinstance(event, ContextSet)}


def kv_of(events: list[LogEvent]) -> int:
    return sum(event.size_bytes for event in events if isinstance(event, BufferAllocated) and event.purpose == "kv")


def ask_library(worker: Worker, library_binding: EngineInstallation, question: str) -> int:
    """Return what the library itself says of its cache, loaded as the worker is told to."""
    (spec,) = worker.plan.processes
    assert worker_base.CONFIG_VARIABLE in spec.env
    reply = subprocess.run(
        [str(library_binding.python), "-P", "-c", question],
        env=environment(spec),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert reply.returncode == 0, reply.stderr
    return int(json.loads(reply.stdout.splitlines()[-1]))


class TinyMixture(TinyLlama):
    """A tiny Llama of which each layer chooses among four experts."""

    def metadata(self) -> dict[str, Value]:
        return {**super().metadata(), "llama.expert_count": 4, "llama.expert_used_count": 2}

    def shapes(self, words: int) -> list[tuple[str, list[int]]]:
        plain = super().shapes(words)
        experts = [
            (name.replace(".weight", "_exps.weight"), [*shape, 4])
            for name, shape in plain
            if ".ffn_" in name and not name.endswith("norm.weight")
        ]
        others = [(name, shape) for name, shape in plain if ".ffn_" not in name or name.endswith("norm.weight")]
        return [*others, *experts, *((f"blk.{layer}.ffn_gate_inp.weight", [64, 4]) for layer in range(self.layers))]


@pytest.mark.engines
def test_experts_lie_where_the_plan_says(tmp_path: Path) -> None:
    """In system memory, of the first layers: llama.cpp names every tensor that it puts elsewhere than by itself."""
    options = LaunchOptions(context=CONTEXT, gpu_layers=99, cpu_moe_layers=2, split_ratio=(1.0,))
    library_binding = BINDING.find()
    model = TinyMixture(layers=3).write(tmp_path / "mixture.gguf")
    engine: Any = Formed(ADAPTERS["llama.cpp"], library_binding, BINDING.form)
    with closing(Worker(model, options, engine=engine)) as worker:
        assert worker.is_ready(), worker.lines
        moved_tensors = {line.split()[1] for line in list(worker.lines) if "buffer type overridden to CPU" in line}
        parts = ("gate", "up", "down")
        assert moved_tensors == {f"blk.{layer}.ffn_{part}_exps.weight" for layer in (0, 1) for part in parts}


def test_n_grams_are_as_short_as_they_are_set() -> None:
    options = LaunchOptions(context=CONTEXT, draft=Draft(kind="ngram"))
    with closing(Worker(GUIDE / "guide-q8_0.gguf", options)) as worker:
        assert worker.is_ready(), worker.lines
        sizes = [line for line in list(worker.lines) if "size_n=" in line]
        assert ["size_n=6, size_m=8" in line for line in sizes] == [True]
