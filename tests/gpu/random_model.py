"""`python -m tests.gpu.random_model FOLDER`: EXL3 of a Llama 8B's shape with random trellises, for a card's figures.

What it answers means nothing; what it takes of a card and how fast it answers is as of a model of this size. Needs
PyTorch and safetensors, so it runs in an engine's interpreter. The tokenizer is the Guide's.
"""

import importlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

GUIDE = Path(__file__).resolve().parents[2] / "resources" / "guide" / "hf"
HIDDEN, FEED_FORWARD, LAYERS, KV_HEADS, HEAD, VOCABULARY = 4096, 14336, 32, 8, 128, 2048
BITS, HEAD_BITS = 4, 6
_TILE = 16
_CODEBOOK = {"codebook": "mul1", "marker": 0x83DCD12D - (1 << 32)}
"""The converter's usual codebook, and the number that it leaves beside each matrix (exllamav3 1.6.5)."""
_SCALE = 0.02
_KV = KV_HEADS * HEAD
_MATRICES = (
    ("self_attn.q_proj", HIDDEN, HIDDEN),
    ("self_attn.k_proj", HIDDEN, _KV),
    ("self_attn.v_proj", HIDDEN, _KV),
    ("self_attn.o_proj", HIDDEN, HIDDEN),
    ("mlp.gate_proj", HIDDEN, FEED_FORWARD),
    ("mlp.up_proj", HIDDEN, FEED_FORWARD),
    ("mlp.down_proj", FEED_FORWARD, HIDDEN),
)


def make_config() -> dict[str, object]:
    """Return the model's configuration: the Guide's, with the larger shape."""
    config: dict[str, object] = json.loads((GUIDE / "config.json").read_text(encoding="utf-8"))
    quantization = {"quant_method": "exl3", "version": "1.6.5", "bits": float(BITS), "head_bits": HEAD_BITS}
    return config | {
        "hidden_size": HIDDEN,
        "intermediate_size": FEED_FORWARD,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HIDDEN // HEAD,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
        "quantization_config": quantization | {"codebook": _CODEBOOK["codebook"]},
    }


def write_model(folder: Path) -> None:
    """Write configuration, tokenizer and weights. Needs half as much memory again as the weights' 3.5 GB."""
    torch: Any = importlib.import_module("torch")
    for file in GUIDE.iterdir():
        if file.suffix != ".safetensors":
            shutil.copy(file, folder / file.name)
    (folder / "config.json").write_text(json.dumps(make_config()), encoding="utf-8")
    tensors = {
        "model.embed_tokens.weight": (torch.randn(VOCABULARY, HIDDEN) * _SCALE).half(),
        "model.norm.weight": torch.ones(HIDDEN).half(),
        **_random_matrix(torch, "lm_head", (HIDDEN, VOCABULARY), HEAD_BITS),
    }
    for number in range(LAYERS):
        layer = f"model.layers.{number}"
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{layer}.{norm}.weight"] = torch.ones(HIDDEN).half()
        for name, inputs, outputs in _MATRICES:
            tensors |= _random_matrix(torch, f"{layer}.{name}", (inputs, outputs), BITS)
    importlib.import_module("safetensors.torch").save_file(tensors, folder / "model.safetensors")


def _random_matrix(torch: Any, name: str, shape: tuple[int, int], bits: int) -> dict[str, object]:  # noqa: ANN401 -- a module
    """Return the four tensors of one matrix: random trellises are values about as those of a trained one."""
    inputs, outputs = shape
    tiles = (inputs // _TILE, outputs // _TILE, _TILE * bits)
    return {
        f"{name}.trellis": torch.randint(-(1 << 15), (1 << 15) - 1, tiles, dtype=torch.int16),
        f"{name}.suh": torch.ones(inputs).half(),
        f"{name}.svh": torch.full((outputs,), _SCALE).half(),
        f"{name}.mul1": torch.tensor(_CODEBOOK["marker"], dtype=torch.int32),
    }


if __name__ == "__main__":
    write_model(Path(sys.argv[1]))
