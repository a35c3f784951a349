"""The oracle is broad: many architectures and kinds of memory, each written as a file with nothing in it.

That llama.cpp loads every one of them, and allocates what we compute, is shown where estimates are tested.
"""

from pathlib import Path

import pytest

from app.hub.shapes.architectures import architecture_names
from app.hub.shapes.shape import ModelShape
from tests.oracle_models import QUANTIZATION, models, write_model
from tests.weightless import tensor_bytes


def test_every_architecture_has_a_model() -> None:
    assert {model.architecture for model in models()} == set(architecture_names())
    assert len(architecture_names()) >= 70


@pytest.mark.parametrize("model", models(), ids=lambda model: model.name)
def test_its_file_is_as_long_as_its_tensors(model: ModelShape, tmp_path: Path) -> None:
    tensors_bytes = sum(tensor_bytes(tensor) for tensor in model.build_tensors(QUANTIZATION))
    size = write_model(tmp_path, model).stat().st_size
    assert tensors_bytes < size < tensors_bytes + 64 * len(model.list_outlines()) + 64_000
