"""How far the advisor's memory is from what machines and logs showed: `tests/data/memory-measured.csv`.

No constant is fitted to a row that counts here; the rows that served one are listed apart (`memory_rows.SERVED`).
`python -m tests.bench.memory_accuracy` prints every row with how its run was read.
"""

import sys
import time
from collections.abc import Sequence
from statistics import median, quantiles

import msgspec

from app.advisor.memory.estimate import estimate_memory, sum_components
from app.advisor.memory.setting import HOST, MemoryComponent, RunSetting
from app.hardware.description import machine_from
from app.hub.shapes import shape_facts
from tests.bench.engine_table import LLAMA_CPP
from tests.bench.figures import BenchFigure, at_least, at_most, not_measured
from tests.bench.memory_rows import DATA, MIB, MemoryRow, read_rows

MEDIAN, P90, CALL_MS = 2.0, 5.0, 5.0
PRINTED = 0.006
"""Half the last digit of a logged size, in MiB, and a little."""
ROUNDED = 0.6
"""Some logs print whole MiB."""
_RUNS = 20


class MemoryCase(msgspec.Struct, frozen=True, kw_only=True):
    """One row with what we compute for it, in MiB."""

    row: MemoryRow
    total: float
    kv: float
    state: float

    @property
    def error(self) -> float:
        """Percent the total is off; positive for too much. Only for rows that tell one."""
        return (self.total / self.row.total - 1) * 100 if self.row.total else 0.0


def measure() -> Sequence[BenchFigure]:
    """Return the errors of totals, how many KV and state sizes agree, and what an estimate costs."""
    if not DATA.exists():
        return [not_measured("memory of a device", f"<= {MEDIAN:g} %", "the measured rows are not here")]
    cases = all_cases()
    tested_cases = [case for case in cases if case.row.total is not None and not case.row.aside]
    errors = [abs(case.error) for case in tested_cases]
    kv = [is_same(case.kv, case.row.kv) for case in cases if case.row.kv is not None and not case.row.aside]
    state = [is_same(case.state, case.row.state) for case in cases if case.row.state is not None]
    return [
        at_most(f"memory of a device, {len(errors)} totals, median error", median(errors), MEDIAN, unit="%"),
        at_most("memory of a device, 90th percentile", quantiles(errors, n=10)[-1], P90, unit="%"),
        at_least("KV sizes as logged", 100 * sum(kv) / len(kv), 100, unit="%"),
        at_least("recurrent state as logged", 100 * sum(state) / len(state), 100, unit="%"),
        at_most("an estimate of a 32B", call_ms(), CALL_MS, unit="ms"),
    ]


def all_cases() -> list[MemoryCase]:
    """Return every readable row with its estimate."""
    return [_make_case(row) for row in read_rows()]


def is_same(ours: float, logged_size: float | None) -> bool:
    """Whether a size is what was logged, as far as its digits go."""
    if logged_size is None:
        return False
    return abs(ours - logged_size) <= (ROUNDED if logged_size == int(logged_size) else PRINTED)


def call_ms() -> float:
    """Return the milliseconds of processor time one estimate takes, the median of some."""
    facts, machine = shape_facts("Qwen3 32B", "Q4_K_M"), machine_from(b'{"ram_gb": 64, "gpus": [{"name": "RTX 4090"}]}')
    times_ms = []
    for _ in range(_RUNS):
        start = time.process_time()
        estimate_memory(facts, machine, RunSetting(engine=LLAMA_CPP, backend="cuda", context=8192))
        times_ms.append((time.process_time() - start) * 1000)
    return median(times_ms)


def _make_case(row: MemoryRow) -> MemoryCase:
    components_found = sum_components(row.facts, row.setting)
    counted_components = [
        part
        for part in components_found.parts
        if (part.place != HOST or not row.setting.uses_gpu)
        and (row.counts_runtime or part.component is not MemoryComponent.RUNTIME)
    ]
    return MemoryCase(
        row=row,
        total=sum(part.bytes for part in counted_components) / MIB,
        kv=components_found.kv.bytes / MIB,
        state=components_found.state.bytes / MIB,
    )


def main() -> None:
    """Print the rows, then the figures."""
    for case in all_cases():
        row = case.row
        totals_text = f"{row.total:9.0f} {case.total:9.0f} {case.error:+6.1f} %" if row.total else f"{'':28}"
        kv = "" if row.kv is None else f"kv {row.kv:g} {case.kv:g}"
        sys.stdout.write(f"{row.id:>3} {row.model[:38]:38} {totals_text} {kv:18} {row.setting_text} {row.aside}\n")
    for figure in measure():
        sys.stdout.write(f"{figure.name}: {figure.measurement} ({figure.target})\n")


if __name__ == "__main__":
    main()
