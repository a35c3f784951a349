"""Whether drafts make a model faster here: what a trial compares, when it is kept, and how it is called off."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import msgspec
import pytest

from app.core.advice import DraftTrial, Generation
from app.core.errors import BadRequest, NotFound
from app.core.events import DraftTrialChanged
from app.gateway.advising import quiet_rounds
from app.gateway.advising.draft_trials import DraftTrials
from app.gateway.advising.quiet_rounds import ProcessorTimes
from app.gateway.services import Services
from app.supervisor.lease import Lease
from tests.patience import PATIENCE_S

GUIDE = "guide"


@pytest.fixture
async def parts(services: Services, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Services]:
    """The parts of a gateway that is not opened, and so does not close them."""
    monkeypatch.setattr("app.gateway.advising.draft_trials.own_draft_of", lambda *_: "ngram")
    monkeypatch.setattr(quiet_rounds, "QUIET_POLL_S", 0.01)
    monkeypatch.setattr(quiet_rounds, "QUIET_WAIT_S", 0.05)
    yield services
    await services.http.close()
    await services.chats.close()


class _PlayedTrials(DraftTrials):
    """Its answers take as long as they are told, in milliseconds a token: without drafts, and with them."""

    def __init__(self, services: Services, plain_ms: float, drafted_ms: float, *, other_share: float = 0.0) -> None:
        super().__init__(services, self._tell_times)
        self._plain_ms, self._drafted_ms, self._other_share = plain_ms, drafted_ms, other_share
        self._capacity_s = 0.0

    def _tell_times(self, _pids: Sequence[int]) -> ProcessorTimes:
        self._capacity_s += 1.0
        return ProcessorTimes(capacity_s=self._capacity_s, busy_s=self._other_share * self._capacity_s, own_s=0.0)

    async def _time_answer(self, lease: Lease, _question: str) -> Generation:
        request = cast("Any", self._services.supervisor).load_requests[-1]
        token_ms = self._plain_ms if request.options.draft is None else self._drafted_ms
        return Generation(
            model=lease.served_name,
            engine="llama.cpp",
            version="1",
            backend="cpu",
            device="cpu",
            prompt_tokens=40,
            cached_tokens=0,
            completion_tokens=64,
            prefill_s=0.1,
            decode_s=64 * token_ms / 1e3,
        )


async def wait_for_end(trials: DraftTrials) -> DraftTrialChanged:
    async with asyncio.timeout(PATIENCE_S):
        while trials.job.last is None or not trials.job.last.done:  # noqa: ASYNC110 -- it publishes to a hub
            await asyncio.sleep(0.01)
    return trials.job.last


@pytest.mark.parametrize(("drafted_ms", "is_faster"), [(8.0, True), (9.5, False), (14.0, False)])
async def test_a_trial_compares_and_is_kept(parts: Services, drafted_ms: float, *, is_faster: bool) -> None:
    trials = _PlayedTrials(parts, 10.0, drafted_ms)
    await trials.start(GUIDE)
    assert (await wait_for_end(trials)).error == ""
    (trial,) = parts.drafts.list_trials()
    assert (trial.kind, trial.is_faster) == ("ngram", is_faster)
    assert trial.plain_tokens_s == pytest.approx(100)
    assert trial.drafted_tokens_s == pytest.approx(1000 / drafted_ms)
    requests = cast("Any", parts.supervisor).load_requests
    assert [request.options.draft_name for request in requests] == ["", "ngram"]
    assert {request.source.name for request in requests} == {"guide (trial)"}, "the model that runs is left alone"


async def test_a_trial_that_was_disturbed_is_not_kept(parts: Services) -> None:
    trials = _PlayedTrials(parts, 10.0, 5.0, other_share=0.7)
    await trials.start(GUIDE)
    end = await wait_for_end(trials)
    assert end.code == "trial_disturbed"
    assert "70 % of the processors" in end.error
    assert parts.drafts.list_trials() == []


async def test_a_trial_can_be_stopped(parts: Services) -> None:
    cast("Any", parts.supervisor).may_load.clear()
    trials = _PlayedTrials(parts, 10.0, 5.0)
    await trials.stop()
    await trials.start(GUIDE)
    await trials.stop()
    assert trials.job.last is not None
    assert (trials.job.last.done, trials.job.last.code) == (True, "cancelled")
    assert parts.drafts.list_trials() == []


async def test_what_cannot_be_tried_is_refused(parts: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    trials = _PlayedTrials(parts, 10.0, 5.0)
    with pytest.raises(NotFound):
        await trials.start("nosuch")
    monkeypatch.setattr("app.gateway.advising.draft_trials.own_draft_of", lambda *_: "")
    with pytest.raises(BadRequest, match="nothing of its own"):
        await trials.start(GUIDE)


def test_a_tenth_counts() -> None:
    trial = DraftTrial(
        model="m", engine="e", version="", backend="cpu", kind="mtp", plain_tokens_s=10.0, drafted_tokens_s=11.0
    )
    assert trial.is_faster
    assert not msgspec.structs.replace(trial, drafted_tokens_s=10.99).is_faster
