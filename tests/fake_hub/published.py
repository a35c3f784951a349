"""Models as their publishers have them in each format: files, branches and tensors are called as the real ones are.

Small, with weights of zeros; what its configuration and headers say is as the tools write it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.fake_hub.hub import FakeHub
from tests.gguf_files import TinyLlama, gguf_bytes
from tests.safetensors_files import Tensors, header_bytes

_TINY = Path(__file__).parents[1] / "fixtures" / "models" / "tiny-qwen2"
_OV_BYTES, _ONNX_BYTES = 459_045, 174_848
"""Of the weights, which the fixtures leave out."""
Shape = tuple[int, int]
GENAI, GENAI_FOLDER = "microsoft/Phi-4-mini-instruct-onnx", "cpu_and_mobile/cpu-int4-rtn-block-32-acc-level-4"
"""ONNX Runtime GenAI's folders lie below the device that they are for."""
HIDDEN, INNER, LAYERS, VOCABULARY, GROUP = 128, 256, 2, 320, 64
_LINEAR: Mapping[str, Shape] = {
    "self_attn.q_proj": (128, HIDDEN),
    "self_attn.k_proj": (64, HIDDEN),
    "self_attn.v_proj": (64, HIDDEN),
    "self_attn.o_proj": (HIDDEN, 128),
    "mlp.gate_proj": (INNER, HIDDEN),
    "mlp.up_proj": (INNER, HIDDEN),
    "mlp.down_proj": (HIDDEN, INNER),
}
"""Outputs and inputs of each matrix of a layer."""
PARAMETERS = 2 * VOCABULARY * HIDDEN + LAYERS * sum(out * into for out, into in _LINEAR.values())
"""Of the matrices; the norms are a thousandth more."""
_CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
NVFP4_CONFIG = {
    "producer": {"name": "modelopt", "version": "0.37.0"},
    "quantization": {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["lm_head"]},
}


def publish_all(hub: FakeHub) -> None:
    """Put Qwen3 8B, and what there is of the 30B only, on the hub under the names that the catalogue has."""
    hub.add("Qwen/Qwen3-8B-GGUF", gguf_files())
    hub.add("lmstudio-community/Qwen3-8B-MLX-4bit", folder({"quantization": {"group_size": GROUP, "bits": 4}}, mlx))
    hub.add(
        "Qwen/Qwen3-8B-AWQ",
        folder(_quantization_config("awq", bits=4, group_size=GROUP, zero_point=True, version="gemm"), awq),
    )
    gptq_config = _quantization_config("gptq", bits=4, group_size=GROUP, desc_act=False, sym=True)
    hub.add("Qwen/Qwen3-30B-A3B-GPTQ-Int4", folder(gptq_config, gptq))
    nvfp4_stated = _quantization_config("modelopt", quant_algo="NVFP4", ignore=["lm_head"])
    hub.add(
        "nvidia/Qwen3-30B-A3B-NVFP4",
        {**folder(nvfp4_stated, nvfp4), "hf_quant_config.json": json.dumps(NVFP4_CONFIG).encode()},
    )
    hub.add("OpenVINO/Qwen3-8B-int4-ov", _read_folder(_TINY / "ov") | {"openvino_model.bin": b"\0" * _OV_BYTES})
    onnx_files = _read_folder(_TINY / "onnx") | {"model.onnx.data": b"\0" * _ONNX_BYTES}
    hub.add(
        GENAI, {"README.md": b"# ONNX"} | {f"{GENAI_FOLDER}/{name}": content for name, content in onnx_files.items()}
    )
    publish_exl3(hub, "turboderp/Qwen3-8B-exl3", {"3.0bpw": 3.0, "4.0bpw": 4.0, "6.0bpw": 6.0})
    publish_exl3(
        hub,
        "turboderp/Qwen3.8-27B-exl3",
        {"SC_2.20bpw_H3": 2.2, "SC_2.20bpw_H3_V3": 2.2, "4.00bpw": 4.0, "SC_4.00bpw_H5_V6": 4.0, "6.00bpw": 6.0},
    )


