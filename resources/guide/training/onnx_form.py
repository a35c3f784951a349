"""Write `../onnx/`: the Guide as ONNX Runtime GenAI loads it, from `../hf/`. See README.md for what it needs.

The library's own builder makes it with 8-bit weights. It keeps the embedding in 32 bits beside the same weights of the
output layer in 8; here the embedding is read from those instead, which saves 2 MB of 7.6.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx
import onnxruntime_genai
from onnx import helper, numpy_helper

GUIDE = Path(__file__).resolve().parents[1]
BUILDER = Path(onnxruntime_genai.__file__).parent / "models" / "builder.py"
EMBEDDING = "model.embed_tokens.weight"
WEIGHTS, SCALES = "lm_head.MatMul.weight_Q8", "lm_head.MatMul.weight_scales"
DATA = "model.onnx.data"
ZERO = 128
"""What the 8-bit weights of MatMulNBits count from where no zero points are given."""


def main() -> None:
    """Build, shrink, and put the result in its place."""
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder)
        options = ("-i", str(GUIDE / "hf"), "-m", "guide", "-o", str(built), "-p", "int8", "-e", "cpu")
        subprocess.run((sys.executable, str(BUILDER), *options), check=True, stderr=subprocess.DEVNULL)
        model = onnx.load(str(built / "model.onnx"))
        share_embedding(model.graph)
        target = GUIDE / "onnx"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        onnx.save(model, str(target / "model.onnx"), save_as_external_data=True, location=DATA)
        for name in ("genai_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            shutil.copyfile(built / name, target / name)
    print(f"{target}: {sum(path.stat().st_size for path in target.iterdir()):,} bytes")


def share_embedding(graph: onnx.GraphProto) -> None:
    """Have the embedding computed from the output layer's weights: the rows of the tokens, times their scales."""
    gather = next(node for node in graph.node if EMBEDDING in node.input)
    tokens, rows = gather.input[1], gather.output[0]
    width = next(initializer.dims[1] for initializer in graph.initializer if initializer.name == EMBEDDING)
    kept = [initializer for initializer in graph.initializer if initializer.name != EMBEDDING]
    constants = {"zero": ("float32", [float(ZERO)]), "last": ("int64", [3]), "shape": ("int64", [0, 0, width])}
    kept += [numpy_helper.from_array(_array(*value), f"embed.{name}") for name, value in constants.items()]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    steps = [
        helper.make_node("Gather", [WEIGHTS, tokens], ["embed.bytes"], name="embed.weights"),
        helper.make_node("Cast", ["embed.bytes"], ["embed.floats"], name="embed.cast", to=onnx.TensorProto.FLOAT),
        helper.make_node("Sub", ["embed.floats", "embed.zero"], ["embed.signed"], name="embed.sub"),
        helper.make_node("Gather", [SCALES, tokens], ["embed.scales"], name="embed.gather_scales"),
        helper.make_node("Unsqueeze", ["embed.scales", "embed.last"], ["embed.each"], name="embed.unsqueeze"),
        helper.make_node("Mul", ["embed.signed", "embed.each"], ["embed.blocks"], name="embed.mul"),
        helper.make_node("Reshape", ["embed.blocks", "embed.shape"], [rows], name="embed.reshape"),
    ]
    at = list(graph.node).index(gather)
    nodes = [*graph.node[:at], *steps, *graph.node[at + 1 :]]
    del graph.node[:]
    graph.node.extend(nodes)


def _array(kind: str, values: list[float]):  # noqa: ANN202 -- NumPy's type, which is no dependency here
    import numpy as np  # noqa: PLC0415 -- comes with onnx

    return np.array(values, dtype=kind)


if __name__ == "__main__":
    main()
