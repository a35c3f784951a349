"""ExLlamaV2's attention over pages against attention written out, with the real PyTorch on the processor."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.real_engines.exllama_on_cpu import exllama_installation

ROOT = Path(__file__).resolve().parents[2]
_ROUNDING = 1e-5
"""Of numbers of 32 bits near 1, summed over a few hundred."""
_OPERATIONS = 30
"""Of PyTorch for each of five layers: there were 49 while every layer made its own mask and places."""


@pytest.mark.engines
@pytest.mark.timeout(600)
def test_pages_are_read_as_if_each_request_lay_in_one_piece() -> None:
    python = exllama_installation("exllamav2").python
    command = [str(python), "-m", "tests.real_engines.compare_attention"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    findings = json.loads(result.stdout)
    assert findings["difference"] < _ROUNDING
    assert max(findings["operations"].values()) < _OPERATIONS
