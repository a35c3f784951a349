"""The oracle is broad: many architectures, each of which llama.cpp really loads."""

from pathlib import Path

import pytest

from app.hub.shapes.shape import Shape
from tests.oracle import load
from tests.oracle_models import models, write_model


def test_there_are_many_architectures() -> None:
    assert len({model.architecture for model in models()}) >= 70


@pytest.mark.real_engine
@pytest.mark.parametrize("model", models(), ids=lambda model: model.name)
def test_llama_cpp_loads_it_without_weights(model: Shape, tmp_path: Path) -> None:
    found = load(write_model(tmp_path, model))
    assert found.of("model") > 0
    assert found.of("compute") > 0
