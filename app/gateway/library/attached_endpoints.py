"""Attach an endpoint that somebody else runs: ask it for its models, and list them under names of their own here.

Its key goes into a file of its own and nowhere else. Addresses that machines keep their secrets at are refused, before
and after names are looked up, and redirects are not followed: a person names the address, nobody else does.

An endpoint is somebody else's, who may start it with another model of the same name. Each time one is taken into use
its list is compared with what it was; a model that is listed otherwise is asked about from the beginning.
"""

import asyncio
import logging
import re
import time
from collections.abc import Sequence
from urllib.parse import SplitResult, urlsplit

import msgspec

from app.core.capabilities import Capability, add_implied
from app.core.connections import is_forbidden
from app.core.engines import EngineState, EngineStatus
from app.core.errors import BadRequest, NotFound, RoundhouseError, Unavailable, quote_value
from app.core.events import EngineChanged, FleetsChanged, ModelsChanged
from app.core.models import AttachEndpoint, CorrectAttached, ModelInfo
from app.gateway.events import EventHub
from app.gateway.library.endpoint_cards import EndpointCard, cards_of, digest_of
from app.gateway.library.endpoint_routes import endpoint_of
from app.gateway.loading.launch import ATTACHED
from app.gateway.services import Services
from app.hub.library.attached import Attachment, EndpointKnowledge
from app.hub.library.library import Library
from app.supervisor.faults import StartFailed
from app.supervisor.pool import Supervisor
from app.supervisor.readiness import EngineEndpoint
from app.supervisor.remote import MODELS, RemoteModel, list_remote_models
from engines.api import Failure, FailureKind

log = logging.getLogger(__name__)

_VERSIONED = re.compile(r"/v\d+$")
_ODD = re.compile(r"[^A-Za-z0-9._:/-]+")
_MOST_KEY = 4096
_MOST_MODELS = 500
"""An endpoint that lists more (a hub of other people's models) wants to be asked for the ones that are meant."""


async def attach(services: Services, request: AttachEndpoint) -> list[ModelInfo]:
    """List the endpoint's models here. Raises UserError, or Unavailable for an endpoint that does not answer."""
    url, key = check_url(request.url, own=services.identity.url), check_key(request.key)
    request = msgspec.structs.replace(request, can=_complete_capabilities(request.can))
    base, remote_models = await find_endpoint_models(url, key)
    chosen_models = _choose_models(remote_models, request.models)
    cards = await cards_of(EngineEndpoint(base_url=base, key=key, served_name=""), chosen_models)
    records = _records(base, request, [(model, cards[model.id]) for model in chosen_models])
    models = await asyncio.to_thread(services.library.attach_models, records, key)
    for model in models:
        await services.supervisor.expire_model(model.name)  # one that runs under this name has the old key
    services.events.publish(ModelsChanged())
    return models


async def detach(supervisor: Supervisor, library: Library, events: EventHub, name: str) -> None:
    """Take an attached model off the list, and forget its key. Raises NotFound."""
    model = await _find_attached(library, name)
    await asyncio.to_thread(library.forget_model, model.name)
    await supervisor.expire_model(model.name)
    events.publish(ModelsChanged())
    if model.router:
        events.publish(FleetsChanged())


async def correct(library: Library, events: EventHub, name: str, request: CorrectAttached) -> ModelInfo:
    """Keep what a person says of an attached model, and ask its endpoint anew for the rest.

    Raises NotFound; where nobody says anything, Unavailable for an endpoint that does not answer.
    """
    model = await _find_attached(library, name)
    stated_fields: dict[str, object] = {}
    if request.can is not msgspec.UNSET:
        stated_fields["can"] = _complete_capabilities(request.can)
    if request.context is not msgspec.UNSET:
        stated_fields["stated_context"] = request.context
    await asyncio.to_thread(
        library.correct_attachment, name, lambda attachment: msgspec.structs.replace(attachment, **stated_fields)
    )
    try:
        await refresh_card(library, model)
    except (StartFailed, RoundhouseError) as error:
        if not stated_fields:
            raise (_refusal(error.failure) if isinstance(error, StartFailed) else error) from error
    events.publish(ModelsChanged())
    return await asyncio.to_thread(library.find_model, name)


