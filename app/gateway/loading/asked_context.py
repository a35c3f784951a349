"""A request that says how much context it needs: what the model is then loaded with.

Clients compute it from the prompt, so that it grows by a few tokens every turn, or send the most the model was trained
for. So it is rounded up to a power of two, never below what is loaded for everybody else, never above what the model
was trained for or what fits. A model that has enough is left as it is.
"""

import logging

import msgspec

from app.config.table import BY_NAME
from app.core.engines import EngineState
from app.gateway.loading.fitting import fitted
from app.gateway.loading.recent import Found
from app.gateway.services import Services
from app.supervisor.policy import LoadRequest

log = logging.getLogger(__name__)

_MOST = int(BY_NAME["models.context"].maximum or 1 << 22)
"""What a person may set is the most a client may ask for."""


async def with_context(services: Services, found: Found, wanted: int) -> LoadRequest:
    """Return what loads the model with `wanted` tokens of context, or as many as it can have. Says so if fewer."""
    load = found.load
    usual = load.options.context
    most = min(found.model.trained_context or wanted, _MOST)
    target = min(rounded_up(wanted), most)
    if usual is None or target <= usual:
        return load
    fits = await _fitting(services, load, target)
    fitting = fits.options.context or target
    context = max(usual, target if fitting >= target else rounded_down(fitting))
    if context < min(wanted, most):
        log.warning("%s keeps %d tokens of context, not the %d asked for", found.model.name, context, wanted)
    return _with(fits, context) if context > usual else load


def rounded_up(tokens: int) -> int:
    """Return the next power of two."""
    return 1 << max(0, tokens - 1).bit_length()


def rounded_down(tokens: int) -> int:
    """Return the last power of two: memory that is free a little more or less each time must not mean a new load."""
    return 1 << max(0, tokens.bit_length() - 1)


async def _fitting(services: Services, load: LoadRequest, context: int) -> LoadRequest:
    running = next((one for one in services.supervisor.statuses() if one.model == load.source.name), None)
    if running is not None and running.state is EngineState.READY and (running.context or 0) >= context:
        return _with(load, context)
    return await fitted(services, _with(load, context))


def _with(load: LoadRequest, context: int) -> LoadRequest:
    return msgspec.structs.replace(load, options=msgspec.structs.replace(load.options, context=context))
