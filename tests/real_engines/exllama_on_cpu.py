"""Both ExLlamas on a processor: the real libraries, with stand-ins for what they compile for cards.

Their Python (generators, jobs, pages of the cache, samplers, filters, tokenisers, loaders) is the wheels' own. PyTorch
takes the processor for a card, and the functions of their extensions and ExLlamaV3's attention, which Triton compiles,
are those of `tests/fake_exllama/compiled`.
"""

import os
from pathlib import Path

from app.engine_store.version_store import interpreter_in
from engines.api import EngineInstallation
from tests.real_engines.on_cpu import make_once

NAME = "exllama-cpu"
VERSIONS = {"exllamav3": "1.6.5", "exllamav2": "0.3.2"}
_ROOT = Path(__file__).resolve().parents[2]
_STAND_INS = _ROOT / "tests" / "fake_exllama" / "compiled"
ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join((str(_ROOT), str(_STAND_INS))),
    "EXL3_BC_ATTN": "0",  # attention as one graph of kernels, which Triton would compile
    "OMP_NUM_THREADS": "1",
}
"""What a worker is started with."""


def exllama_installation(engine: str) -> EngineInstallation:
    """Return an installation with both. Skips the test where it cannot be made."""
    place = make_once(NAME, VERSIONS["exllamav3"], lambda _site: None)
    return EngineInstallation(engine=engine, version=VERSIONS[engine], backend="cuda", python=interpreter_in(place))
