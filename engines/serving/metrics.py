"""What Prometheus is told: requests, tokens, and how long the first token and each further one took."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate

from engines.serving.answer import WorkerAnswer

_TTFT_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_TPOT_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
_PREFIX = "roundhouse_worker_"


class DurationHistogram:
    """Counts of durations by their upper bounds."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def lines(self, name: str) -> list[str]:
        """Return Prometheus's lines."""
        bounds = [*(f"{bucket_bound:g}" for bucket_bound in self._bounds), "+Inf"]
        counts = list(accumulate(self._counts))
        buckets = [
            f'{name}_bucket{{le="{bucket_bound}"}} {count}' for bucket_bound, count in zip(bounds, counts, strict=True)
        ]
        return [f"# TYPE {name} histogram", *buckets, f"{name}_sum {self._sum:.6f}", f"{name}_count {counts[-1]}"]


class WorkerMetrics:
    """Counted by the scheduler. `queue` says how many run and wait, `cache` what share of the KV cache is in use."""

    def __init__(self) -> None:
        self.cancelled = 0
        self.queue: Callable[[], tuple[int, int]] = lambda: (0, 0)
        self.cache: Callable[[], float | None] = lambda: None
        self._requests = self._prompt_tokens = self._cached_tokens = self._written_tokens = 0
        self._ttft, self._tpot = DurationHistogram(_TTFT_S), DurationHistogram(_TPOT_S)

    def count_answer(self, answer: WorkerAnswer) -> None:
        """Count an answer that is complete."""
        clock = answer.times
        self._requests += 1
        self._prompt_tokens += answer.prompt_tokens
        self._cached_tokens += answer.cached or 0
        self._written_tokens += answer.written
        self._ttft.add(clock.first_token_at - clock.requested_at)
        if answer.written > 1:
            self._tpot.add((clock.last_token_at - clock.first_token_at) / (answer.written - 1))

    def render_text(self) -> str:
        """Return the page that Prometheus reads."""
        running_count, waiting_count = self.queue()
        gauges: dict[str, float] = {"requests_running": running_count, "requests_waiting": waiting_count}
        used_share = self.cache()
        if used_share is not None:
            gauges["kv_cache_usage_ratio"] = round(used_share, 6)
        counters = {
            "requests_total": self._requests,
            "requests_cancelled_total": self.cancelled,
            "prompt_tokens_total": self._prompt_tokens,
            "prompt_tokens_cached_total": self._cached_tokens,
            "generated_tokens_total": self._written_tokens,
        }
        lines = [line for name, value in gauges.items() for line in _sample_lines(name, "gauge", value)]
        lines += [line for name, value in counters.items() for line in _sample_lines(name, "counter", value)]
        lines += self._ttft.lines(f"{_PREFIX}time_to_first_token_seconds")
        lines += self._tpot.lines(f"{_PREFIX}time_per_output_token_seconds")
        return "\n".join(lines) + "\n"


def _sample_lines(name: str, kind: str, value: float) -> list[str]:
    return [f"# TYPE {_PREFIX}{name} {kind}", f"{_PREFIX}{name} {value:g}"]
