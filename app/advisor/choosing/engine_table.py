"""What each engine needs and can do, as the advisor sees it: formats, systems, devices, features, limits.

One row per engine. Systems and wheels as published in November 2026; a target is a place it can be installed on, not a
promise that this version of Roundhouse installs it.
"""

from enum import StrEnum

import msgspec

Version = tuple[int, int]

X86, ARM = "x86_64", "arm64"
LINUX, MAC, WINDOWS = "Linux", "macOS", "Windows"
_BOTH = (X86, ARM)
_ANY_SYSTEM = (LINUX, MAC, WINDOWS)
_DESK = (LINUX, WINDOWS)

ANY_CUDA: Version = (5, 0)
"""Maxwell: the least llama.cpp's CUDA 12 archives are built for."""
VOLTA: Version = (7, 0)
"""LMDeploy's TurboMind starts here."""
TURING: Version = (7, 5)
"""vLLM's wheels start here; AWQ and GPTQ kernels too."""
AMPERE: Version = (8, 0)
"""ExLlama's kernels and paged attention, Marlin, BF16 and SGLang's kernels start here."""
ADA: Version = (8, 9)
"""The first with FP8 matrix units."""
BLACKWELL: Version = (10, 0)
"""The first with FP4 matrix units."""

_INSTINCT = frozenset({"gfx90a", "gfx942", "gfx950"})
INSTINCT_TARGETS = _INSTINCT | {"gfx906", "gfx908", "gfx940", "gfx941"}
"""What AMD's server accelerators call themselves, the older ones vLLM no longer runs on among them."""
_VLLM_ROCM = _INSTINCT | {"gfx1100", "gfx1101", "gfx1200", "gfx1201"}
_FP8_ROCM = frozenset({"gfx942", "gfx950", "gfx1200", "gfx1201"})
_MXFP4_ROCM = frozenset({"gfx942", "gfx950", "gfx1201"})
"""vLLM's recipe for gpt-oss names MI300X, MI325X, MI355X and Radeon AI PRO R9700 (recipes/OpenAI/GPT-OSS.md)."""


class Ability(StrEnum):
    """What a need can ask of an engine beyond generating text."""

    SERVES = "serves"
    """Made to serve many: continuous batching, paged cache, fair scheduling."""
    JSON_SCHEMA = "json_schema"
    LORAS = "loras"
    """Several adapters at once."""
    KV_QUANT = "kv_quant"
    HOST_OFFLOAD = "host_offload"
    """Layers or experts may stay in system memory."""
    TENSOR = "tensor"
    PIPELINE = "pipeline"
    EXPERT = "expert"
    VISION = "vision"
    RESERVES = "reserves"
    """Takes a share of GPU memory at start and pages the cache of all conversations within it."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of device an engine computes on, and the systems it is published for.

    `vendors` is empty for the processor. `compute` is the least CUDA capability; `gfx` the AMD targets, all when empty.
    Without `systems` and `architectures` it can be had for every one, if need be from source.
    """

    backend: str
    vendors: tuple[str, ...] = ()
    systems: tuple[str, ...] = _ANY_SYSTEM
    architectures: tuple[str, ...] = _BOTH
    compute: Version = (0, 0)
    gfx: frozenset[str] = frozenset()
    isa: str = ""


NOWHERE = Target(backend="cpu", systems=("nowhere",))
"""Where an engine computes that cannot run here."""


class EngineTraits(msgspec.Struct, frozen=True, kw_only=True):
    """One engine. `strength` completes "it ..."; `needs` completes "<name> needs ..."; `limits` are whole sentences."""

    id: str
    name: str
    formats: tuple[str, ...]
    """In the order they are preferred where quality is equal."""
    targets: tuple[Target, ...]
    strength: str
    needs: str
    abilities: frozenset[Ability] = frozenset()
    limits: str = ""
    architectures: frozenset[str] = frozenset()
    """Those it knows, by llama.cpp's names, where it will learn no more; empty: most, and growing."""
    uncut: frozenset[str] = frozenset()
    """Architectures whose matrices it cannot cut over GPUs yet."""
    most_slots: int = 1
    """Conversations at once that it is sensibly started with: the defaults of vLLM, SGLang, TensorRT-LLM, LMDeploy and
    MLX-LM; the others assumed."""


