"""The table of well-known models, `resources/shapes/models.toml`, and how a name finds its row."""

import tomllib
from functools import cache

from app.hub.shapes.architectures import SHAPES
from app.hub.shapes.names import count_matches, name_words, split_name
from app.hub.shapes.shape import ModelShape, shape_from


@cache
def list_shapes() -> list[ModelShape]:
    """Return every model of the table."""
    raw = tomllib.loads((SHAPES / "models.toml").read_text(encoding="utf-8"))
    return [
        shape_from(name, architecture, figures)
        for architecture, models in raw.items()
        for name, figures in models.items()
    ]


def find_shape(name: str) -> ModelShape | None:
    """Return the model a name means, whatever vendor, quantisation or fine-tune it says besides; None if none does."""
    cut = name_words(split_name(name)[0])
    best = max(list_shapes(), key=lambda shape: _best_match(shape, cut))
    return best if _best_match(best, cut) else None


def _best_match(shape: ModelShape, cut: list[str]) -> int:
    return max((count_matches(pattern, cut) for pattern in shape.patterns), default=0)
