"""How a model's layers lie over several machines, whether they fit, and how fast it would write. Pure.

The first layers are computed here and the others there, one machine after the other:

    t = sum over machines of bytes read / (efficiency x bandwidth) + layers x cost per layer
      + for each other machine round trips, and the hidden state there and back over the link

Layers are dealt out in proportion to what each machine has free. Nothing here was fitted to more than one link.
"""

from collections.abc import Sequence

import msgspec

from app.advisor.memory.kv import pad_tokens, row_bytes
from app.advisor.memory.setting import RunSetting
from app.advisor.speed.families import DEVICES, SOFTWARE
from app.core.across import AcrossPlan, LayerShare
from app.core.model_facts import ModelFacts, WeightGroup, WeightKind
from app.core.words import format_bytes, format_rate, format_tokens


class SpanCosts(msgspec.Struct, frozen=True, kw_only=True):
    """What one way of spreading a model costs beside its weights and its cache."""

    compute_bytes: int
    """For buffers to compute in, and the engine's libraries, on each machine."""
    round_trips: int
    """Of a token to one machine."""
    hidden_bytes: int
    """Of each number of the state between layers."""
    step_s: float = 0.0
    """Of software for each token, on each machine."""


LAYER_COSTS = SpanCosts(compute_bytes=256 << 20, round_trips=2, hidden_bytes=4)
"""llama.cpp's RPC: it takes 50 to 300 MiB with batches of 512. A token's input is set and its graph begun, and its
output is fetched; the state travels in F32."""
NODE_COSTS = SpanCosts(compute_bytes=2 << 30, round_trips=1, hidden_bytes=4, step_s=5e-3)
"""A process of vLLM or SGLang on each: PyTorch and its threads come to 2 GiB. The state goes there as two numbers of 16
bits, and the token comes back. On a processor vLLM alone wrote 145 to 250 tokens/s of a model read in no time, and 120
over two processes: each adds a step of its own."""
_GIVEN_HERE = frozenset({WeightKind.INPUT_EMBEDDING, WeightKind.LOOKUP_TABLE})


class MachineRoom(msgspec.Struct, frozen=True, kw_only=True):
    """What one machine has for layers. The first is this one, without a link."""

    name: str
    free_bytes: int
    bandwidth_gb_s: float | None
    latency_ms: float = 0.0
    link_mb_s: float | None = None


def plan_layers(
    facts: ModelFacts, setting: RunSetting, machines: Sequence[MachineRoom], costs: SpanCosts = LAYER_COSTS
) -> AcrossPlan:
    """Return which machine holds how many layers, counted from the first, and what that comes to."""
    sizes = [_layer_bytes(facts, setting, layer) for layer in range(len(facts.layers))]
    counts = deal_out(sizes, [machine.free_bytes for machine in machines])
    shares, first = [], 0
    for number, (machine, count) in enumerate(zip(machines, counts, strict=True)):
        is_last = number == len(machines) - 1
        outside = _outside_bytes(facts, is_first=number == 0, is_last=is_last)
        layers = range(first, first + count)
        reads = sum((_read_bytes(facts, layer) for layer in layers), float(_output_bytes(facts) if is_last else 0))
        needed_bytes = sum(sizes[layer] for layer in layers) + outside + costs.compute_bytes
        part = _Part(layers=layers, needed_bytes=needed_bytes, read_bytes=reads)
        shares.append(_describe_share(machine, facts, part, costs))
        first += count
    return _describe_plan(facts, setting, shares, costs.step_s)


def deal_out(costs: Sequence[int], free: Sequence[int]) -> list[int]:
    """Return how many layers each machine gets, in their order: in proportion to what is free, at least one each.

    Raises ValueError where there are fewer layers than machines.
    """
    if len(costs) < len(free):
        raise ValueError("there are fewer layers than machines")
    total, room = sum(costs), max(1, sum(free))
    counts, layer, spent_bytes, allowed_bytes = [], 0, 0, 0.0
    for number, machine_free in enumerate(free):
        allowed_bytes += total * machine_free / room
        after = len(free) - number - 1
        count = 0
        while layer < len(costs) - after and (
            count == 0 or after == 0 or spent_bytes + costs[layer] / 2 <= allowed_bytes
        ):
            spent_bytes += costs[layer]
            layer, count = layer + 1, count + 1
        counts.append(count)
    return counts


