"""Equal rounds on an engine, timed beside other programs: waits for quiet, and repeats what was disturbed.

What others took of the processors is what the system counts as busy, less what this process and the engine used.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
import psutil

from app.core.advice import Generation
from app.supervisor.run import cpu_seconds

if TYPE_CHECKING:
    from app.advisor.speed.disturbance import SpeedRound

QUIET_WAIT_S = 60.0
"""How long a whole measurement waits for other programs at most: an update or a video call lasts longer."""
QUIET_POLL_S, QUIET_POLLS = 1.0, 2
"""So many looks in a row must be quiet: programs pause for a moment."""


class ProcessorTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds, as counted since the computer started: of the clock times processors, of all programs, and of ours."""

    capacity_s: float
    busy_s: float
    own_s: float

    def other_share(self, before: "ProcessorTimes") -> float:
        """Return the share of all processors (0..1) that other programs have taken since `before`."""
        capacity_s = self.capacity_s - before.capacity_s
        other_s = (self.busy_s - before.busy_s) - (self.own_s - before.own_s)
        return min(1.0, max(0.0, other_s / capacity_s)) if capacity_s > 0 else 0.0


ReadTimes = Callable[[Sequence[int]], ProcessorTimes]


def read_processor_times(pids: Sequence[int] = ()) -> ProcessorTimes:
    """Return the times now; ours are this process and those of `pids` with their children."""
    times = psutil.cpu_times()
    kinds = ("user", "nice", "system", "steal")  # "guest" is in "user"; where a kind is missing, nothing is counted
    own = os.times()
    return ProcessorTimes(
        capacity_s=time.monotonic() * (psutil.cpu_count() or 1),
        busy_s=sum(getattr(times, kind, 0.0) for kind in kinds),
        own_s=own.user + own.system + cpu_seconds(pids),
    )


class QuietRounds:
    """The rounds of one measurement, which share its patience. Belongs to the event loop's thread."""

    def __init__(self, publish_stage: Callable[[str], None], read_times: ReadTimes = read_processor_times) -> None:
        self._publish_stage = publish_stage
        self._read_times = read_times
        self._waited_s = 0.0

    async def wait_for_quiet(self, pids: Sequence[int] = ()) -> None:
        """Wait until other programs hardly use the processors, as long as the patience lasts."""
        from app.advisor.speed.disturbance import is_quiet  # noqa: PLC0415 -- the advisor is brought in once it is needed

        quiet_polls, before = 0, await asyncio.to_thread(self._read_times, pids)
        while quiet_polls < QUIET_POLLS and self._waited_s < QUIET_WAIT_S:
            await asyncio.sleep(QUIET_POLL_S)
            self._waited_s += QUIET_POLL_S
            now = await asyncio.to_thread(self._read_times, pids)
            share, before = now.other_share(before), now
            quiet_polls = quiet_polls + 1 if is_quiet(share) else 0
            if not is_quiet(share):
                self._publish_stage(f"Waiting: other programs use {share:.0%} of the processors".replace("%", " %"))

    async def run_rounds(
        self, pid: int | None, stage: str, time_round: Callable[[int], Awaitable[Generation]]
    ) -> "list[SpeedRound]":
        """Return rounds of the engine `pid`: until the fastest is confirmed, or as many as there may be."""
        from app.advisor.speed.disturbance import SpeedRound, needs_round  # noqa: PLC0415 -- as above

        pids = [pid] if pid else []
        rounds: list[SpeedRound] = []
        while needs_round(rounds):
            if rounds and not rounds[-1].is_quiet:
                await self.wait_for_quiet(pids)
                self._publish_stage(stage)
            before = await asyncio.to_thread(self._read_times, pids)
            generation = await time_round(len(rounds))
            times = await asyncio.to_thread(self._read_times, pids)
            rounds.append(SpeedRound(generation=generation, other_share=times.other_share(before)))
        return rounds
