"""`python -m tests.bench.fit_exl3`: fit what is shipped of ExLlamaV3, to points of its own.

Its kernels read trellises, not llama.cpp's blocks, so that the share of the bandwidth they reach is their own too.
Ampere cards unpack them more slowly than later ones: a row of its own. Each card is also predicted without its points.
"""

import sys
from math import exp, log
from statistics import median

from app.advisor.speed.families import DEVICES, SOFTWARE, devices_in_use, software_class
from app.advisor.speed.reads import token_reads
from tests.bench.fit_speed import EFFICIENCY, EXPERTS, LAYER, RowParts, SpeedFit, fit_constants
from tests.bench.speed_rows import SpeedRow, exl3_rows


def class_of(row: SpeedRow) -> str:
    """Return the row of `SOFTWARE` a point belongs to."""
    device = devices_in_use(row.machine, row.setting)[0]
    return software_class(row.setting, device.kind, device.architecture)


def exl3_parts(row: SpeedRow) -> RowParts:
    """Return what each constant is multiplied with to give the seconds of one token."""
    device, name = devices_in_use(row.machine, row.setting)[0], class_of(row)
    reads = token_reads(row.facts, row.setting, depth=row.depth)
    return RowParts(
        layers={f"{LAYER} {name}": reads.plain_layers * 1e-6, f"{EXPERTS} {name}": reads.expert_layers * 1e-6},
        read={f"{EFFICIENCY} {name}": (reads.device_bytes + reads.device_cache_bytes) / device.bandwidth},
        unpack={},
    )


def predict_row(fit: SpeedFit, row: SpeedRow) -> float:
    """Return the tokens per second of a point by constants of a fit."""
    features = exl3_parts(row).active_features(fit.constants)
    return 1 / sum(fit.constants[name] * value for name, value in features.items())


def left_out_errors() -> dict[str, list[float]]:
    """Return, by class, by what factor minus one each point is off when its card is left out of the fit."""
    rows = exl3_rows()
    errors: dict[str, list[float]] = {}
    for row in rows:
        fit = fit_constants([other for other in rows if other.chip != row.chip], exl3_parts)
        errors.setdefault(class_of(row), []).append(exp(abs(log(predict_row(fit, row) / row.decode))) - 1)
    return errors


def main() -> None:
    """Print each constant as fitted and as shipped, and how far points are off that were left out."""
    fit = fit_constants(exl3_rows(), exl3_parts)
    for name in ("exl3", "exl3 ampere"):
        shipped_value = SOFTWARE[name]
        share = DEVICES["geforce"].efficiency * shipped_value.read_share
        rows = (
            (EFFICIENCY, 1 / fit.constants[f"{EFFICIENCY} {name}"], share),
            (LAYER, fit.constants[f"{LAYER} {name}"], shipped_value.layer_s * 1e6),
            (EXPERTS, fit.constants.get(f"{EXPERTS} {name}", 0.0), shipped_value.expert_layer_s * 1e6),
        )
        for kind, fitted_value, value in rows:
            sys.stdout.write(f"{kind} {name:14} {fitted_value:8.3f}   shipped {value:8.3f}\n")
    errors = left_out_errors()
    for name, of_class in (*errors.items(), ("all", [error for each in errors.values() for error in each])):
        nine_of_ten = sorted(of_class)[int(0.9 * len(of_class))]
        sys.stdout.write(f"{name:12} {len(of_class)} points, median {median(of_class):.3f}, p90 {nine_of_ten:.3f}\n")


if __name__ == "__main__":
    main()
