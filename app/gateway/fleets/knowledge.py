"""What is known of a fleet's model: what replicas elsewhere say of it, else what the files say that those here read."""

import asyncio
import time
from collections.abc import Iterable, Sequence

from app.core.capabilities import Capability
from app.core.errors import BadRequest, Unavailable, quote_value
from app.core.fleets import LocalReplica
from app.core.models import LoadOptions, ModelInfo
from app.gateway.fleets.fleet_file import VERSION
from app.gateway.library.attached_endpoints import make_knowledge
from app.gateway.library.endpoint_cards import cards_of
from app.gateway.loading.launch import choose_context
from app.gateway.services import Services
from app.hub.library.attached import EndpointKnowledge
from app.supervisor.faults import StartFailed
from app.supervisor.readiness import EngineEndpoint
from app.supervisor.remote import MODELS, RemoteModel, list_remote_models


async def ask_replicas(replicas: Sequence[str], key: str, served_as: str) -> EndpointKnowledge:
    """Return what the first replica says that serves the model.

    Raises BadRequest for one that answers and has other models, and Unavailable where none answers.
    """
    first, model = await _find_served(replicas, key, served_as)
    endpoint = EngineEndpoint(base_url=first + VERSION, key=key, served_name=served_as)
    return make_knowledge(model, (await cards_of(endpoint, [model]))[model.id])


def read_weights(services: Services, model: ModelInfo, local: LocalReplica) -> EndpointKnowledge:
    """Return what a model's files say, for replicas that are engines of this computer."""
    own = services.model_settings.settings_of(model.runs_as)
    return EndpointKnowledge(
        cards={capability: capability in model.capabilities for capability in Capability},
        context=choose_context(services.settings, model, LoadOptions(context=local.context), own),
        read_at=time.time(),
    )


async def _find_served(replicas: Sequence[str], key: str, served_as: str) -> tuple[str, RemoteModel]:
    lists = await asyncio.gather(*(_list_models(url, key) for url in replicas))
    served_models: list[tuple[str, RemoteModel]] = []
    for url, answer in zip(replicas, lists, strict=True):
        if isinstance(answer, StartFailed):
            continue
        model = next((model for model in answer if model.id == served_as), None)
        if model is None:
            names = ", ".join(model.id for model in answer[:10]) or "none"
            raise BadRequest(
                f"The replica {url} has no model {quote_value(served_as)}.",
                hint=f"It has {names}. `serves` in the fleet file says what the replicas call it.",
                code="model_not_found",
            )
        served_models.append((url, model))
    if not served_models:
        raise Unavailable(f"No replica answers. {_first_sentence(lists)}", code="unreachable")
    return served_models[0]


async def _list_models(url: str, key: str) -> list[RemoteModel] | StartFailed:
    try:
        return await list_remote_models(EngineEndpoint(base_url=url + VERSION, key=key, served_name=""), MODELS)
    except StartFailed as failure:
        return failure


def _first_sentence(answers: Iterable[object]) -> str:
    return next((answer.failure.sentence for answer in answers if isinstance(answer, StartFailed)), "")
