"""What versions of engines say in their own files of the models they load, in folders laid out as real ones are."""

import sys
from pathlib import Path

import pytest

from engines.api import EngineInstallation
from engines.api.support import EngineSupport
from engines.registry import ADAPTERS
from engines.support_files import read_support

NAMES = (
    *("gptneox", "llama-bpe", "iq4_xs", "qwen3moe", "q4_K", "kimi-k2"),
    "models/gemma4",  # short strings are the ends of longer ones
)
VLLM_REGISTRY = """
_TEXT_GENERATION_MODELS = {
    "Qwen3ForCausalLM": ("qwen3", "Qwen3ForCausalLM"),
    "Qwen4ExpForCausalLM": (
        "vllm.models.qwen4_exp",
        "Qwen4ExpForCausalLM",
    ),
}
_PREVIOUSLY_SUPPORTED_MODELS = {
    "MotifForCausalLM": "0.10.2",
}
"""
VLLM_METHODS = """
QuantizationMethods = Literal[
    "awq",
    "compressed-tensors",
    # Below are shorthands.
    "mxfp8",
]
DEPRECATED_QUANTIZATION_METHODS = [
    "fbgemm_fp8",
]
"""
VLLM_READS = frozenset({"awq", "compressed-tensors", "mxfp8"})
MLX_UTILS = """
MODEL_REMAPPING = {
    "mistral": "llama",
    "falcon-mamba": "mamba",  # as a module is called
}
OTHER = {
    "nothing": "here",
}
"""
FILES = {
    "mlx-lm": {"mlx_lm/models/__init__.py": "", "mlx_lm/models/qwen3_moe.py": "", "mlx_lm/utils.py": MLX_UTILS},
    "mlx-vlm": {"mlx_vlm/models/qwen3_vl/__init__.py": "", "mlx_vlm/utils.py": MLX_UTILS},
    "exllamav3": {
        "exllamav3/architecture/qwen3.py": 'class Qwen3Config(Config):\n    arch_string = "Qwen3ForCausalLM"\n',
        "exllamav3/model/config.py": "    arch_string = None\n",
    },
    "vllm": {
        "vllm/model_executor/models/registry.py": VLLM_REGISTRY,
        "vllm/model_executor/layers/quantization/__init__.py": VLLM_METHODS,
        "transformers/models/glm5/__init__.py": "",
    },
    "sglang": {
        "sglang/srt/models/qwen3.py": "EntryClass = Qwen3ForCausalLM\n",
        "sglang/srt/models/ling/mm.py": "EntryClass = [\n    BailingMoeV2ForCausalLM,\n    LingForCausalLM,\n]\n",
        "sglang/srt/layers/quantization/__init__.py": 'METHODS = {\n    "awq": AWQConfig,\n    "w8_int8": W8Config,\n}',
    },
}


def library(names: tuple[str, ...] = NAMES) -> bytes:
    return b"\x7fELF\0\0" + b"\0".join(name.encode() for name in names) + b"\0\xff\xfe\0"


def version_in(folder: Path, engine: str, files: dict[str, str | bytes]) -> EngineInstallation:
    """Return a version of an engine whose environment has these files in its site-packages."""
    for name, content in files.items():
        file = folder / "lib/python3.11/site-packages" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return EngineInstallation(engine=engine, version="1", backend="cpu", python=folder / "bin/python")


def read(engine: str, installation: EngineInstallation) -> EngineSupport:
    support = read_support(ADAPTERS[engine].descriptor.support, installation)
    assert support is not None
    return support


@pytest.mark.parametrize("engine", ["mlx-lm", "mlx-vlm", "exllamav3", "vllm", "sglang"])
def test_names_are_read_from_the_files_of_a_version(engine: str, tmp_path: Path) -> None:
    support = read(engine, version_in(tmp_path, engine, dict(FILES[engine])))
    assert {
        "mlx-lm": support.model_types == {"qwen3_moe", "mistral", "falcon_mamba"},
        "mlx-vlm": support.model_types == {"qwen3_vl", "mistral", "falcon_mamba"},
        "exllamav3": support.classes == {"Qwen3ForCausalLM"},
        "vllm": (support.classes, support.model_types, support.quantizations)
        == (frozenset({"Qwen3ForCausalLM", "Qwen4ExpForCausalLM"}), frozenset({"glm5"}), VLLM_READS),
        "sglang": {"Qwen3ForCausalLM", "BailingMoeV2ForCausalLM", "LingForCausalLM"} <= support.classes
        and support.quantizations == {"awq", "w8_int8"},
    }[engine], support


@pytest.mark.parametrize("place", ["xllamacpp/xllamacpp.abi3.so", "llama_cpp/lib/libllama.so"])
def test_a_librarys_strings_are_read_wherever_it_lies(place: str, tmp_path: Path) -> None:
    support = read("llama.cpp", version_in(tmp_path, "llama.cpp", {place: library()}))
    assert all(support.has_gguf_name(name) for name in ("qwen3moe", "gemma4", "kimi-k2", "q4_K"))
    assert not any(support.has_gguf_name(name) for name in ("qwen5", "nvfp4", "superbpe"))


def test_the_libraries_beside_a_program_are_read(tmp_path: Path) -> None:
    for name, content in (("libllama.so", library()), ("libggml-base.so", library(("iq4_xs", "nvfp4")))):
        (tmp_path / name).write_bytes(content)
    program = tmp_path / "llama-server"
    program.write_bytes(b"")
    installation = EngineInstallation(engine="llama.cpp", version="b1", backend="cpu", executable=program)
    support = read("llama.cpp", installation)
    assert support.has_gguf_name("qwen3moe")
    assert support.has_gguf_name("nvfp4")


@pytest.mark.parametrize("engine", [*FILES])
def test_of_files_that_say_nothing_nobody_can_tell(engine: str, tmp_path: Path) -> None:
    installation = version_in(tmp_path, engine, {"README.md": "nothing"})
    assert read_support(ADAPTERS[engine].descriptor.support, installation) is None


def test_the_llama_cpp_that_comes_along_knows_what_its_table_says() -> None:
    """The library that is here, with its 100 MB, beside names that were read from its sources."""
    installation = EngineInstallation(engine="llama.cpp", version="1", backend="cpu", python=Path(sys.executable))
    support = read("llama.cpp", installation)
    known_architectures = (
        "llama",
        "qwen2",
        "qwen35moe",
        "gemma4",
        "gpt-oss",
        "deepseek4",
        "lfm2moe",
        "muse-glimmer",
        "granitehybrid",
    )
    tokenizers = ("llama-bpe", "qwen2", "tekken", "kimi-k2", "gpt-4o", "superbpe")
    assert [
        name
        for name in (*known_architectures, *tokenizers, "q4_K", "mxfp4", "nvfp4")
        if not support.has_gguf_name(name)
    ] == []
    assert not support.has_gguf_name("qwen9-hyper")