_CUDA = ("nvidia",)
_EXL = (Target(backend="cuda", vendors=_CUDA, systems=_DESK, architectures=(X86,), compute=AMPERE),)
_EXL2_ARCHITECTURES = frozenset(
    {"llama", "mistral", "mistral3", "mixtral", "yi", "orion", "qwen2", "qwen2vl", "qwen3", "qwen3moe", "gemma"}
    | {"gemma2", "gemma3", "starcoder", "starcoder2", "command-r", "cohere2", "dbrx", "phi3", "gpt2", "minicpm"}
    | {"internlm2", "granite", "glm4"}
)
"""What `exllamav2.architecture` of 0.3.2, its last release, tells apart."""
_EXL3_UNCUT = frozenset({"afmoe", "lfm2", "lfm2moe", "olmo2", "qwen3next", "mistral4"})
"""Architectures that exllamav3 1.6.5 marks `supports_tp: False`."""
_SERVED = ("nvfp4", "fp8", "mxfp4", "compressed-tensors", "awq", "gptq", "safetensors")
_SERVING = frozenset(
    {
        Ability.SERVES,
        Ability.JSON_SCHEMA,
        Ability.LORAS,
        Ability.KV_QUANT,
        Ability.TENSOR,
        Ability.PIPELINE,
        Ability.EXPERT,
        Ability.VISION,
        Ability.RESERVES,
    }
)

