"""Plays `python -m dynamo.vllm`: vLLM's lines, and an entry in the file once the model is there. Ends as told."""

import os
import sys
import threading
from pathlib import Path

LINES = (
    "INFO 11-21 10:00:05 [default_loader.py:262] Loading safetensors checkpoint shards:  50% Completed | 1/2",
    "INFO 11-21 10:00:09 [gpu_model_runner.py:1892] Model loading took 15.27 GiB and 9.2 seconds",
)


def main() -> None:
    """Load, register, and serve nothing: the frontend is asked, and nobody asks it for text here."""
    end = os.environ.get("PLAYED_END")
    if end:
        sys.stderr.write(Path(end).read_text(encoding="utf-8"))
        sys.stderr.flush()
        os._exit(int(os.environ["PLAYED_CODE"]))
    for line in LINES:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    go = Path(os.environ["PLAYED_GO"])
    while not go.exists():
        threading.Event().wait(0.01)
    place = Path(os.environ["DYN_FILE_KV"])
    place.mkdir(exist_ok=True)
    name = sys.argv[sys.argv.index("--served-model-name") + 1]
    (place / "entry").write_text(name, encoding="utf-8")
    threading.Event().wait()


if __name__ == "__main__":
    main()