async def list_attached(library: Library) -> list[ModelInfo]:
    """Return the attached models."""
    models = await asyncio.to_thread(library.list_models)
    return [model for model in models if model.attached and model.preset is None]


async def _find_attached(library: Library, name: str) -> ModelInfo:
    model = await asyncio.to_thread(library.find_model, name)
    if not model.attached or model.preset is not None:
        raise NotFound(f"{model.name} is not attached.", hint="`roundhouse attach list` lists those that are.")
    return model


def check_url(url: str, *, own: str) -> str:
    """Return the URL without a slash at its end. Raises BadRequest for what is no endpoint, or must not be called."""
    where = _split(url.strip().rstrip("/"))
    if where.scheme not in {"http", "https"} or not where.hostname:
        raise _address_error(url, "It begins with http:// or https:// and names a host.")
    if where.username is not None or where.password is not None or where.query or where.fragment:
        raise _address_error(url, "It has no user, password, `?` or `#`; a key is given by itself.")
    if is_forbidden(where.hostname):
        raise BadRequest(f"{where.hostname} is an address that is never contacted.", code="address_not_allowed")
    if where.netloc == urlsplit(own).netloc:
        raise BadRequest("This is the address of Roundhouse's own endpoint.", code="invalid_value")
    return where.geturl()


def _split(url: str) -> SplitResult:
    try:
        where = urlsplit(url)
        _ = where.port  # read here: a port that is none is told by reading it
    except ValueError as error:
        raise _address_error(url, f"{str(error).capitalize()}.") from None
    if any(ord(character) <= ord(" ") for character in url):
        raise _address_error(url, "It contains a space.")
    return where


def _address_error(url: str, hint: str) -> BadRequest:
    return BadRequest(f"{quote_value(url)} is not the address of an endpoint.", hint=hint, code="invalid_value")


def check_key(key: str) -> str:
    """Return the key without spaces around it. Raises BadRequest for one that no header can carry."""
    plain = key.strip()
    if len(plain) > _MOST_KEY or not (plain.isascii() and plain.isprintable()):
        raise BadRequest("The key contains characters that keys cannot contain.", code="invalid_value")
    return plain


async def find_endpoint_models(url: str, key: str) -> tuple[str, list[RemoteModel]]:
    """Return the base that lists models, and them: as given where it ends in a version, else below /v1 first.

    Raises BadRequest for a key that is refused, Unavailable for an endpoint that does not answer.
    """
    bases = [url] if _VERSIONED.search(url) else [f"{url}/v1", url]
    failure: Failure | None = None
    for base in bases:
        try:
            return base, await list_remote_models(EngineEndpoint(base_url=base, key=key, served_name=""), MODELS)
        except StartFailed as error:
            failure = failure or error.failure
    raise _refusal(failure)


def _refusal(failure: Failure | None) -> RoundhouseError:
    if failure is None:
        return Unavailable("The endpoint does not answer.")
    kind = BadRequest if failure.kind is FailureKind.AUTH else Unavailable
    return kind(failure.sentence, hint=failure.hint, code=failure.kind)


def _choose_models(remote_models: list[RemoteModel], names: list[str]) -> list[RemoteModel]:
    """Return the models meant. Raises NotFound, or BadRequest for more than anybody would want in a list."""
    by_id = {model.id: model for model in remote_models}
    for name in names:
        if name not in by_id:
            some = ", ".join(list(by_id)[:10]) or "none"
            raise NotFound(
                f"The endpoint has no model {quote_value(name)}.", hint=f"It has {some}.", code="model_not_found"
            )
    chosen_models = [by_id[name] for name in names] if names else list(by_id.values())
    if not chosen_models:
        raise NotFound("The endpoint lists no models.", hint="Load one there first.", code="model_not_found")
    if len(chosen_models) > _MOST_MODELS:
        raise BadRequest(
            f"The endpoint has {len(chosen_models)} models.",
            hint="Choose those you want, for example with --model.",
            code="too_many",
        )
    return chosen_models


