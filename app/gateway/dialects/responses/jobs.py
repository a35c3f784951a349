"""From a request of the Responses API to what the engine is asked, with what was said before it."""

import logging
import secrets
import time
from collections.abc import Sequence
from functools import cached_property

import msgspec

from app.core.errors import BadRequest, NotFound
from app.gateway.canonical.events import Event
from app.gateway.canonical.request import Generate
from app.gateway.dialects.responses.input_items import (
    Item,
    conversation,
    items_of,
    kept_item,
    passed_over,
    references,
    resolved,
)
from app.gateway.dialects.responses.requests import Asked, check, generate
from app.gateway.dialects.responses.stream import Encoder, Manner
from app.gateway.dialects.responses.tools import Offer, offer_of
from app.gateway.dialects.responses.wire import About, begun
from app.gateway.entry.bodies import decode
from app.gateway.exchange.capability_fallback import supplied
from app.gateway.exchange.handling import load_of, path_of, terms_of
from app.gateway.exchange.upstream import UpstreamRequest
from app.gateway.loading.launch import resolve
from app.gateway.loading.requested_model import Found
from app.gateway.services import Services
from engines.api import Route

log = logging.getLogger(__name__)

_ID_BYTES = 24


class ResponseJob(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A request understood: what it says, what the engine is asked, and the response that it is to become."""

    asked: Asked
    said: "Read"
    found: Found
    upstream: UpstreamRequest
    about: About

    @cached_property
    def encoder(self) -> Encoder:
        """The response in the making. It is begun only now that somebody wants it: the engine is at work by then."""
        offer = self.said.offer
        return Encoder(begun(self.asked, offer, self.about), _manner(self.asked, offer), new_id)

    def begin(self) -> bytes:
        """Open the stream, if it is not open yet."""
        return self.encoder.begin()

    def feed(self, events: Sequence[Event]) -> bytes:
        """Return what some events are in the stream."""
        return b"".join(map(self.encoder.take, events))


async def understand(services: Services, body: bytes) -> ResponseJob:
    """Return what a request asks for. Raises BadRequest, NotFound, or what `resolve` raises."""
    asked = decode(body, Asked)
    found = await resolve(services, asked.model)
    said = await read(services, asked)
    is_kept = asked.store is not False and services.settings.integer("responses.kept") > 0
    about = About(id=new_id("resp"), model=found.model.name, at=time.time(), is_stored=is_kept)
    upstream = await upstream_for(services, asked, found, said.work)
    return ResponseJob(asked=asked, said=said, found=found, upstream=upstream, about=about)


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says: what it adds to the conversation, what the engine is to do, and with which tools."""

    given: tuple[Item, ...]
    work: Generate
    offer: Offer


async def read(services: Services, asked: Asked) -> Read:
    """Return what a request says, with the conversation it goes on with. Raises BadRequest."""
    check(asked)
    given = items_of(asked.input if asked.input is not None else [])
    if wanted := references(given):
        given = resolved(given, await services.chats.response_items(wanted))
    if skipped := passed_over(given):
        log.info("Items that are passed over: %s", ", ".join(skipped), extra={"model": asked.model})
    earlier, offer = await _earlier(services, asked.previous_response_id), _offer(asked)
    turns = conversation([*earlier, *given], earlier=len(earlier))
    return Read(given=tuple(given), work=generate(asked, turns, offer), offer=offer)


async def upstream_for(services: Services, asked: Asked, found: Found, work: Generate) -> UpstreamRequest:
    """Return what the engine is sent, and where. Raises BadRequest for what model or engine cannot do."""
    plan = await supplied(services, found, work)
    return UpstreamRequest(
        load=await load_of(services, found, asked.context),
        path=path_of(services, found.load.engine, found.model, Route.CHAT),
        body=plan.body,
        plan=plan,
        model=found.model.name,
        terms=terms_of(asked, Route.CHAT),
    )


def new_id(prefix: str) -> str:
    """Return an id that nobody can guess."""
    return f"{prefix}_{secrets.token_hex(_ID_BYTES)}"


async def _earlier(services: Services, response_id: str | None) -> tuple[Item, ...]:
    if response_id is None:
        return ()
    try:
        kept = await services.chats.response_conversation(response_id)
    except NotFound as error:
        raise BadRequest(error.body.sentence, hint=error.hint, code="previous_response_not_found") from None
    return tuple(kept_item(item.id, item.value) for item in kept)


def _offer(asked: Asked) -> Offer:
    offer = offer_of(asked.tools or [], asked.tool_choice, one_at_a_time=asked.is_one_at_a_time)
    if offer.left_out:
        log.info("Tools that nobody here runs: %s", ", ".join(offer.left_out), extra={"model": asked.model})
    return offer


def _manner(asked: Asked, offer: Offer) -> Manner:
    return Manner(
        offer=offer,
        is_summary=asked.wants_summary,
        is_sealed=asked.wants_encrypted,
        one_call=asked.is_one_at_a_time,
    )