def _layer_bytes(facts: ModelFacts, setting: RunSetting, layer: int) -> int:
    weights = sum(group.padded_bytes for group in facts.weights if group.layer == layer)
    cells = pad_tokens(setting.context) * setting.slots
    about = facts.layers[layer]
    state = 4 * (about.conv_elements + about.state_elements) * setting.slots  # F32
    return weights + cells * row_bytes(about, setting) + state


def _outside_bytes(facts: ModelFacts, *, is_first: bool, is_last: bool) -> int:
    given_bytes = sum(group.padded_bytes for group in facts.weights if group.kind in _GIVEN_HERE) if is_first else 0
    return given_bytes + (_output_bytes(facts) if is_last else 0)


def _output_bytes(facts: ModelFacts) -> int:
    kinds = {WeightKind.INPUT_EMBEDDING} if facts.tied_embeddings else {WeightKind.OUTPUT}
    return sum(group.padded_bytes for group in facts.weights if group.kind in kinds)


def _read_bytes(facts: ModelFacts, layer: int) -> float:
    return sum(group.bytes * _share_read(facts, group) for group in facts.weights if group.layer == layer)


def _share_read(facts: ModelFacts, group: WeightGroup) -> float:
    if group.kind is not WeightKind.EXPERTS or group.layer is None or not facts.layers[group.layer].experts:
        return 1.0
    about = facts.layers[group.layer]
    return about.experts_used / about.experts


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    layers: range
    needed_bytes: int
    read_bytes: float


def _describe_share(machine: MachineRoom, facts: ModelFacts, part: _Part, costs: SpanCosts) -> LayerShare:
    layers, read_bytes = part.layers, part.read_bytes
    token_ms, arithmetic = None, "the bandwidth of its memory is not known"
    if machine.bandwidth_gb_s:
        efficiency, layer_s = DEVICES["cpu measured"].efficiency, SOFTWARE["cpu"].layer_s
        token_ms = read_bytes / (efficiency * machine.bandwidth_gb_s * 1e6) + len(layers) * layer_s * 1e3
        arithmetic = (
            f"{read_bytes / 1e9:.2f} GB / ({efficiency:.2f} x {machine.bandwidth_gb_s:.0f} GB/s)"
            f" + {len(layers)} x {layer_s * 1e6:.0f} µs"
        )
        if machine.link_mb_s:
            state = 2 * facts.hidden * costs.hidden_bytes
            token_ms += costs.round_trips * machine.latency_ms + state / (machine.link_mb_s * 1e3)
            arithmetic += (
                f" + {costs.round_trips} x {machine.latency_ms:.2f} ms"
                f" + {state / 1e3:.1f} kB / {machine.link_mb_s:.0f} MB/s"
            )
    return LayerShare(
        name=machine.name,
        first_layer=layers.start,
        layers=len(layers),
        needed_bytes=part.needed_bytes,
        free_bytes=machine.free_bytes,
        token_ms=token_ms,
        arithmetic=arithmetic,
        latency_ms=machine.latency_ms if machine.link_mb_s else None,
        link_mb_s=machine.link_mb_s,
    )


def _describe_plan(facts: ModelFacts, setting: RunSetting, shares: Sequence[LayerShare], step_s: float) -> AcrossPlan:
    times = [share.token_ms for share in shares if share.token_ms is not None]
    token_ms = sum(times, len(shares) * step_s * 1e3)
    rate = 1e3 / token_ms if len(times) == len(shares) and token_ms else None
    short = [share for share in shares if not share.fits]
    sentence = (
        f"{facts.name} fits over {len(shares)} computers with {format_tokens(setting.context)} tokens of context."
        if not short
        else f"{facts.name} does not fit: {short[0].name} would need {format_bytes(short[0].needed_bytes)} and has "
        f"{format_bytes(short[0].free_bytes)} free."
    )
    return AcrossPlan(
        model=facts.name,
        context=setting.context,
        shares=list(shares),
        fits=not short,
        sentence=sentence,
        reasons=list(_plan_reasons(shares, rate)),
        tokens_per_second=rate,
        engine=setting.engine.id,
        engine_name=setting.engine.name,
        slots=setting.slots,
    )


def _plan_reasons(shares: Sequence[LayerShare], rate: float | None) -> list[str]:
    needed_bytes = sum(share.needed_bytes for share in shares)
    reasons = ["The computers work one after another, so the layers of each add their time to every token."]
    if needed_bytes <= shares[0].free_bytes:
        reasons.append(
            "It would fit on this machine alone, where no token waits for the network: that is usually faster."
        )
    if rate is not None:
        reasons.append(f"About {format_rate(rate)}, computed from memory, the link and the software; not measured.")
    return reasons
