"""Attach an endpoint that somebody else runs: ask it for its models, and list them under names of their own here.

Its key goes into a file of its own and nowhere else. Addresses that machines keep their secrets at are refused, before
and after names are looked up, and redirects are not followed: a person names the address, nobody else does.
"""

import asyncio
import re
import time
from urllib.parse import SplitResult, urlsplit

from app.core.addresses import is_forbidden
from app.core.attached import AttachEndpoint
from app.core.errors import BadRequest, NotFound, RoundhouseError, Unavailable
from app.core.events import ModelsChanged
from app.core.models import ModelInfo
from app.gateway.services import Services
from app.hub.library.attached import Attachment
from app.supervisor.faults import Unstartable
from app.supervisor.readiness import Endpoint
from app.supervisor.remote import RemoteModel, models_at
from engines.api import Failure, FailureKind

_MODELS = "/models"
_VERSIONED = re.compile(r"/v\d+$")
_ODD = re.compile(r"[^A-Za-z0-9._:/-]+")
_EMBEDS = re.compile(r"embed|(^|[/_-])(bge|e5|gte)-", re.IGNORECASE)
_MOST_KEY = 4096
_MOST_MODELS = 500
"""An endpoint that lists more (a hub of other people's models) wants to be asked for the ones that are meant."""


async def attach(services: Services, wanted: AttachEndpoint) -> list[ModelInfo]:
    """List the endpoint's models here. Raises UserError, or Unavailable for an endpoint that does not answer."""
    url, key = checked_url(wanted.url, own=services.identity.url), _checked_key(wanted.key)
    base, found = await _found(url, key)
    records = _records(base, _chosen(found, wanted.models), wanted.name)
    listed = await asyncio.to_thread(services.library.attach, records, key)
    for model in listed:
        await services.supervisor.expire(model.name)  # one that runs under this name has the old key
    services.events.publish(ModelsChanged())
    return listed


async def detach(services: Services, name: str) -> None:
    """Take an attached model off the list, and forget its key. Raises NotFound."""
    model = await asyncio.to_thread(services.library.find, name)
    if not model.attached or model.preset is not None:
        raise NotFound(f"{model.name} is not attached.", hint="`roundhouse attach list` lists those that are.")
    await asyncio.to_thread(services.library.forget, model.name)
    await services.supervisor.expire(model.name)
    services.events.publish(ModelsChanged())


async def attached(services: Services) -> list[ModelInfo]:
    """Return the attached models."""
    models = await asyncio.to_thread(services.library.models)
    return [model for model in models if model.attached and model.preset is None]


def checked_url(url: str, *, own: str) -> str:
    """Return the URL without a slash at its end. Raises BadRequest for what is no endpoint, or must not be called."""
    where = _split(url.strip().rstrip("/"))
    if where.scheme not in {"http", "https"} or not where.hostname:
        raise _odd(url, "It begins with http:// or https:// and names a host.")
    if where.username is not None or where.password is not None or where.query or where.fragment:
        raise _odd(url, "It has no user, password, `?` or `#`; a key is given by itself.")
    if is_forbidden(where.hostname):
        raise BadRequest(f"{where.hostname} is an address that is never called.", code="address_not_allowed")
    if where.netloc == urlsplit(own).netloc:
        raise BadRequest("That is this endpoint itself.", code="invalid_value")
    return where.geturl()


def _split(url: str) -> SplitResult:
    try:
        where = urlsplit(url)
        _ = where.port  # read here: a port that is none is told by reading it
    except ValueError as error:
        raise _odd(url, f"{str(error).capitalize()}.") from None
    if any(ord(character) <= ord(" ") for character in url):
        raise _odd(url, "It has a blank in it.")
    return where


def _odd(url: str, hint: str) -> BadRequest:
    return BadRequest(f"{url[:200]!r} is no endpoint's address.", hint=hint, code="invalid_value")


def _checked_key(key: str) -> str:
    plain = key.strip()
    if len(plain) > _MOST_KEY or not (plain.isascii() and plain.isprintable()):
        raise BadRequest("The key has characters in it that no key has.", code="invalid_value")
    return plain


async def _found(url: str, key: str) -> tuple[str, list[RemoteModel]]:
    """Return the base that lists models, and them: as given where it ends in a version, else below /v1 first."""
    bases = [url] if _VERSIONED.search(url) else [f"{url}/v1", url]
    failure: Failure | None = None
    for base in bases:
        try:
            return base, await models_at(Endpoint(base_url=base, key=key, served_name=""), _MODELS)
        except Unstartable as error:
            failure = failure or error.failure
    raise _refusal(failure)


def _refusal(failure: Failure | None) -> RoundhouseError:
    if failure is None:
        return Unavailable("The endpoint does not answer.")
    kind = BadRequest if failure.kind is FailureKind.AUTH else Unavailable
    return kind(failure.sentence, hint=failure.hint, code=failure.kind)


def _chosen(found: list[RemoteModel], wanted: list[str]) -> list[RemoteModel]:
    """Return the models meant. Raises NotFound, or BadRequest for more than anybody would want in a list."""
    by_id = {model.id: model for model in found}
    for name in wanted:
        if name not in by_id:
            some = ", ".join(list(by_id)[:10]) or "none"
            raise NotFound(f"The endpoint has no model {name!r}.", hint=f"It has {some}.", code="model_not_found")
    chosen = [by_id[name] for name in wanted] if wanted else list(by_id.values())
    if not chosen:
        raise NotFound("The endpoint lists no models.", hint="Load one there first.", code="model_not_found")
    if len(chosen) > _MOST_MODELS:
        raise BadRequest(
            f"The endpoint has {len(chosen)} models.", hint="Name those you want, as with --model.", code="too_many"
        )
    return chosen


def _records(base: str, models: list[RemoteModel], name: str) -> list[Attachment]:
    at = time.time()
    return [
        Attachment(
            name=_name(model, name, is_one=len(models) == 1),
            url=base,
            served_as=model.id,
            context=model.context,
            chats=not _embeds(model),
            embeds=_embeds(model),
            attached_at=at,
        )
        for model in models
    ]


def _name(model: RemoteModel, name: str, *, is_one: bool) -> str:
    """Return what a model is called here; paths and odd characters in its own name become dashes."""
    own = _ODD.sub("-", model.id).strip("-/.:").removesuffix(":latest") or "model"
    return (name if is_one else f"{name}/{own}") if name else own


def _embeds(model: RemoteModel) -> bool:
    return "embed" in model.type if model.type and model.type != "model" else bool(_EMBEDS.search(model.id))
