"""`python -m tests.bench.fit_speed`: fit the constants of `app.advisor.speed.families`, beside those shipped.

A prediction is a sum of products: bytes by 1/efficiency, layers by cost per layer. So the constants are the weighted
least squares of relative errors, made robust, with what is known beforehand as a prior. Only training rows are used;
each chip counts alike however many rows it has.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import exp, log
from statistics import median

import msgspec

from app.advisor.speed.estimate import is_early, prefill_kind, prefill_operations
from app.advisor.speed.families import (
    DEVICES,
    PREFILL,
    PREFILL_EARLY,
    SOFTWARE,
    SpeedDevice,
    devices_in_use,
    software_class,
)
from app.advisor.speed.reads import TokenReads, token_reads
from tests.bench.speed_rows import SpeedRow, fit_rows

NOISE = 0.06
"""Relative error of one published measurement: drivers, clocks, cooling."""
ROUNDS = 12

EFFICIENCY, LAYER, EXPERTS = "efficiency of", "layer with", "expert layer with"
OPERATIONS, K_OPERATIONS = "operations on", "K-quant operations on"
KINDS = (EFFICIENCY, OPERATIONS, K_OPERATIONS, EXPERTS, LAYER)


class Prior(msgspec.Struct, frozen=True):
    """What a constant is believed to be before any row, and how firmly. Efficiencies as their inverse, times in us."""

    value: float
    doubt: float


_PRIORS: dict[str, Prior] = {
    EFFICIENCY: Prior(1 / 0.85, 0.08),
    f"{EFFICIENCY} hbm": Prior(1 / 0.75, 0.15),
    f"{EFFICIENCY} unified": Prior(1 / 0.80, 0.10),
    f"{EFFICIENCY} cpu": Prior(1 / 0.65, 0.20),
    f"{EFFICIENCY} cpu measured": Prior(1 / 0.85, 0.10),
    OPERATIONS: Prior(12.0, 6.0),
    f"{OPERATIONS} cpu": Prior(1.0, 0.05),
    f"{K_OPERATIONS} cpu": Prior(1.0, 0.05),
    K_OPERATIONS: Prior(15.0, 6.0),
    LAYER: Prior(45.0, 30.0),
    f"{LAYER} cpu": Prior(120.0, 40.0),
    f"{LAYER} metal early": Prior(118.0, 30.0),
    EXPERTS: Prior(20.0, 25.0),
    f"{EXPERTS} cpu": Prior(500.0, 300.0),
}
"""hardware-fit 4.1: discrete cards reach 0.84 to 0.86 of their bandwidth, memory of data-centre cards and processors
less, at 28 to 45 us per layer, 118 us with Metal in 2023. On processors 118 to 286 us were measured with the Guide and
two busy cores: Roundhouse lets threads sleep. Choosing among experts costs them 0.5 to 2 ms a layer: gpt-oss 20B and
LFM2.5 8B-A1B on an i7-1365U, Qwen3.6 35B-A3B on a Core Ultra 7 155H, beside dense models there (llmfit, localmaxxing,
2026). By kind, where a class is not named."""


class SpeedFit(msgspec.Struct, frozen=True):
    """Constants by name, as `_PRIORS` names them; efficiencies inverse, times in microseconds."""

    constants: dict[str, float]

    def token_seconds(self, row: SpeedRow) -> float:
        """Return the seconds one token takes, as `app.advisor.speed.estimate.decode_rate` computes them."""
        return _sum(row_parts(row).active_features(self.constants), self.constants)

    def tokens_per_second(self, row: SpeedRow) -> float:
        """Return the tokens per second."""
        return 1 / self.token_seconds(row)


def prior_of(name: str) -> Prior:
    """Return what is believed of a constant beforehand."""
    if name in _PRIORS:
        return _PRIORS[name]
    return _PRIORS[next(kind for kind in KINDS if name.startswith(kind))]


class RowParts(msgspec.Struct, frozen=True):
    """What each constant is multiplied with to give the seconds of one token: reading or unpacking, and layers."""

    layers: dict[str, float]
    read: dict[str, float]
    unpack: dict[str, float]

    def active_features(self, constants: Mapping[str, float]) -> dict[str, float]:
        """Return those that count: of reading and unpacking the one that takes longer, which the constants decide."""
        slower = max(self.read, self.unpack, key=lambda side: _sum(side, constants))
        return self.layers | slower


def row_parts(row: SpeedRow) -> RowParts:
    """Return the parts of a row."""
    device = _device(row)
    reads = token_reads(row.facts, row.setting, depth=row.depth)
    software = software_class(row.setting, device.kind, device.architecture)
    return RowParts(
        layers={f"{LAYER} {software}": reads.plain_layers * 1e-6, f"{EXPERTS} {software}": reads.expert_layers * 1e-6},
        read={f"{EFFICIENCY} {device.kind}": (reads.device_bytes + reads.device_cache_bytes) / device.bandwidth},
        unpack=_unpack_features(reads, device) if device.flops else {},
    )


def _unpack_features(reads: TokenReads, device: SpeedDevice) -> dict[str, float]:
    kind, rate = DEVICES[device.kind], device.flops / 2
    of = device.kind.removesuffix(" ultra")
    features = {}
    if kind.operations:
        features[f"{OPERATIONS} {of}"] = (reads.device_elements - reads.device_k_elements) / rate
    if kind.k_operations:
        features[f"{K_OPERATIONS} {of}"] = reads.device_k_elements / rate
    return features


def _sum(features: Mapping[str, float], constants: Mapping[str, float]) -> float:
    return sum(constants.get(name, prior_of(name).value) * value for name, value in features.items())


def fit_constants(rows: Sequence[SpeedRow], parts_of: Callable[[SpeedRow], RowParts] = row_parts) -> SpeedFit:
    """Return the constants that explain the rows best."""
    each_chip = Counter(row.chip for row in rows)
    base = [1 / each_chip[row.chip] ** 0.5 / NOISE**2 for row in rows]
    weights, constants, known_rates = list(base), dict[str, float](), [(parts_of(row), row.decode) for row in rows]
    for _ in range(ROUNDS):
        table = [_scale_features(row_features.active_features(constants), rate) for row_features, rate in known_rates]
        names = sorted({name for row_features in table for name in row_features})
        constants = _least_squares(table, weights, names)
        errors = [abs(_sum(row_features, constants) - 1) for row_features in table]
        weights = [full * min(1.0, 1.5 * NOISE / max(error, 1e-9)) for full, error in zip(base, errors, strict=True)]
    return SpeedFit(constants)


def _scale_features(features: Mapping[str, float], by: float) -> dict[str, float]:
    return {name: value * by for name, value in features.items()}


def _least_squares(
    table: Sequence[Mapping[str, float]], weights: Sequence[float], names: Sequence[str]
) -> dict[str, float]:
    """Solve for relative errors of zero; a constant that would be negative is set to nothing and the rest solved."""
    kept_names = list(names)
    while True:
        matrix = [[0.0] * (len(kept_names) + 1) for _ in kept_names]
        for index, name in enumerate(kept_names):
            belief = prior_of(name)
            matrix[index][index] += 1 / belief.doubt**2
            matrix[index][-1] += belief.value / belief.doubt**2
        for features, weight in zip(table, weights, strict=True):
            present = [(kept_names.index(name), value) for name, value in features.items() if name in kept_names]
            for row, value in present:
                matrix[row][-1] += weight * value
                for column, other in present:
                    matrix[row][column] += weight * value * other
        solved_constants = dict(zip(kept_names, _solve_equations(matrix), strict=True))
        if all(value >= 0 for value in solved_constants.values()):
            return {**dict.fromkeys(names, 0.0), **solved_constants}
        kept_names = [name for name in kept_names if solved_constants[name] >= 0]


def _solve_equations(matrix: list[list[float]]) -> list[float]:
    """Solve linear equations by elimination with pivoting; the last column is the right-hand side."""
    size = len(matrix)
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(matrix[row][column]))
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        top = matrix[column]
        for row in range(size):
            if row != column and matrix[row][column]:
                factor = matrix[row][column] / top[column]
                matrix[row] = [value - factor * above for value, above in zip(matrix[row], top, strict=True)]
    return [matrix[row][-1] / matrix[row][row] for row in range(size)]


class PrefillFit(msgspec.Struct, frozen=True):
    """Share of the arithmetic rate by class of device, what experts leave of it, and what early builds reached."""

    shares: dict[str, float]
    experts: dict[str, float]
    early: float

    def tokens_per_second(self, row: SpeedRow) -> float:
        """Return the tokens per second of a prompt, as `app.advisor.speed.estimate.prefill_rate` computes them."""
        device = _device(row)
        kind = prefill_kind(device)
        usual = PREFILL.get(kind, PREFILL["unknown"])
        share = self.shares.get(kind, usual.share) * (self.early if is_early(row.setting, device) else 1.0)
        if has_experts(row):
            share *= self.experts.get(kind, usual.expert_share)
        return share * device.flops / _operations_per_token(row)


def fit_prefill(rows: Sequence[SpeedRow]) -> PrefillFit:
    """Return, per class, the median over chips of what dense models reach, and of what experts leave."""
    prefill_rows = [row for row in rows if has_prefill(row)]
    dense = [row for row in prefill_rows if not has_experts(row)]
    shares = _medians((row, _reach_of(row)) for row in dense if not is_early(row.setting, _device(row)))
    ratios = [
        _reach_of(row) / shares[_kind(row)]
        for row in dense
        if is_early(row.setting, _device(row)) and _kind(row) in shares
    ]
    experts = _medians(
        (row, _reach_of(row) / shares[_kind(row)]) for row in prefill_rows if has_experts(row) and _kind(row) in shares
    )
    return PrefillFit(shares, experts, median(ratios) if ratios else PREFILL_EARLY)


def has_prefill(row: SpeedRow) -> bool:
    """Whether a row tells how fast a prompt was read by a device whose arithmetic rate is known."""
    return bool(row.prefill) and row.setting.uses_gpu and _device(row).flops > 0


def has_experts(row: SpeedRow) -> bool:
    """Whether the model of a row chooses among experts."""
    return any(layer.experts for layer in row.facts.layers)


def _medians(values: Iterable[tuple[SpeedRow, float]]) -> dict[str, float]:
    by_chip: dict[str, dict[str, list[float]]] = {}
    for row, value in values:
        by_chip.setdefault(_kind(row), {}).setdefault(row.chip, []).append(log(value))
    return {kind: exp(median(map(median, chips.values()))) for kind, chips in by_chip.items()}


def _device(row: SpeedRow) -> SpeedDevice:
    return devices_in_use(row.machine, row.setting)[0]


def _kind(row: SpeedRow) -> str:
    return prefill_kind(_device(row))


def _reach_of(row: SpeedRow) -> float:
    return (row.prefill or 0.0) * _operations_per_token(row) / _device(row).flops


def _operations_per_token(row: SpeedRow) -> float:
    return prefill_operations(row.facts, tokens=row.prompt) / row.prompt


def main() -> None:
    """Print each constant as fitted and as shipped."""
    rows = fit_rows()
    decode_fit, prompts = fit_constants(rows), fit_prefill(rows)
    out = sys.stdout.write
    out(f"{len(rows)} training rows, {len({row.chip for row in rows})} chips\n\n")
    for name, value in sorted(decode_fit.constants.items()):
        out(f"{name:38} {display_value(name, value):8.3f}   shipped {value_in_use(name):8.3f}\n")
    for kind, errors in sorted(cross_validate(rows).items()):
        nine_of_ten = sorted(errors)[min(len(errors) - 1, int(0.9 * len(errors)))]
        text = f"{nine_of_ten:8.3f}   shipped {DEVICES[kind].spread:8.3f}"
        out(f"spread of {kind:28} {text}   ({len(errors)} rows left out)\n")
    for kind, share in sorted(prompts.shares.items()):
        out(f"prefill share of {kind:21} {share:8.3f}   shipped {PREFILL[kind].share:8.3f}\n")
    out(f"prefill of early builds               {prompts.early:8.3f}   shipped {PREFILL_EARLY:8.3f}\n")
    for kind, share in sorted(prompts.experts.items()):
        out(f"prefill with experts of {kind:14} {share:8.3f}   shipped {PREFILL[kind].expert_share:8.3f}\n")


def cross_validate(rows: Sequence[SpeedRow]) -> dict[str, list[float]]:
    """Return, by class of device, by what factor minus one each row is off when its chip is left out of the fit."""
    fits = {chip: fit_constants([row for row in rows if row.chip != chip]) for chip in {row.chip for row in rows}}
    errors_by_kind: dict[str, list[float]] = {}
    for row in rows:
        error = abs(log(fits[row.chip].tokens_per_second(row) / row.decode))
        errors_by_kind.setdefault(_device(row).kind, []).append(exp(error) - 1)
    return errors_by_kind


def display_value(name: str, value: float) -> float:
    """Return a constant as it is shipped: efficiencies as such, times in microseconds."""
    return 1 / value if name.startswith(EFFICIENCY) else value


def value_in_use(name: str) -> float:
    """Return what `app.advisor.speed.families` holds for a constant of the fit."""
    kind = next(kind for kind in KINDS if name.startswith(f"{kind} "))
    of = name.removeprefix(f"{kind} ")
    if kind == EFFICIENCY:
        return DEVICES[of].efficiency
    if kind in (OPERATIONS, K_OPERATIONS):
        return DEVICES[of].operations if kind == OPERATIONS else DEVICES[of].k_operations
    return 1e6 * (SOFTWARE[of].layer_s if kind == LAYER else SOFTWARE[of].expert_layer_s)


if __name__ == "__main__":
    main()
