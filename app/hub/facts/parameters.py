"""How many parameters a model has, and how many of them one token reads."""

from collections.abc import Sequence

from app.core.model_facts import Layer, WeightGroup, WeightKind
from app.hub.gguf.values import MAX_NUMBER, corrupt_error

_NOT_READ = frozenset({WeightKind.DRAFT, WeightKind.PROJECTOR})
"""Plain decoding of text touches neither."""


def active_parameters(groups: Sequence[WeightGroup], layers: Sequence[Layer], *, rows: int, tied: int = 0) -> int:
    """Return the parameters read for one token.

    All but the experts not chosen and the input embedding, of which one row of `rows` is read; `tied` is the size of
    the part of it that is read again, whole, as the output matrix. Raises BadRequest (model_corrupt).
    """
    total = tied + sum(_read_share(group, layers, rows) for group in groups)
    if total > MAX_NUMBER:
        raise corrupt_error("it claims more parameters than any model has")
    return total


def _read_share(group: WeightGroup, layers: Sequence[Layer], rows: int) -> int:
    if group.kind in _NOT_READ:
        return 0
    if group.kind is WeightKind.INPUT_EMBEDDING:
        return group.elements // max(1, rows)
    if group.kind is WeightKind.EXPERTS and group.layer is not None and group.layer < len(layers):
        layer = layers[group.layer]
        return group.elements * layer.experts_used // layer.experts if layer.experts else group.elements
    return group.elements
