"""Chats leave the trash after their 30 days also while the service runs, which it does for weeks."""

import asyncio
import logging
from contextlib import suppress

from app.core.errors import StorageFault
from app.core.events import ChatChanged
from app.gateway.events import EventHub
from app.store.database import ChatStore

log = logging.getLogger(__name__)

EVERY_S = 3600.0


async def keep_chats_tidy(chats: ChatStore, events: EventHub, *, every_s: float = EVERY_S) -> None:
    """Delete for good what has been in the trash for 30 days, and say so; ends when it is cancelled.

    Files that searches do not know yet come first.
    """
    with suppress(StorageFault):
        await chats.index_files()
    while True:
        await asyncio.sleep(every_s)
        try:
            purged_count = await chats.tidy()
        except StorageFault as error:  # such as a full disk; there is time until the next try
            log.info("The trash could not be emptied: %s", error)
            continue
        for chat in purged_count:
            events.publish(ChatChanged(chat=chat, deleted=True))
