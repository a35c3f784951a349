"""The buffers llama.cpp computes in: what is alive at the fullest moment of its largest graph."""

from collections.abc import Iterator

from app.advisor import kv
from app.advisor.layer_split import layer_places
from app.advisor.memory_setting import HOST, Component, Part, Setting
from app.core.advice import EstimateConfidence
from app.core.model_facts import AttentionKind, ModelFacts

FLOAT = 4
MASK = 2
"""The attention mask is F16."""
LIMITS_OUTPUTS_FROM = 10_000
"""About the first build whose server reserves logits for one token per conversation instead of for a whole batch:
reports of May 2026 show the old size, of August 2026 the new."""


def compute_parts(facts: ModelFacts, setting: Setting) -> Iterator[Part]:
    """Yield the compute buffers of system memory and of every GPU used."""
    tokens = min(setting.batch, kv.padded(setting.total_context))
    places = sorted({place for place in layer_places(facts, setting) if place != HOST})
    inputs = _inputs(facts, setting, tokens)
    for place in places:
        yield _part(place, _graph(facts, setting, tokens) + _mask(facts, setting, tokens))
    yield _part(HOST, inputs if places else _graph(facts, setting, tokens) + _mask(facts, setting, tokens))


def _part(place: int, size: int) -> Part:
    return Part(place=place, component=Component.COMPUTE, bytes=size, confidence=EstimateConfidence.PREDICTED)


def _graph(facts: ModelFacts, setting: Setting, tokens: int) -> int:
    if not (setting.limits_outputs and setting.build >= LIMITS_OUTPUTS_FROM):
        return (facts.vocabulary + facts.hidden) * tokens * FLOAT
    width = max((layer.feed_forward for layer in facts.layers), default=0)
    return (3 * width + 5 * facts.hidden) * tokens * FLOAT


def _mask(facts: ModelFacts, setting: Setting, tokens: int) -> int:
    kinds = {layer.attention: kv.cells(layer, setting) for layer in facts.layers if layer.attention in _MASKED}
    return sum(cells * tokens * MASK for cells in kinds.values())


def _inputs(facts: ModelFacts, setting: Setting, tokens: int) -> int:
    return _mask(facts, setting, tokens) + 2 * facts.hidden * tokens * FLOAT


_MASKED = (AttentionKind.FULL, AttentionKind.LATENT, AttentionKind.SLIDING, AttentionKind.CHUNKED)
