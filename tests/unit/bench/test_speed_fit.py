import pytest

from app.advisor.speed.estimate import decode_rate
from app.advisor.speed.families import DEVICES, PREFILL, PREFILL_EARLY, SOFTWARE
from tests.bench.fit_speed import EFFICIENCY, SpeedFit, display_value, fit_constants, fit_prefill, value_in_use
from tests.bench.speed_rows import BOARD, MAIN, SPILL, all_rows, evaluation_rows, fit_rows

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def speed_fit() -> SpeedFit:
    return fit_constants(fit_rows())


def test_what_is_shipped_is_what_the_training_rows_give(speed_fit: SpeedFit) -> None:
    assert len(speed_fit.constants) > 20
    for name, value in speed_fit.constants.items():
        exact = 0.012 if name.startswith(EFFICIENCY) else max(2.0, 0.06 * value)
        assert value_in_use(name) == pytest.approx(display_value(name, value), abs=exact), name


def test_prefill_shares_are_what_the_training_rows_give() -> None:
    prefill = fit_prefill(fit_rows())
    assert prefill.early == pytest.approx(PREFILL_EARLY, rel=0.05)
    for kind, share in prefill.shares.items():
        assert PREFILL[kind].share == pytest.approx(share, rel=0.05), kind
    for kind, share in prefill.experts.items():
        assert PREFILL[kind].expert_share == pytest.approx(share, rel=0.05), kind


def test_the_fit_and_the_advisor_use_one_formula() -> None:
    """With the constants that are shipped, both give the same rate for every row on one device."""
    constants = {
        **{f"{EFFICIENCY} {name}": 1 / kind.efficiency for name, kind in DEVICES.items()},
        **{f"operations on {name}": kind.operations for name, kind in DEVICES.items()},
        **{f"K-quant operations on {name}": kind.k_operations for name, kind in DEVICES.items()},
        **{f"layer with {name}": 1e6 * software.layer_s for name, software in SOFTWARE.items()},
        **{f"expert layer with {name}": 1e6 * software.expert_layer_s for name, software in SOFTWARE.items()},
    }
    for row in [*fit_rows(), *evaluation_rows()]:
        rate = decode_rate(row.facts, row.machine, row.setting, depth=row.depth)
        assert rate is not None
        assert SpeedFit(constants).tokens_per_second(row) == pytest.approx(rate.tokens_per_second), (
            row.device,
            row.model,
        )


def test_no_row_both_trains_and_judges() -> None:
    rows, unreadable = all_rows()
    assert len(rows) + len(unreadable) == 575
    assert not {id(row) for row in fit_rows()} & {id(row) for row in evaluation_rows()}
    sources = {row.source for row in fit_rows()}
    assert not any("llmfit" in source or "geerlingguy" in source for source in sources)
    assert all(row.group == MAIN for row in fit_rows())


def test_models_larger_than_the_card_and_cards_on_boards_are_apart() -> None:
    spilled_rows = {(row.device, row.model) for row in evaluation_rows(SPILL)}
    assert ("NVIDIA GeForce RTX 5070 (11.94 GB)", "Qwen3-32B-Q4_K_M") in spilled_rows
    assert ("NVIDIA GeForce RTX 5070 (11.94 GB)", "Qwen3-8B-Q4_K_M") not in spilled_rows
    assert all(row.device.startswith(("Pi", "Radxa", "HiFive", "Minisforum")) for row in evaluation_rows(BOARD))
    assert len(evaluation_rows(BOARD)) == 18
