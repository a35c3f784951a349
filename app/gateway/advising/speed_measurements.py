"""What real use shows about this machine: answers refine the calibration, loads are set against their prediction.

Nothing here is in a request's way: an answer's times are handed over when it is complete, and kept in the background.
"""

import logging
import time
from collections.abc import Mapping

from app.core.advice import Calibration, Generation, best_calibration
from app.core.engines import EngineStatus
from app.core.errors import RoundhouseError
from app.gateway.advising.machine import MachineReader
from app.gateway.advising.model_facts import FactsReader
from app.gateway.background import Background
from app.gateway.exchange.observer import ExchangeSink, Observation
from app.store.database import ChatStore
from app.supervisor.lease import Lease

log = logging.getLogger(__name__)

LEAST_TOKENS = 16
"""Shorter answers say more about starting and stopping than about speed."""
LEAST_BYTES = 64 << 20
"""Smaller models run with sleeping threads (the worker's `thread_wait_policy`): their pace says nothing of others."""
_MS = 1e3
CPU = "cpu"


class SpeedMeasurements(ExchangeSink):
    """Keeps calibrations current. Belongs to the event loop's thread."""

    def __init__(self, store: ChatStore, facts: FactsReader, machine: MachineReader) -> None:
        self._store = store
        self._facts = facts
        self._machine = machine
        self._background = Background()
        self._by_key: dict[tuple[str, ...], Calibration] | None = None

    async def calibrations(self) -> list[Calibration]:
        """Return what is known of this machine's devices and engine builds."""
        return list((await self._load_calibrations()).values())

    async def find_calibration(self, of: Calibration) -> Calibration | None:
        """Return the undisturbed calibration of the same device, engine build and backend."""
        earlier = (await self._load_calibrations()).get(_key(of))
        return None if earlier is None or earlier.disturbances else earlier

    async def keep_calibration(self, calibration: Calibration) -> None:
        """Keep a calibration in place of the one for the same device, engine build and backend."""
        (await self._load_calibrations())[_key(calibration)] = calibration
        await self._store.save_calibration(calibration)

    async def forget_all(self) -> None:
        """Forget everything measured."""
        self._by_key = {}
        await self._store.forget_calibrations()

    def on_answer(self, exchange: Observation, lease: Lease) -> None:
        """Learn from the times of an answer that is long enough."""
        timings = exchange.tokens.timings
        if timings.get("predicted_n", 0) >= LEAST_TOKENS:
            self.learn_from(lease.status, timings)

    def learn_from(self, status: EngineStatus, timings: Mapping[str, float]) -> None:
        """Take what an engine said about the time of one answer. Returns at once."""
        generation = generation_from(status, timings)
        if generation is not None:
            self.learn(generation)

    def learn(self, generation: Generation) -> None:
        """Take the time of one answer. Returns at once."""
        self._background.spawn(self._store_generation(generation))

    def look_ahead(self) -> None:
        """Begin to read the machine for a decision that will soon rest on it; who asks then shares what is read."""
        self._background.spawn(self._machine.read_free())

    async def close(self) -> None:
        """Finish what is being kept and read."""
        await self._background.join()

    async def generations(self, model: str, *, engine: str, backend: str) -> list[Generation]:
        """Return how long the last answers of a model took on an engine, oldest first."""
        stored_generations = await self._store.list_generations()
        return [
            generation
            for generation in reversed(stored_generations)
            if (generation.model, generation.engine, generation.backend) == (model, engine, backend)
        ]

    async def _store_generation(self, generation: Generation) -> None:
        try:
            await self._store.add_generation(generation)
            calibration = best_calibration(
                await self.calibrations(), engine=generation.engine, backend=generation.backend
            )
            if calibration is not None:
                await self._refine(calibration, generation)
        except RoundhouseError as error:  # a full disk, a file that is gone: what was measured before still counts
            log.warning("A measurement was not used: %s", error)

    async def _refine(self, calibration: Calibration, generation: Generation) -> None:
        from app.advisor.memory.setting import RunSetting  # noqa: PLC0415 -- the advisor is brought in once it is needed
        from app.advisor.speed.calibration import refine_calibration, sample_from  # noqa: PLC0415 -- as above
        from app.gateway.advising.engine_table import engine_table  # noqa: PLC0415 -- as above

        facts, machine = await self._facts.find(generation.model), await self._machine.read()
        engine = engine_table().get(generation.engine)
        if engine is None or facts.file_bytes < LEAST_BYTES:
            return
        setting = RunSetting(engine=engine, backend=generation.backend)
        new_sample = sample_from(generation, facts, machine, setting)
        if new_sample is not None:
            await self.keep_calibration(refine_calibration(calibration, new_sample))

    async def _load_calibrations(self) -> dict[tuple[str, ...], Calibration]:
        if self._by_key is None:
            self._by_key = {_key(calibration): calibration for calibration in await self._store.list_calibrations()}
        return self._by_key


def generation_from(status: EngineStatus, timings: Mapping[str, float]) -> Generation | None:
    """Return an answer's timing in llama-server's words as ours; None when it says too little to learn from."""
    tokens = int(timings.get("predicted_n", 0))
    if tokens < LEAST_TOKENS or not timings.get("predicted_ms"):
        return None
    return Generation(
        model=status.model,
        engine=status.engine,
        version=status.version,
        backend=status.backend,
        device=CPU if status.backend == CPU else "",
        prompt_tokens=int(timings.get("prompt_n", 0)),
        cached_tokens=int(timings.get("cache_n", 0)),
        completion_tokens=tokens,
        prefill_s=timings.get("prompt_ms", 0.0) / _MS,
        decode_s=timings["predicted_ms"] / _MS,
        concurrent=max(1, status.in_flight),
        at=time.time(),
    )


def _key(calibration: Calibration) -> tuple[str, ...]:
    return (calibration.device, calibration.engine, calibration.version, calibration.backend)