def _records(base: str, request: AttachEndpoint, cards: Sequence[tuple[RemoteModel, EndpointCard]]) -> list[Attachment]:
    return [
        Attachment(
            name=_name(model, request.name, is_one=len(cards) == 1),
            url=base,
            served_as=model.id,
            can=request.can,
            stated_context=request.context,
            known=make_knowledge(model, card),
            attached_at=time.time(),
        )
        for model, card in cards
    ]


def _complete_capabilities(can: list[Capability] | None) -> list[Capability] | None:
    """Return what a person says with what that brings along. Raises BadRequest for a model that can do nothing."""
    if can is not None and not can:
        raise BadRequest("A model needs at least one capability to be attached.", code="invalid_value")
    return None if can is None else add_implied(can)


def _name(model: RemoteModel, name: str, *, is_one: bool) -> str:
    """Return what a model is called here; paths and odd characters in its own name become dashes."""
    own = _ODD.sub("-", model.id).strip("-/.:").removesuffix(":latest") or "model"
    return (name if is_one else f"{name}/{own}") if name else own


def make_knowledge(model: RemoteModel, card: EndpointCard) -> EndpointKnowledge:
    """Return what is known of a model whose endpoint was asked just now."""
    return EndpointKnowledge(
        cards=card.answers, context=card.context, server=card.server, digest=digest_of(model), read_at=time.time()
    )


async def refresh_card(library: Library, model: ModelInfo, *, only_if_changed: bool = False) -> bool:
    """Ask an endpoint what it says of a model, and forget what it said before; tell whether anything was asked.

    Raises StartFailed with what to say if it does not answer, NotFound if it lists the model no more.
    """
    attachment = library.find_attachment(model)
    endpoint = await asyncio.to_thread(endpoint_of, attachment, model)
    model_info = next(
        (
            remote_model
            for remote_model in await list_remote_models(endpoint, MODELS)
            if remote_model.id == attachment.served_as
        ),
        None,
    )
    if model_info is None:
        raise NotFound(
            f"The endpoint no longer lists the model {quote_value(attachment.served_as)}.", code="model_not_found"
        )
    if only_if_changed and digest_of(model_info) == attachment.known.digest:
        return False
    card = (await cards_of(endpoint, [model_info]))[model_info.id]

    def with_news(attachment: Attachment) -> Attachment:
        return msgspec.structs.replace(attachment, known=make_knowledge(model_info, card))

    await asyncio.to_thread(library.correct_attachment, model.name, with_news)
    return True


async def watch_endpoints(library: Library, events: EventHub) -> None:
    """Compare an endpoint's list with what it was each time it is taken into use, until cancelled."""
    loaded_contexts: dict[str, float | None] = {}
    with events.watch(EngineChanged) as subscription:
        async with asyncio.TaskGroup() as group:
            async for event in subscription:
                if not isinstance(event, EngineChanged) or event.status.engine != ATTACHED:
                    continue
                status = event.status
                if status.state is EngineState.READY and loaded_contexts.get(status.model) != status.loaded_at:
                    group.create_task(_look_again(library, events, status))
                loaded_contexts[status.model] = status.loaded_at


async def _look_again(library: Library, events: EventHub, status: EngineStatus) -> None:
    try:
        model = await asyncio.to_thread(library.find_model, status.model)
        if model.attached and await refresh_card(library, model, only_if_changed=True):
            log.info("The endpoint says something else of %s than before", model.name)
            events.publish(ModelsChanged())
    except (RoundhouseError, StartFailed) as error:  # the next request says what is the matter
        log.info("What the endpoint says of %s was not read: %s", status.model, error)
    except Exception:  # one endpoint that cannot be looked at must not end the watching
        log.exception("What the endpoint says of %s could not be read", status.model)
