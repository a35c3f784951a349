"""SGLang that generates on a processor, with a stand-in for what it calls of `sgl_kernel`.

Its kernels for processors are not on PyPI (`sgl-kernel` there is for NVIDIA's cards). Where a processor has no AMX it
calls one of them for a model of Llama's kind, which notes where a request's tokens lie in the cache.
"""

from pathlib import Path

from tests.real_engines.on_cpu import make_once

NAME, VERSION = "sglang-cpu", "0.5.23"
_KERNEL = '''"""One of SGLang's kernels for processors, in plain PyTorch; every other refuses to be called."""

import torch  # before the kernels, as theirs does


def assign_req_to_token_pool_cpu(req_pool_indices, req_to_token, start_offset, end_offset, out_cache_loc, *_):
    at = 0
    for row, start, end in zip(req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist()):
        req_to_token[row, start:end] = out_cache_loc[at : at + end - start].to(req_to_token.dtype)
        at += end - start


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def refuse(*_, **__):
        raise NotImplementedError(f"sgl_kernel.{name} is not in this stand-in")

    return refuse
'''


def sglang_environment() -> Path:
    """Return an environment with both. Skips the test where it cannot be made."""
    return make_once(NAME, VERSION, _add_kernel)


def _add_kernel(site: Path) -> None:
    package = site / "sgl_kernel"
    package.mkdir()
    (package / "__init__.py").write_text(_KERNEL)
