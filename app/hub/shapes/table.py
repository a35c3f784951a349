"""The table of well-known models, `resources/shapes/models.toml`, and how a name finds its row."""

import tomllib
from functools import cache

from app.hub.shapes.architectures import SHAPES
from app.hub.shapes.names import fit, split_name, words
from app.hub.shapes.shape import Shape, shape_from


@cache
def shapes() -> list[Shape]:
    """Return every model of the table."""
    raw = tomllib.loads((SHAPES / "models.toml").read_text(encoding="utf-8"))
    return [
        shape_from(name, architecture, figures)
        for architecture, models in raw.items()
        for name, figures in models.items()
    ]


def find(name: str) -> Shape | None:
    """Return the model a name means, whatever vendor, quantisation or fine-tune it says besides; None if none does."""
    cut = words(split_name(name)[0])
    best = max(shapes(), key=lambda shape: _fit(shape, cut))
    return best if _fit(best, cut) else None


def _fit(shape: Shape, cut: list[str]) -> int:
    return max((fit(pattern, cut) for pattern in shape.patterns), default=0)
