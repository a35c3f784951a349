"""When an engine is started again, and how long one is kept: pure functions."""

import math

import pytest

from app.supervisor.policy import MAX_RESTARTS, RESTART_WINDOW_S, ModelPolicy, SupervisorPolicy, back_off_delay


@pytest.mark.parametrize(("own", "expected_s"), [(None, 1800.0), (60.0, 60.0), (0.0, math.inf)])
def test_what_was_set_for_a_model_goes_before_what_counts_for_all(own: float | None, expected_s: float) -> None:
    assert SupervisorPolicy(models={"m": ModelPolicy(idle_s=own)}).keeps_s("m") == expected_s


@pytest.mark.parametrize(("restarts", "delay_s"), [([], 1.0), ([100.0], 2.0), ([100.0, 110.0], 4.0)])
def test_back_off_doubles(restarts: list[float], delay_s: float) -> None:
    assert back_off_delay(restarts, 120.0) == delay_s


def test_too_many_restarts_are_enough() -> None:
    assert back_off_delay([100.0] * MAX_RESTARTS, 120.0) is None


def test_old_restarts_are_forgotten() -> None:
    assert back_off_delay([100.0] * MAX_RESTARTS, 100.0 + RESTART_WINDOW_S) == 1.0
