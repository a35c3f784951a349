"""The samples that leaving models out needs: the last answers of each model of this computer, as they were timed."""

from app.advisor.memory.setting import RunSetting
from app.advisor.speed.calibration import SpeedSample, sample_from
from app.advisor.speed.left_out import LeftOutErrors, measure_left_out
from app.core.errors import RoundhouseError
from app.gateway.advising.engine_table import engine_table
from app.gateway.advising.speed_measurements import LEAST_BYTES
from app.gateway.services import Services


async def measure_left_out_here(services: Services) -> LeftOutErrors:
    """Return how far off each measured model would be if it had not been; models that are gone say nothing."""
    machine, by_model = await services.machine.read(), dict[str, list[SpeedSample]]()
    for generation in await services.chats.list_generations():
        engine = engine_table().get(generation.engine)
        try:
            facts = await services.facts.find(generation.model)
        except RoundhouseError:
            continue
        if engine is None or facts.file_bytes < LEAST_BYTES:  # as with what calibrations learn from
            continue
        sample = sample_from(generation, facts, machine, RunSetting(engine=engine, backend=generation.backend))
        if sample is not None:
            by_model.setdefault(generation.model, []).append(sample)
    return measure_left_out(by_model)