def _read_folder(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def publish_exl3(hub: FakeHub, name: str, rates: Mapping[str, float]) -> None:
    """Put a model on the hub as turboderp does: `main` holds no weights, every bit rate is a branch or several."""
    repository = hub.add(name, {"README.md": b"# Branches", ".gitattributes": b"*"}, about={"tags": ["exl3"]})
    for branch, rate in rates.items():
        quantization = _quantization_config("exl3", version="0.0.6", bits=rate, head_bits=6, out_scales="auto")
        repository.branches[branch] = folder(quantization, partial(exl3, bits=round(rate)))


def gguf_files() -> dict[str, bytes]:
    """Return two quantisations, one of them in parts in a folder of its own, a projector and a draft."""
    whole = TinyLlama(layers=3)
    tensors = whole.tensors()
    half = len(tensors) // 2
    parts = {}
    for number, own in enumerate((tensors[:half], tensors[half:])):
        split = {"split.no": number, "split.count": 2, "split.tensors.count": len(tensors)}
        values = {**whole.metadata(), **split} if number == 0 else split
        parts[f"Q8_0/Qwen3-8B-Q8_0-0000{number + 1}-of-00002.gguf"] = gguf_bytes(values, own)
    projector = gguf_bytes(
        {"general.architecture": "clip", "general.type": "mmproj", "clip.has_vision_encoder": True},
        [("v.patch_embd.weight", [4], b"\0" * 16)],
    )
    return {
        **parts,
        "Qwen3-8B-Q4_K_M.gguf": TinyLlama().content(),
        "mmproj-F16.gguf": projector,
        "Qwen3-0.6B-draft-Q8_0.gguf": TinyLlama(layers=1).content(),
        "README.md": b"# Qwen3",
    }


def folder(quantization: Mapping[str, object], pack: Any) -> dict[str, bytes]:  # noqa: ANN401 -- one of the functions below
    """Return a folder of two safetensors files, their index, and what lies beside."""
    tensors = dict(_list_tensors(pack))
    names = list(tensors)
    half = len(names) // 2
    files: dict[str, bytes] = {}
    index: dict[str, str] = {}
    for number, own in enumerate((names[:half], names[half:]), 1):
        file = f"model-{number:05}-of-00002.safetensors"
        metadata = {"format": "mlx" if "quantization" in quantization else "pt"}
        header, data_bytes = header_bytes({name: tensors[name] for name in own}, metadata)
        files[file] = header + b"\0" * data_bytes
        index |= dict.fromkeys(own, file)
    files["model.safetensors.index.json"] = json.dumps({"metadata": {}, "weight_map": index}).encode()
    files["config.json"] = json.dumps({**_CONFIG, **quantization}).encode()
    files |= {"tokenizer.json": b"{}", "tokenizer_config.json": b"{}", "README.md": b"# Qwen3"}
    return files


def _quantization_config(method: str, **more: object) -> dict[str, object]:
    return {"quantization_config": {"quant_method": method, **more}}


def _list_tensors(pack: Any) -> Iterator[tuple[str, tuple[str, Sequence[int]]]]:  # noqa: ANN401 -- as above
    ends = pack((VOCABULARY, HIDDEN)) if pack is mlx else {"weight": ("BF16", (VOCABULARY, HIDDEN))}
    for end in ("model.embed_tokens", "lm_head"):
        yield from ((f"{end}.{name}", tensor) for name, tensor in ends.items())
    yield "model.norm.weight", ("BF16", (HIDDEN,))
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}"
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{prefix}.{norm}.weight", ("BF16", (HIDDEN,))
        for module, shape in _LINEAR.items():
            yield from ((f"{prefix}.{module}.{name}", tensor) for name, tensor in pack(shape).items())


def mlx(shape: Shape) -> Tensors:
    """Return a matrix as MLX packs it in 4 bits."""
    out, into = shape
    scales = ("BF16", (out, into // GROUP))
    return {"weight": ("U32", (out, into // 8)), "scales": scales, "biases": scales}


def awq(shape: Shape) -> Tensors:
    """Return a matrix as AutoAWQ packs it."""
    out, into = shape
    return {
        "qweight": ("I32", (into, out // 8)),
        "qzeros": ("I32", (into // GROUP, out // 8)),
        "scales": ("F16", (into // GROUP, out)),
    }


def gptq(shape: Shape) -> Tensors:
    """Return a matrix as GPTQModel packs it."""
    out, into = shape
    return {
        "qweight": ("I32", (into // 8, out)),
        "qzeros": ("I32", (into // GROUP, out // 8)),
        "scales": ("F16", (into // GROUP, out)),
        "g_idx": ("I32", (into,)),
    }


def nvfp4(shape: Shape) -> Tensors:
    """Return a matrix as ModelOpt packs it."""
    out, into = shape
    return {
        "weight": ("U8", (out, into // 2)),
        "weight_scale": ("F8_E4M3", (out, into // 16)),
        "weight_scale_2": ("F32", ()),
        "input_scale": ("F32", ()),
    }


def exl3(shape: Shape, bits: int) -> Tensors:
    """Return a matrix as ExLlamaV3 packs it, in tiles of 16 by 16."""
    out, into = shape
    return {"trellis": ("I16", (into // 16, out // 16, 16 * bits)), "suh": ("F16", (into,)), "svh": ("F16", (out,))}
