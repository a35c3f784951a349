"""Fleets: one model that several endpoints serve alike, behind a router of the engine list, under one name here.

A fleet is an attached model with more than one address: what is known of the model is what its replicas say of it, and
the supervisor starts the router with the first request. A fleet file is TOML, and each mistake in it is a sentence. Its
replicas have one key, because routers pass on the key that they were asked with.
"""

import asyncio
import time
import tomllib
from collections.abc import Iterable, Sequence

import msgspec

from app.core.errors import BadRequest, Unavailable, quote_value
from app.core.events import ModelsChanged
from app.core.models import Fleet, FleetReplica, ModelInfo, StartFleet
from app.gateway.library.attached_endpoints import check_key, check_url, make_knowledge
from app.gateway.library.endpoint_cards import cards_of
from app.gateway.services import Services
from app.hub.library.attached import Attachment
from app.hub.library.library import Library
from app.supervisor.faults import StartFailed
from app.supervisor.readiness import EngineEndpoint
from app.supervisor.remote import MODELS, RemoteModel, check_endpoint, list_remote_models
from engines.api import EngineFamily
from engines.registry import ADAPTERS

_MOST_REPLICAS = 256
"""More replicas than any test of these routers was published with."""
_MOST_TEXT = 64 * 1024
_VERSION = "/v1"


class FleetFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a fleet file says. `model` is the name here, `serves` what the replicas call it (the same, if left out)."""

    model: str
    replicas: tuple[str, ...]
    serves: str = ""
    router: str = "smg"
    policy: str = ""
    """How the router chooses a replica; empty leaves it to the router's adapter."""


async def start_fleet(services: Services, request: StartFleet) -> ModelInfo:
    """List the fleet's model here, in place of the fleet of that name. Raises BadRequest, or Unavailable.

    Answers that are being written by the one before are finished first.
    """
    file = read_fleet_file(request.text)
    _check_router(file.router)
    key = check_key(request.key)
    replicas = _check_replicas(file.replicas, own=services.identity.url)
    served_as = file.serves or file.model
    first, model = await _find_served(replicas, key, served_as)
    endpoint = EngineEndpoint(base_url=first + _VERSION, key=key, served_name=served_as)
    attachment = Attachment(
        name=file.model,
        url=replicas[0] + _VERSION,
        served_as=served_as,
        known=make_knowledge(model, (await cards_of(endpoint, [model]))[model.id]),
        attached_at=time.time(),
        router=file.router,
        policy=file.policy,
        replicas=replicas,
    )
    (model_info,) = await asyncio.to_thread(services.library.attach_models, [attachment], key)
    await services.supervisor.expire_model(model_info.name)
    services.events.publish(ModelsChanged())
    return model_info


def read_fleet_file(text: str) -> FleetFile:
    """Return what a fleet file says. Raises BadRequest with where it is wrong."""
    if len(text) > _MOST_TEXT:
        raise BadRequest("The fleet file is too long.", code="invalid_value")
    try:
        return msgspec.convert(tomllib.loads(text), FleetFile)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadRequest(f"The fleet file is not TOML: {error}", code="invalid_value") from None
    except msgspec.ValidationError as error:
        raise BadRequest(
            f"The fleet file is not valid: {error}.",
            hint="It has `model` and `replicas`, and may have `serves`, `router` and `policy`.",
            code="invalid_value",
        ) from None


def _check_router(router: str) -> None:
    """Return for a router of the engine list. Raises BadRequest for anything else."""
    routers = [engine for engine, adapter in ADAPTERS.items() if adapter.descriptor.family is EngineFamily.ROUTER]
    if router not in routers:
        hint = f"There is {' or '.join(routers)}."
        raise BadRequest(f"There is no router {quote_value(router)}.", hint=hint, code="invalid_value")


def _check_replicas(replicas: Sequence[str], *, own: str) -> tuple[str, ...]:
    """Return the addresses without `/v1`, as routers want them. Raises BadRequest."""
    if not 0 < len(replicas) <= _MOST_REPLICAS:
        raise BadRequest(f"A fleet has 1 to {_MOST_REPLICAS} replicas, not {len(replicas)}.", code="invalid_value")
    checked = [check_url(url, own=own).removesuffix(_VERSION) for url in replicas]
    for url in checked:
        if checked.count(url) > 1:
            raise BadRequest(f"The replica {url} is listed more than once.", code="invalid_value")
    return tuple(checked)


async def _find_served(replicas: Sequence[str], key: str, served_as: str) -> tuple[str, RemoteModel]:
    """Return the first replica that serves the model, and what it says of it.

    Raises BadRequest for one that answers and has other models, and Unavailable where none answers.
    """
    lists = await asyncio.gather(*(_list_models(url, key) for url in replicas))
    serving: list[tuple[str, RemoteModel]] = []
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
        serving.append((url, model))
    if not serving:
        raise Unavailable(f"No replica answers. {_first_sentence(lists)}", code="unreachable")
    return serving[0]


async def _list_models(url: str, key: str) -> list[RemoteModel] | StartFailed:
    try:
        return await list_remote_models(EngineEndpoint(base_url=url + _VERSION, key=key, served_name=""), MODELS)
    except StartFailed as failed:
        return failed


def _first_sentence(answers: Iterable[object]) -> str:
    return next((answer.failure.sentence for answer in answers if isinstance(answer, StartFailed)), "")


def _list_fleets(library: Library) -> list[ModelInfo]:
    return [model for model in library.list_models() if model.router and model.preset is None]


async def list_fleets(library: Library) -> list[Fleet]:
    """Return the fleets, each replica asked now whether it lists the model."""
    models = await asyncio.to_thread(_list_fleets, library)
    return list(await asyncio.gather(*(_describe_fleet(library, model) for model in models)))


async def _describe_fleet(library: Library, model: ModelInfo) -> Fleet:
    attachment = library.find_attachment(model)
    key = await asyncio.to_thread(library.attachments.read_key, attachment.name)
    replicas = await asyncio.gather(*(_describe_replica(url, key, attachment) for url in attachment.replicas))
    return Fleet(model=model.name, router=model.router, policy=attachment.policy, replicas=list(replicas))


async def _describe_replica(url: str, key: str, attachment: Attachment) -> FleetReplica:
    endpoint = EngineEndpoint(base_url=url + _VERSION, key=key, served_name=attachment.served_as)
    failure = await check_endpoint(endpoint, MODELS)
    return FleetReplica(url=url, problem="" if failure is None else failure.sentence)
