"""Made models: names with settings over weights that are here, as Ollama's `create` makes them."""

import asyncio
from pathlib import Path

from app.core.events import ModelsChanged
from app.core.models import MakeModel, ModelInfo
from app.gateway.admin.calls import Call, NoQuery, Routes
from app.gateway.loading.capabilities import with_capabilities

routes = Routes()


@routes.add("POST", "/made")
async def make(call: Call[MakeModel, NoQuery]) -> ModelInfo:
    """Give a model's weights a further name, with settings of its own."""
    library, wanted = call.services.library, call.body
    base = await asyncio.to_thread(library.find, wanted.base)
    made = await asyncio.to_thread(library.make, wanted.name, Path(base.path), wanted.preset)
    await call.services.supervisor.expire(made.name)  # one that runs under this name has the settings of before
    call.services.events.publish(ModelsChanged())
    return (await with_capabilities(call.services, [made]))[0]
