"""Write `../openvino/`: the Guide as OpenVINO loads it, from `../guide-q8_0.gguf` and `../hf/`.

OpenVINO GenAI reads GGUF files of some architectures itself and can save what it made of them. The tokeniser it makes
of one splits numbers and contractions otherwise than the Guide's own: that one is converted from `../hf/`.
"""

import shutil
import tempfile
from pathlib import Path

import openvino
import openvino_genai
import openvino_tokenizers
from transformers import AutoTokenizer

GUIDE = Path(__file__).resolve().parents[1]
TARGET = GUIDE / "openvino"
BESIDE = ("config.json", "generation_config.json", "tokenizer_config.json", "chat_template.jinja")


def main() -> None:
    """Load the GGUF file, which saves its graph beside it, and convert the tokeniser."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "guide-q8_0.gguf"
        shutil.copyfile(GUIDE / source.name, source)
        openvino_genai.LLMPipeline(str(source), "CPU", enable_save_ov_model=True)
        shutil.rmtree(TARGET, ignore_errors=True)
        TARGET.mkdir()
        for path in Path(folder).glob("openvino_model.*"):
            shutil.copyfile(path, TARGET / path.name)
    tokenizer = AutoTokenizer.from_pretrained(GUIDE / "hf")
    graphs = openvino_tokenizers.convert_tokenizer(tokenizer, with_detokenizer=True, skip_special_tokens=True)
    for name, graph in zip(("tokenizer", "detokenizer"), graphs, strict=True):
        openvino.save_model(graph, TARGET / f"openvino_{name}.xml")
    for name in BESIDE:
        shutil.copyfile(GUIDE / "hf" / name, TARGET / name)
    print(f"{TARGET}: {sum(path.stat().st_size for path in TARGET.iterdir()):,} bytes")


if __name__ == "__main__":
    main()
