"""What a model's own files say of it, for who can do without: of files elsewhere, or unreadable, there is nothing."""

import asyncio
import logging
from pathlib import Path

from app.core.errors import RoundhouseError
from app.core.model_facts import ModelFacts
from app.core.models import ModelInfo
from app.gateway.services import Services

log = logging.getLogger(__name__)


def own_facts(services: Services, model: ModelInfo) -> ModelFacts | None:
    """Return the facts; None for a model that is attached or cannot be read. Reads disks: for a thread."""
    if model.attached:
        return None
    try:
        return services.facts.read(Path(model.path))
    except (RoundhouseError, OSError) as error:
        log.info("The facts of %s cannot be read: %s", model.name, error)
        return None


async def own_facts_of(services: Services, model: ModelInfo) -> ModelFacts | None:
    """Return the same, read in a thread."""
    return await asyncio.to_thread(own_facts, services, model)
