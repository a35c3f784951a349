"""What an endpoint says of its models today: read again when it is used again, and when a person asks.

An endpoint is somebody else's, who may start it with another model of the same name. Each time one is taken into use
its list is compared with what it was; a model that is listed otherwise is asked about from the beginning.
"""

import asyncio
import logging
import time

import msgspec

from app.core.engines import EngineState, EngineStatus
from app.core.errors import NotFound, RoundhouseError
from app.core.events import EngineChanged, ModelsChanged
from app.core.models import ModelInfo
from app.gateway.library.endpoint_cards import Card, cards_of, digest_of
from app.gateway.library.endpoint_routes import endpoint_of
from app.gateway.loading.launch import ATTACHED
from app.gateway.services import Services
from app.hub.library.attached import Attachment, Knowledge
from app.supervisor.faults import Unstartable
from app.supervisor.remote import MODELS, RemoteModel, models_at

log = logging.getLogger(__name__)


def knowledge(model: RemoteModel, card: Card) -> Knowledge:
    """Return what is known of a model whose endpoint was asked just now."""
    return Knowledge(cards=card.answers, context=card.context, digest=digest_of(model), read_at=time.time())


async def asked_anew(services: Services, model: ModelInfo, *, only_if_changed: bool = False) -> bool:
    """Ask an endpoint what it says of a model, and forget what it said before; tell whether anything was asked.

    Raises Unstartable with what to say if it does not answer, NotFound if it lists the model no more.
    """
    attachment = services.library.attachment(model)
    endpoint = await asyncio.to_thread(endpoint_of, attachment, model)
    listed = next((one for one in await models_at(endpoint, MODELS) if one.id == attachment.served_as), None)
    if listed is None:
        raise NotFound(f"The endpoint lists no model {attachment.served_as!r} now.", code="model_not_found")
    if only_if_changed and digest_of(listed) == attachment.known.digest:
        return False
    card = (await cards_of(endpoint, [listed]))[listed.id]

    def with_news(attachment: Attachment) -> Attachment:
        return msgspec.structs.replace(attachment, known=knowledge(listed, card))

    await asyncio.to_thread(services.library.correct, model.name, with_news)
    return True


async def watch_endpoints(services: Services) -> None:
    """Compare an endpoint's list with what it was each time it is taken into use, until cancelled."""
    loaded: dict[str, float | None] = {}
    with services.events.subscribe() as events:
        async with asyncio.TaskGroup() as looking:
            async for event in events:
                if not isinstance(event, EngineChanged) or event.status.engine != ATTACHED:
                    continue
                status = event.status
                if status.state is EngineState.READY and loaded.get(status.model) != status.loaded_at:
                    looking.create_task(_look_again(services, status))
                loaded[status.model] = status.loaded_at


async def _look_again(services: Services, status: EngineStatus) -> None:
    try:
        model = await asyncio.to_thread(services.library.find, status.model)
        if model.attached and await asked_anew(services, model, only_if_changed=True):
            log.info("The endpoint says something else of %s than before", model.name)
            services.events.publish(ModelsChanged())
    except (RoundhouseError, Unstartable) as error:  # the next request says what is the matter
        log.info("What the endpoint says of %s was not read: %s", status.model, error)
    except Exception:  # one endpoint that cannot be looked at must not end the watching
        log.exception("What the endpoint says of %s could not be read", status.model)
