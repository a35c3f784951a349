"""NVIDIA Dynamo with vLLM as its worker, on a processor. 1.6.1 asks for a package that PyPI has no wheel of."""

from pathlib import Path

from tests.real_engines.on_cpu import call_vllm_by_its_name, make_once

NAME, VERSION, VLLM_VERSION = "dynamo-cpu", "1.6.0", "0.31.0"


def dynamo_environment() -> Path:
    """Return an environment with both. Skips the test where it cannot be made."""
    return make_once(NAME, VERSION, lambda site: call_vllm_by_its_name(site, VLLM_VERSION))
