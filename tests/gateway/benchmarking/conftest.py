"""Rounds of benchmarks are as short as their requests here: their engines are played."""

import pytest

from app.gateway.benchmarking import run as benchmark_run


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark_run, "LEAST_ROUND_S", 0.0)
