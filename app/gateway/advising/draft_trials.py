"""Whether drafts make a model faster here: it answers two questions without and with them, and the verdict is kept.

One question has its answer repeat what it was given, as in editing; the other is free. A trial loads the model under a
name of its own, by way of the supervisor like anybody else, so it cannot push out a model that answers.
"""

import asyncio
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from app.core.advice import DraftTrial, Generation
from app.core.errors import BadRequest, Conflict
from app.core.events import DraftTrialChanged
from app.core.models import DRAFT_OFF
from app.gateway.advising.measuring_job import MeasuringJob
from app.gateway.advising.quiet_rounds import QuietRounds, ReadTimes, read_processor_times
from app.gateway.loading.draft_choice import own_draft_of
from app.gateway.loading.launch import find_model, load_request_for
from app.gateway.loading.measured_names import MeasuredAs, rename_load
from app.gateway.services import Services
from app.supervisor.lease import Lease
from app.supervisor.policy import LoadRequest
from engines.api import Draft, Route

if TYPE_CHECKING:
    from app.advisor.speed.disturbance import SpeedRound
    from app.core.models import ModelInfo

ANSWER_TOKENS = 96
"""Enough for the second half of the text to repeat, a few seconds on most machines."""
_TEXT = (
    "def total(items):\n    result = 0\n    for item in items:\n        if item.price > 0:\n"
    "            result = result + item.price * item.count\n    return result\n"
)
QUESTIONS = (
    f"Repeat this code without changes, twice:\n\n{_TEXT}",
    "Explain in a few sentences why the sky is blue and the evening sky red.",
)


class DraftTrials(MeasuringJob[DraftTrialChanged]):
    """Runs one trial at a time in the background. Belongs to the event loop's thread."""

    def __init__(self, services: Services, read_times: ReadTimes = read_processor_times) -> None:
        super().__init__(
            services,
            read_times,
            title="Trying drafts",
            conflict=lambda job: Conflict(f"Drafts are being tried with {job.model}."),
        )

    async def start(self, name: str) -> None:
        """Begin to try drafts with a model. Raises NotFound, BadRequest where there is nothing to try, or Conflict."""
        model = await find_model(self._services, name)
        if model.attached:
            raise BadRequest(f"{model.name} runs elsewhere: its endpoint decides what drafts for it.", code="no_draft")
        load, kind = await asyncio.to_thread(self._prepare, model)
        if not kind:
            raise BadRequest(
                f"{load.engine} drafts for {model.name} with nothing of its own that could be tried.",
                hint="A smaller model can be set as its draft.",
                code="no_draft",
            )
        self.job.start(
            DraftTrialChanged(model=model.runs_as, stage="Getting ready", fraction=0.0),
            lambda: self._measure(self._run(model, load, kind)),
        )

    def _prepare(self, model: "ModelInfo") -> tuple[LoadRequest, str]:
        own = self._services.model_settings.settings_of(model.runs_as)
        load = load_request_for(self._services, model, own=msgspec.structs.replace(own, draft=DRAFT_OFF))
        return load, own_draft_of(self._services, model, load.engine)

    async def _run(self, model: "ModelInfo", load: LoadRequest, kind: str) -> None:
        trial = await self._compare(model, load, kind)
        await asyncio.to_thread(self._services.drafts.keep_trial, Path(model.path), trial)

    async def _compare(self, model: "ModelInfo", load: LoadRequest, kind: str) -> DraftTrial:
        """Return the verdict. Raises EngineFailed, or Conflict where other programs disturbed the trial."""
        from app.advisor.speed.disturbance import fastest_round, round_disturbances  # noqa: PLC0415 -- the advisor is brought in once it is needed

        rounds = self._make_rounds()
        await rounds.wait_for_quiet()
        plain, planned_side = await self._time_load(load, None, rounds, share=0.1)
        draft_side, _ = await self._time_load(load, Draft(kind=kind), rounds, share=0.5)
        disturbances = list(round_disturbances([plain, draft_side]))
        if disturbances:
            raise Conflict(
                f"The trial was disturbed, so nothing was changed. {' '.join(disturbances)}",
                code="trial_disturbed",
                hint="Close what is busy and try again.",
            )
        first = fastest_round(plain)
        return DraftTrial(
            model=model.runs_as,
            engine=load.engine,
            version=first.generation.version,
            backend=first.generation.backend,
            kind=kind,
            plain_tokens_s=1 / first.token_s,
            drafted_tokens_s=1 / fastest_round(draft_side).token_s,
            has_experts_in_memory=bool(planned_side.options.cpu_moe_layers),
            at=time.time(),
        )

    async def _time_load(
        self, load: LoadRequest, draft: Draft | None, rounds: QuietRounds, *, share: float
    ) -> "tuple[list[SpeedRound], LoadRequest]":
        """Return the rounds with or without a draft, and the load as it was planned."""
        from app.gateway.loading.memory_fit import fit_load  # noqa: PLC0415 -- the advisor is brought in once it is needed

        stage = "Answering without drafts" if draft is None else "Answering with drafts"
        self.job.tell(stage=stage, fraction=share)
        options = msgspec.structs.replace(load.options, draft=draft, slots=1)
        load = rename_load(msgspec.structs.replace(load, options=options), MeasuredAs.TRIAL)
        request = await fit_load(self._services, load)
        try:
            async with self._services.supervisor.lease(request) as lease:
                timing = await rounds.run_rounds(lease.status.pid, stage, partial(self._time_round, lease))
        finally:
            await self._services.supervisor.unload_model(load.source.name)
        return timing, request

    async def _time_round(self, lease: Lease, _number: int) -> Generation:
        """Return the timing of all questions together."""
        answers = [await self._time_answer(lease, question) for question in QUESTIONS]
        return msgspec.structs.replace(
            answers[0],
            completion_tokens=sum(answer.completion_tokens for answer in answers),
            decode_s=sum(answer.decode_s for answer in answers),
        )

    async def _time_answer(self, lease: Lease, question: str) -> Generation:
        messages = [{"role": "user", "content": question}]
        return await self._time_request(lease, Route.CHAT, {"messages": messages, "max_tokens": ANSWER_TOKENS})