_ROWS = (
    EngineTraits(
        id="llama.cpp",
        name="llama.cpp",
        formats=("gguf",),
        targets=(
            Target(backend="metal", vendors=("apple",), systems=(MAC,), architectures=(ARM,)),
            Target(backend="cuda", vendors=_CUDA, systems=_DESK, compute=ANY_CUDA),
            Target(backend="vulkan", vendors=("amd", "intel", "nvidia", "apple"), systems=_DESK),
            Target(backend="rocm", vendors=("amd",), systems=_DESK, architectures=(X86,)),
            Target(backend="cpu", systems=(), architectures=()),
        ),
        strength="runs on any processor and nearly any GPU, and can keep a part of a model in system memory",
        needs="a computer",
        abilities=frozenset(
            {Ability.JSON_SCHEMA, Ability.LORAS, Ability.KV_QUANT, Ability.HOST_OFFLOAD, Ability.PIPELINE}
            | {Ability.VISION}
        ),
        limits="It is not made for speed on several GPUs, and its RPC between computers is fragile and open to anyone.",
        most_slots=16,
    ),
    EngineTraits(
        id="mlx-lm",
        name="MLX-LM",
        formats=("mlx", "safetensors"),
        targets=(Target(backend="metal", vendors=("apple",), systems=(MAC,), architectures=(ARM,)),),
        strength="is made for memory that processor and GPU share",
        needs="a Mac with Apple silicon (Windows has no build, and those for Linux are young)",
        abilities=frozenset({Ability.KV_QUANT}),
        limits="Its server is not made for the public: it has no keys and only basic checks, as its makers say.",
        most_slots=32,
    ),
    EngineTraits(
        id="mlx-vlm",
        name="MLX-VLM",
        formats=("mlx", "safetensors"),
        targets=(Target(backend="metal", vendors=("apple",), systems=(MAC,), architectures=(ARM,)),),
        strength="reads images and keeps answers to a JSON schema on Apple silicon",
        needs="a Mac with Apple silicon (Windows has no build, and those for Linux are young)",
        abilities=frozenset({Ability.KV_QUANT, Ability.VISION, Ability.JSON_SCHEMA}),
        limits="Its server is not made for the public.",
        most_slots=8,
    ),
    EngineTraits(
        id="exllamav2",
        name="ExLlamaV2",
        formats=("exl2",),
        targets=_EXL,
        strength="gets the most speed and the largest model out of one such card",
        needs="an NVIDIA card, Ampere or newer (compute capability 8.0), and Linux or Windows on x86-64",
        abilities=frozenset({Ability.KV_QUANT, Ability.JSON_SCHEMA, Ability.LORAS, Ability.PIPELINE}),
        limits="It is frozen since December 2025: architectures that came later are missing.",
        architectures=_EXL2_ARCHITECTURES,
        most_slots=8,
    ),
    EngineTraits(
        id="exllamav3",
        name="ExLlamaV3",
        formats=("exl3",),
        targets=_EXL,
        strength="splits tensors and experts across consumer cards",
        needs="NVIDIA cards, Ampere or newer (compute capability 8.0), and Linux or Windows on x86-64",
        abilities=frozenset(
            {Ability.KV_QUANT, Ability.JSON_SCHEMA, Ability.VISION}
            | {Ability.TENSOR, Ability.PIPELINE, Ability.EXPERT, Ability.HOST_OFFLOAD}
        ),
        limits="It does not spread every architecture over several cards yet.",
        uncut=_EXL3_UNCUT,
        most_slots=16,
    ),
    EngineTraits(
        id="vllm",
        name="vLLM",
        formats=_SERVED,
        targets=(
            Target(backend="cuda", vendors=_CUDA, systems=(LINUX,), compute=TURING),
            Target(backend="rocm", vendors=("amd",), systems=(LINUX,), architectures=(X86,), gfx=_VLLM_ROCM),
        ),
        strength="keeps GPUs busy with many requests at once",
        needs="Linux and an NVIDIA GPU, Turing or newer (compute capability 7.5), or an AMD GPU its ROCm build knows",
        abilities=_SERVING,
        limits="It takes most of the GPU's memory at start.",
        most_slots=256,
    ),
    EngineTraits(
        id="sglang",
        name="SGLang",
        formats=_SERVED,
        targets=(
            Target(backend="cuda", vendors=_CUDA, systems=(LINUX,), compute=AMPERE),
            Target(backend="rocm", vendors=("amd",), systems=(LINUX,), architectures=(X86,), gfx=_INSTINCT),
        ),
        strength="reuses shared prompts and is fast at structured output, long contexts, adapters and experts",
        needs="Linux and an NVIDIA GPU, Ampere or newer (compute capability 8.0), or an AMD Instinct",
        abilities=_SERVING,
        limits="It is heavy for a desktop.",
        most_slots=256,
    ),
    EngineTraits(
        id="tensorrt-llm",
        name="TensorRT-LLM",
        formats=("nvfp4", "fp8", "mxfp4", "safetensors", "tensorrt"),
        targets=(Target(backend="cuda", vendors=_CUDA, systems=(LINUX,), compute=AMPERE),),
        strength="has the highest throughput on NVIDIA's own server GPUs",
        needs="Linux, NVIDIA's container and an NVIDIA GPU, Ampere or newer (compute capability 8.0)",
        abilities=_SERVING,
        limits="It is made for server GPUs and large set-ups, and comes as a container.",
        most_slots=256,
    ),
    EngineTraits(
        id="tgi",
        name="TGI",
        formats=("safetensors", "fp8", "awq", "gptq"),
        targets=(),
        strength="serves models of the Hugging Face hub",
        needs="to run already, or its container image",
        limits="Its repository was archived in March 2026: attach one that runs, or use a container that is here.",
    ),
    EngineTraits(
        id="mlc-llm",
        name="MLC LLM",
        formats=("mlc",),
        targets=(
            Target(backend="metal", vendors=("apple",), systems=(MAC,), architectures=(ARM,)),
            Target(backend="cuda", vendors=_CUDA, systems=_DESK, architectures=(X86,), compute=TURING),
            Target(backend="vulkan", vendors=("amd", "intel", "nvidia"), systems=_DESK, architectures=(X86,)),
            Target(backend="cpu", systems=_DESK, architectures=(X86,)),
        ),
        strength="compiles one model for browsers, phones and native apps",
        needs="a Mac with Apple silicon, or Linux or Windows on x86-64",
        abilities=frozenset({Ability.JSON_SCHEMA, Ability.TENSOR}),
        limits="It has nightly builds only, and compiles each model first.",
        most_slots=4,
    ),
    EngineTraits(
        id="onnxruntime-genai",
        name="ONNX Runtime GenAI",
        formats=("onnx-genai",),
        targets=(
            Target(backend="cuda", vendors=_CUDA, systems=_DESK, architectures=(X86,), compute=TURING),
            Target(backend="directml", vendors=("amd", "intel"), systems=(WINDOWS,), architectures=(X86,)),
            Target(backend="npu", vendors=("qualcomm",), systems=(WINDOWS,), architectures=(ARM,)),
            Target(backend="cpu", systems=(LINUX,), architectures=(X86,)),
            Target(backend="cpu", systems=(MAC,), architectures=(ARM,)),
            Target(backend="cpu", systems=(WINDOWS,)),
        ),
        strength="is built to live inside programs, on processors, GPUs and NPUs",
        needs="Windows, Linux on x86-64, or a Mac with Apple silicon",
        abilities=frozenset({Ability.JSON_SCHEMA}),
        most_slots=4,
    ),
    EngineTraits(
        id="openvino",
        name="OpenVINO GenAI",
        formats=("openvino",),
        targets=(
            Target(backend="gpu", vendors=("intel",), systems=_DESK, architectures=(X86,)),
            Target(backend="cpu", systems=_DESK, architectures=(X86,), isa="avx2"),
        ),
        strength="has Intel's own kernels for vector and matrix units",
        needs="an x86-64 processor with AVX2 or an Intel GPU, and Linux or Windows",
        abilities=frozenset({Ability.SERVES, Ability.JSON_SCHEMA, Ability.LORAS, Ability.KV_QUANT, Ability.VISION}),
        most_slots=64,
    ),
    EngineTraits(
        id="lmdeploy",
        name="LMDeploy",
        formats=("fp8", "mxfp4", "awq", "gptq", "compressed-tensors", "safetensors"),
        targets=(Target(backend="cuda", vendors=_CUDA, systems=_DESK, architectures=(X86,), compute=VOLTA),),
        strength="serves many at once with CUDA, on Windows too",
        needs="an NVIDIA GPU, Volta or newer (compute capability 7.0), and Linux or Windows on x86-64",
        abilities=_SERVING - {Ability.PIPELINE},
        most_slots=128,
    ),
    EngineTraits(
        id="dynamo",
        name="NVIDIA Dynamo",
        formats=_SERVED,
        targets=(Target(backend="cuda", vendors=_CUDA, systems=(LINUX,), compute=AMPERE),),
        strength="directs vLLM, SGLang or TensorRT-LLM over many computers",
        needs="Linux and NVIDIA GPUs, Ampere or newer (compute capability 8.0), in several computers",
        abilities=_SERVING,
        limits="One computer needs no orchestrator.",
        most_slots=256,
    ),
)

