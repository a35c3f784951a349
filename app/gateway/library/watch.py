"""Notice models that come and go while somebody looks: folders are asked now and then, and it is said when they differ.

Notifications of the system would be quicker and are not to be had for network drives, FUSE and Ollama's links; a look
costs one `stat` for each folder and file. Without listeners nobody is told, and every request looks for itself.
"""

import asyncio
import logging
import time

from app.core.errors import RoundhouseError
from app.core.events import ModelsChanged
from app.gateway.events import EventHub
from app.hub.library.library import Library

log = logging.getLogger(__name__)

EVERY_S = 4.0
SHARE = 0.02
"""Of one core, at most: a library that takes long to look through is looked through less often."""


async def watch_library(library: Library, events: EventHub, *, every_s: float = EVERY_S) -> None:
    """Publish `ModelsChanged` whenever the list is another one; ends when it is cancelled."""
    known_models = await asyncio.to_thread(library.list_models)
    pause_s = every_s
    while True:
        await asyncio.sleep(pause_s)
        if not events.has_listeners:
            continue
        began = time.monotonic()
        try:
            models = await asyncio.to_thread(library.list_models)
        except (RoundhouseError, OSError) as error:  # such as a drive that fails; it may be back the next time
            log.info("The model folders could not be looked through: %s", error)
            continue
        pause_s = max(every_s, (time.monotonic() - began) / SHARE)
        if models != known_models:
            known_models = models
            events.publish(ModelsChanged())
