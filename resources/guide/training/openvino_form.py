"""Write `../openvino/`: the Guide as OpenVINO loads it, from `../guide-q8_0.gguf`. Needs `openvino-genai` only.

OpenVINO GenAI reads GGUF files of some architectures itself and can save what it made of them.
"""

import shutil
import tempfile
from pathlib import Path

import openvino_genai

GUIDE = Path(__file__).resolve().parents[1]
TARGET = GUIDE / "openvino"
BESIDE = ("config.json", "generation_config.json", "tokenizer_config.json", "chat_template.jinja")


def main() -> None:
    """Load the GGUF file, which saves the graphs beside it, and put them in their place."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "guide-q8_0.gguf"
        shutil.copyfile(GUIDE / source.name, source)
        openvino_genai.LLMPipeline(str(source), "CPU", enable_save_ov_model=True)
        shutil.rmtree(TARGET, ignore_errors=True)
        TARGET.mkdir()
        for path in Path(folder).glob("openvino_*"):
            shutil.copyfile(path, TARGET / path.name)
    for name in BESIDE:
        shutil.copyfile(GUIDE / "hf" / name, TARGET / name)
    print(f"{TARGET}: {sum(path.stat().st_size for path in TARGET.iterdir()):,} bytes")


if __name__ == "__main__":
    main()
