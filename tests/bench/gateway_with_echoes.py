"""A whole gateway over engines that say the last message back, so that every answer of a soak can be checked.

ROUNDHOUSE_HOME=... python -m tests.bench.gateway_with_echoes MODEL...
"""

import os
import sys
from pathlib import Path

from app.gateway.main import main
from tests.fake_engine.adapter import FakeAdapter
from tests.fake_engine.behaviour import Behaviour
from tests.gguf_files import TinyLlama

ECHO = Behaviour(echoes=True, tokens_per_s=60.0, load_s=0.3)

if __name__ == "__main__":
    folder = Path(os.environ["ROUNDHOUSE_HOME"]) / "data" / "models"
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:]:
        TinyLlama().write(folder / f"{name}.gguf")
    behaviours = dict.fromkeys(sys.argv[1:], ECHO)
    sys.exit(main([], adapters={"fake": FakeAdapter(behaviours, has_lifeline=True)}))
