"""Write the trained Guide in the two forms engines read.

`hf/` is a Hugging Face folder (bfloat16 safetensors) for MLX-LM and transformers;
`guide-q8_0.gguf` is one file for llama.cpp, its matrices quantised to Q8_0 and its
norms kept in float32.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import gguf
import torch
from model import Shape
from safetensors.torch import save_file
from tokenizer import END_OF_TEXT, SPECIAL_TOKENS, TURN_END
from topics import HERE

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from torch import Tensor

    Array = npt.NDArray[np.float32]

NAME = "Roundhouse Guide"
DESCRIPTION = "tiny built-in help model"
LICENSE = "apache-2.0"
END_OF_TEXT_ID = SPECIAL_TOKENS.index(END_OF_TEXT)
TURN_END_ID = SPECIAL_TOKENS.index(TURN_END)
LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def main(arguments: list[str] | None = None) -> int:
    """Export the weights that train.py saved."""
    options = _parse(arguments)
    weights = torch.load(options.trained / "weights.pt", weights_only=True)
    vocabulary = json.loads((options.trained / "tokenizer.json").read_text(encoding="utf-8"))
    template = (HERE / "chat_template.jinja").read_text(encoding="utf-8").removesuffix("\n")
    _write_folder(options.out / "hf", weights, vocabulary, template)
    _write_gguf(options.out / "guide-q8_0.gguf", weights, vocabulary, template)
    for path in (options.out / "hf" / "model.safetensors", options.out / "guide-q8_0.gguf"):
        sys.stdout.write(f"{path.name}: {path.stat().st_size} bytes\n")
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trained", type=Path, default=Path("build/guide"), help="folder train.py wrote")
    parser.add_argument("--out", type=Path, default=HERE.parent, help="folder that takes hf/ and the GGUF")
    return parser.parse_args(arguments)


def _write_folder(folder: Path, weights: dict[str, Tensor], vocabulary: dict[str, object], template: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    halves = {name: weight.to(torch.bfloat16).contiguous() for name, weight in weights.items()}
    save_file(halves, str(folder / "model.safetensors"), metadata={"format": "pt"})
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    documents = {
        "config.json": _model_config(Shape()),
        "generation_config.json": _generation_config(),
        "tokenizer_config.json": _tokenizer_config(Shape(), template),
        "tokenizer.json": vocabulary,
    }
    for name, document in documents.items():
        text = json.dumps(document, indent=1, ensure_ascii=False)
        (folder / name).write_text(text + "\n", encoding="utf-8")


def _model_config(shape: Shape) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.width,
        "intermediate_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_width,
        "max_position_embeddings": shape.context,
        "rope_theta": shape.rope_base,
        "rope_scaling": None,
        "rms_norm_eps": shape.norm_epsilon,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "bos_token_id": None,
        "eos_token_id": TURN_END_ID,
        "pad_token_id": END_OF_TEXT_ID,
    }


def _generation_config() -> dict[str, object]:
    return {
        "do_sample": False,
        "temperature": 0.0,
        "eos_token_id": [TURN_END_ID, END_OF_TEXT_ID],
        "pad_token_id": END_OF_TEXT_ID,
    }


def _tokenizer_config(shape: Shape, template: str) -> dict[str, object]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": shape.context,
        "add_bos_token": False,
        "bos_token": None,
        "eos_token": TURN_END,
        "pad_token": END_OF_TEXT,
        "clean_up_tokenization_spaces": False,
        "chat_template": template,
    }


def _write_gguf(path: Path, weights: dict[str, Tensor], vocabulary: dict[str, object], template: str) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    _describe_model(writer, Shape())
    _describe_vocabulary(writer, vocabulary)
    writer.add_chat_template(template)
    for name, weight in weights.items():
        _add_tensor(writer, name, weight, Shape())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _describe_model(writer: gguf.GGUFWriter, shape: Shape) -> None:
    writer.add_type("model")
    writer.add_name(NAME)
    writer.add_description(DESCRIPTION)
    writer.add_license(LICENSE)
    writer.add_languages(["en"])
    writer.add_sampling_temp(0.0)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_width)
    writer.add_value_length(shape.head_width)
    writer.add_rope_dimension_count(shape.head_width)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_layer_norm_rms_eps(shape.norm_epsilon)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


def _describe_vocabulary(writer: gguf.GGUFWriter, vocabulary: dict[str, object]) -> None:
    model = vocabulary["model"]
    if not isinstance(model, dict):
        message = "tokenizer.json has no model table"
        raise TypeError(message)
    ids: dict[str, int] = model["vocab"]
    tokens = sorted(ids, key=ids.__getitem__)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_token_types([control if token in SPECIAL_TOKENS else normal for token in tokens])
    writer.add_token_merges([pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]])
    writer.add_eos_token_id(TURN_END_ID)
    writer.add_eot_token_id(TURN_END_ID)
    writer.add_pad_token_id(END_OF_TEXT_ID)
    writer.add_add_bos_token(value=False)
    writer.add_add_space_prefix(value=False)


def _add_tensor(writer: gguf.GGUFWriter, name: str, weight: Tensor, shape: Shape) -> None:
    values: Array = weight.float().numpy()
    if name.endswith("q_proj.weight"):
        values = _interleave(values, shape.heads)
    if name.endswith("k_proj.weight"):
        values = _interleave(values, shape.kv_heads)
    if weight.dim() == 1:
        writer.add_tensor(_gguf_name(name), values)
        return
    kind = gguf.GGMLQuantizationType.Q8_0
    writer.add_tensor(_gguf_name(name), gguf.quants.quantize(values, kind), raw_dtype=kind)


def _interleave(values: Array, heads: int) -> Array:
    """Reorder rows from rotating halves (Hugging Face) to rotating neighbours (llama.cpp)."""
    return values.reshape(heads, 2, -1, values.shape[1]).swapaxes(1, 2).reshape(values.shape)


def _gguf_name(name: str) -> str:
    if name == "model.embed_tokens.weight":
        return "token_embd.weight"
    if name == "model.norm.weight":
        return "output_norm.weight"
    _, _, layer, part = name.removesuffix(".weight").split(".", 3)
    return f"blk.{layer}.{LAYER_NAMES[part]}.weight"


if __name__ == "__main__":
    raise SystemExit(main())