ENGINES: dict[str, EngineTraits] = {row.id: row for row in _ROWS}
NAMES: dict[str, str] = {row.id: row.name for row in _ROWS}

EVERYWHERE = "llama.cpp"
"""Runs on any processor and most GPUs, so it is the engine when no other can run."""

MADE_FROM_ORIGINALS = frozenset({"openvino", "onnx-genai", "mlc"})
"""Formats the engine's own exporter makes from the original weights: missing ones can be had."""

_CUDA_FORMATS: dict[str, Version] = {
    "nvfp4": BLACKWELL,
    "fp8": ADA,
    "mxfp4": AMPERE,
    "awq": TURING,
    "gptq": TURING,
    "compressed-tensors": TURING,
    "exl2": AMPERE,
    "exl3": AMPERE,
}
_ROCM_FORMATS: dict[str, frozenset[str]] = {"fp8": _FP8_ROCM, "mxfp4": _MXFP4_ROCM, "nvfp4": frozenset()}
FORMAT_NAMES = {
    "gguf": "GGUF",
    "mlx": "MLX weights",
    "exl2": "EXL2",
    "exl3": "EXL3",
    "awq": "AWQ",
    "gptq": "GPTQ",
    "fp8": "FP8",
    "nvfp4": "NVFP4",
    "mxfp4": "MXFP4",
    "compressed-tensors": "compressed tensors",
    "openvino": "OpenVINO IR",
    "onnx-genai": "ONNX",
    "mlc": "MLC weights",
    "tensorrt": "a TensorRT engine",
    "safetensors": "16-bit safetensors",
}


def inner_format(format_name: str, quantization: str) -> str:
    """Return the scheme kernels are chosen by: compressed tensors hold FP8, NVFP4 or integers."""
    if format_name != "compressed-tensors":
        return format_name
    lowered = quantization.lower()
    return next((scheme for scheme in ("nvfp4", "mxfp4", "fp8") if scheme in lowered), format_name)


def kernel_lack(format_name: str, *, compute: Version, gfx: str = "") -> str:
    """Say why no kernels exist for a format on a GPU of this capability or gfx target; empty when they do."""
    if gfx:
        known = _ROCM_FORMATS.get(format_name)
        has_kernels = known is None or gfx in known
        return "" if has_kernels else f"{FORMAT_NAMES[format_name]} has no kernels for {gfx}"
    least = _CUDA_FORMATS.get(format_name, (0, 0))
    if compute >= least:
        return ""
    return f"{FORMAT_NAMES[format_name]} needs compute capability {least[0]}.{least[1]}"
