"""The search of a self-tuning: who is still in it, what was measured, and what is kept of it.

Settings are halved by visits in a drawn order; what is put together is tried against the settings of before in turns.
"""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence

from app.benchmark.tuning import (
    BEFORE,
    FEW,
    SettingCandidate,
    answer_figures,
    answer_ratios,
    candidate_result,
    combine_candidates,
    describe_tuning,
    describe_unconfirmed,
    halve_candidates,
    is_better,
)
from app.core.benchmarks import BenchmarkSample, TuneResult
from app.core.errors import Conflict, EngineFailed, UserError
from app.core.models import ModelSettings

FINAL_TURNS = 3
"""Visits of each side in the end; with three requests each, nine answers."""
FINAL_SHARE = 0.4
"""Of the time, what is left for the end."""

Visit = Callable[[ModelSettings], Awaitable[list[BenchmarkSample]]]
"""Loads the model with settings and returns the samples of a visit."""


class SettingSearch:
    """The state of one search: who is still in it, and what was measured. Belongs to the event loop's thread."""

    def __init__(
        self,
        own: ModelSettings,
        candidates: Sequence[SettingCandidate],
        *,
        seed: int,
        elapsed_s: Callable[[], float],
        duration_s: float,
    ) -> None:
        self.own, self.candidates, self.elapsed = own, list(candidates), elapsed_s
        self.samples: dict[str, list[BenchmarkSample]] = {BEFORE: []}
        self.problems: dict[str, str] = {}
        self.unconfirmed: dict[str, str] = {}
        """What looked faster, and what the comparison that decides said of it."""
        self.finals: tuple[list[BenchmarkSample], list[BenchmarkSample]] = ([], [])
        self._by_name = {candidate.name: candidate for candidate in candidates}
        self._draw = random.Random(seed)  # noqa: S311 -- drawn, so that nobody always comes first
        self._duration_s = duration_s

    @property
    def faster(self) -> list[SettingCandidate]:
        """Who is better than before so far."""
        return [part for part in combine_candidates(self.candidates, self.samples) if part.name not in self.problems]

    def drop(self, name: str, problem: str) -> None:
        """Leave a candidate out from now on."""
        self.problems[name] = problem

    async def find_survivors(self, visit: Visit, publish: Callable[[str, float], None]) -> None:
        """Measure all a little, then the better half again, until few are left or the time for it is over."""
        names = [BEFORE, *self._by_name]
        while True:
            order = [name for name in names if name not in self.problems]
            self._draw.shuffle(order)
            order.sort(key=lambda name: name != BEFORE or bool(self.samples[BEFORE]))  # no verdict without it
            for name in order:
                if self._is_over(1 - FINAL_SHARE) and self.samples[BEFORE]:
                    return
                publish(f"Trying {name}", self.elapsed() / self._duration_s)
                await self._visit_one(name, visit)
            if len(order) <= FEW:
                return
            names = halve_candidates(self.samples)

    async def decide(self, visit: Visit, publish: Callable[[str, float], None]) -> list[SettingCandidate]:
        """Return what is kept: the fastest of each kind together, if the whole is better in turns with what was."""
        kept_candidates = self.faster
        if not kept_candidates:
            self.finals = (self.samples[BEFORE], self.samples[BEFORE])
            return []
        for attempt in (kept_candidates, kept_candidates[:1]):
            if await self._is_confirmed(attempt, visit, publish):
                return attempt
            sentence = describe_unconfirmed(answer_ratios(*self.finals).e2e)
            self.unconfirmed |= {candidate.name: sentence for candidate in attempt}
            if len(kept_candidates) == 1:
                break
        return []

    def make_result(
        self, model: str, engine: str, kept_candidates: Sequence[SettingCandidate], losses: Mapping[str, float]
    ) -> TuneResult:
        """Return what came of it."""
        before, after = self.finals if kept_candidates else (self.finals[0], self.finals[0])
        ratios = answer_ratios(before, after)
        return TuneResult(
            model=model,
            engine=engine,
            is_change=bool(kept_candidates),
            sentence=describe_tuning(kept_candidates, ratios, list(self.unconfirmed)),
            entries=[
                candidate_result(
                    candidate,
                    self.samples,
                    is_kept=candidate in kept_candidates,
                    loss=losses.get(candidate.name),
                    problem=self.problems.get(candidate.name, "") or self._doubt_about(candidate, kept_candidates),
                )
                for candidate in self.candidates
            ],
            before=answer_figures(before),
            after=answer_figures(after),
            ratios=ratios,
            settings_before=self.own,
            settings=self._apply(kept_candidates),
            duration_s=self.elapsed(),
        )

    def _doubt_about(self, candidate: SettingCandidate, kept_candidates: Sequence[SettingCandidate]) -> str:
        return "" if candidate in kept_candidates else self.unconfirmed.get(candidate.name, "")

    def _apply(self, kept_candidates: Sequence[SettingCandidate]) -> ModelSettings:
        changed_settings = self.own
        for candidate in kept_candidates:
            changed_settings = candidate.apply_to(changed_settings)
        return changed_settings

    async def _is_confirmed(
        self, kept_candidates: Sequence[SettingCandidate], visit: Visit, publish: Callable[[str, float], None]
    ) -> bool:
        changed_settings = self._apply(kept_candidates)
        before: list[BenchmarkSample] = []
        after: list[BenchmarkSample] = []
        for turn in range(FINAL_TURNS):
            share = 1 - FINAL_SHARE + FINAL_SHARE * turn / FINAL_TURNS
            publish(f"Comparing {', '.join(part.name for part in kept_candidates)} with before", share)
            before += await visit(self.own)
            try:
                after += await visit(changed_settings)
            except (EngineFailed, UserError) as error:
                if isinstance(error, Conflict):
                    raise
                self.drop(kept_candidates[0].name, str(error))
                break
        self.finals = (before, after or before)
        return bool(after) and is_better(answer_ratios(before, after).e2e)

    async def _visit_one(self, name: str, visit: Visit) -> None:
        """Measure one; an engine that cannot run so is out of it. Raises Conflict where others disturb it."""
        changed_settings = self.own if name == BEFORE else self._by_name[name].apply_to(self.own)
        try:
            self.samples.setdefault(name, []).extend(await visit(changed_settings))
        except (EngineFailed, UserError) as error:
            if isinstance(error, Conflict) or name == BEFORE:
                raise
            self.problems[name] = str(error)

    def _is_over(self, share: float) -> bool:
        return self.elapsed() >= share * self._duration_s
