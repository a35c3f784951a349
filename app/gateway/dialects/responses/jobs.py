"""From a request of the Responses API to what the engine is asked, with what was said before it."""

import logging
import secrets
import time
from collections.abc import Sequence
from functools import cached_property

import msgspec

from app.core.errors import BadRequest, NotFound, quote_value
from app.core.models import ModelInfo
from app.gateway.canonical.events import Event
from app.gateway.canonical.request import ConversationRequest
from app.gateway.dialects.raw_fields import ABSENT, is_set
from app.gateway.dialects.responses.hosted_specs import ToolRunSpecs, read_hosted_specs
from app.gateway.dialects.responses.input_items import (
    ResponseItem,
    calls_to_make,
    item_from_store,
    items_of,
    kinds_not_read,
    reference_ids,
    resolve_references,
    to_turns,
)
from app.gateway.dialects.responses.ownership import is_owned, new_response_id
from app.gateway.dialects.responses.requests import ResponsesRequest, check_request, to_canonical_request
from app.gateway.dialects.responses.stream import ResponseEncoder, ResponseStyle
from app.gateway.dialects.responses.tools import OfferEntry, ToolOffer, invalid_tools, offer_of
from app.gateway.dialects.responses.wire import ResponseInfo, begin_response
from app.gateway.entry.bodies import call_off_loop, decode_body
from app.gateway.exchange.capability_fallback import plan_fallbacks, with_plan
from app.gateway.exchange.handling import engine_path, lease_options, load_for_context
from app.gateway.exchange.upstream import TrimOptions, UpstreamRequest
from app.gateway.loading.launch import context_of, resolve_model, status_of
from app.gateway.loading.requested_model import ResolvedModel
from app.gateway.mcp.model_tools import LEAST_RESULT, longest_result
from app.gateway.services import Services
from app.store.database import ChatStore
from app.store.responses import response_not_found
from engines.api import Route

log = logging.getLogger(__name__)

_ID_BYTES = 24
_NO_WORK = ConversationRequest(messages=())


class ResponseJob(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A request understood: what it says, what the engine is asked, and the response that it is to become."""

    request: ResponsesRequest
    response_input: "ResponseInput"
    target: ResolvedModel
    upstream: UpstreamRequest
    about: ResponseInfo

    @cached_property
    def encoder(self) -> ResponseEncoder:
        """The response in the making. It is begun only now that somebody wants it: the engine is at work by then."""
        offer = self.response_input.offer
        return ResponseEncoder(
            begin_response(self.request, offer, self.about), _make_style(self.request, offer), new_id
        )

    def begin(self) -> bytes:
        """Open the stream, if it is not open yet."""
        return self.encoder.begin()

    def feed(self, events: Sequence[Event]) -> bytes:
        """Return what some events are in the stream."""
        return b"".join(map(self.encoder.take_event, events))


async def prepare_response(services: Services, body: bytes, owner: str) -> ResponseJob:
    """Return what a request of `owner` asks for. Raises BadRequest, NotFound, or what `resolve_model` raises."""
    request = await call_off_loop(body, decode_body, body, ResponsesRequest)
    target = await resolve_model(services, request.model)
    if request.stream:
        services.connections.dial_ahead(services.supervisor, target.load.source.name)
    response_input = await read_input(services, request, owner, target.model)
    is_kept = request.store is not False and services.settings.get_int("responses.kept") > 0
    about = ResponseInfo(id=new_response_id(owner), model=target.model.name, at=time.time(), is_stored=is_kept)
    upstream = await upstream_for(services, request, target, response_input.work)
    return ResponseJob(request=request, response_input=response_input, target=target, upstream=upstream, about=about)


class ResponseInput(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says: what it adds to the conversation, what the engine is to do, and with which tools.

    Where some of those are run here, `work` and `offer` are without them: there are more once servers were asked.
    """

    earlier: tuple[ResponseItem, ...]
    new_items: tuple[ResponseItem, ...]
    work: ConversationRequest
    offer: ToolOffer
    hosted: ToolRunSpecs
    longest_result: int
    """Characters that a model is given of a result."""

    @property
    def items(self) -> tuple[ResponseItem, ...]:
        """The whole conversation."""
        return (*self.earlier, *self.new_items)


async def read_input(services: Services, request: ResponsesRequest, owner: str, model: ModelInfo) -> ResponseInput:
    """Return what a request says, with the conversation of `owner` it goes on with. Raises BadRequest."""
    check_request(request)
    items = items_of(request.input if request.input is not None else [])
    if item_ids := reference_ids(items):
        stored_items = await services.chats.response_items(item_ids)
        own = {item: value for item, (value, response) in stored_items.items() if is_owned(response, owner)}
        items = resolve_references(items, own)
    if unread_kinds := kinds_not_read(items):
        log.info("Items that are passed over: %s", ", ".join(unread_kinds), extra={"model": request.model})
    earlier = await _load_earlier(services.chats, request.previous_response_id, owner)
    hosted_specs = read_hosted_specs(request.tools or ())
    offer = make_offer(request, ABSENT if hosted_specs else request.tool_choice)
    is_told_results = hosted_specs or any(item.is_hosted for item in (*earlier, *items))
    response_input = ResponseInput(
        earlier=earlier,
        new_items=tuple(items),
        work=_NO_WORK,
        offer=_with_choice(offer, request.tool_choice),
        hosted=hosted_specs,
        longest_result=_result_limit(services, model) if is_told_results else LEAST_RESULT,
    )
    work = read_work(request, response_input.items, response_input, offer)
    check_approvals(response_input)
    return msgspec.structs.replace(response_input, work=work)


def _result_limit(services: Services, model: ModelInfo) -> int:
    context = context_of(services.settings, services.model_settings, model, status_of(services.supervisor, model))
    return longest_result(context) if context else LEAST_RESULT


def read_work(
    request: ResponsesRequest, items: Sequence[ResponseItem], response_input: ResponseInput, offer: ToolOffer
) -> ConversationRequest:
    """Return what the engine is to do, given a conversation. Raises BadRequest."""
    turns = to_turns(items, earlier=len(response_input.earlier), longest_result=response_input.longest_result)
    return to_canonical_request(request, turns, offer)


def check_approvals(response_input: ResponseInput) -> None:
    """Return if the calls that a request approves are of servers that it names. Raises BadRequest."""
    for call in calls_to_make(response_input.earlier, response_input.new_items):
        if response_input.hosted.find_server(call.server_label) is None:
            raise invalid_tools(
                f"An approved call is of the MCP server {quote_value(call.server_label)}, which is not among `tools`."
            )


async def upstream_for(
    services: Services, request: ResponsesRequest, target: ResolvedModel, work: ConversationRequest
) -> UpstreamRequest:
    """Return what the engine is sent, and where. Raises BadRequest for what model or engine cannot do."""
    plan = await plan_fallbacks(services, target, work)
    return await call_off_loop(
        plan.body,
        UpstreamRequest,
        load=await load_for_context(services, target, request.context),
        path=engine_path(services.adapters, services.library, target.load.engine, target.model, Route.CHAT),
        body=plan.body,
        plan=plan,
        model=target.model.name,
        terms=lease_options(request, Route.CHAT),
    )


def new_id(prefix: str) -> str:
    """Return an id that nobody can guess."""
    return f"{prefix}_{secrets.token_hex(_ID_BYTES)}"


async def _load_earlier(chats: ChatStore, response_id: str | None, owner: str) -> tuple[ResponseItem, ...]:
    if response_id is None:
        return ()
    try:
        if not is_owned(response_id, owner):
            raise response_not_found(response_id)
        items = await chats.response_conversation(response_id)
    except NotFound as error:
        raise BadRequest(error.body.sentence, hint=error.hint, code="previous_response_not_found") from None
    return tuple(item_from_store(item.id, item.value) for item in items)


def make_offer(request: ResponsesRequest, choice: msgspec.Raw, hosted_entries: Sequence[OfferEntry] = ()) -> ToolOffer:
    """Return which tools the model is offered, with those that are run here. Raises BadRequest."""
    offer = offer_of(request.tools or [], choice, one_at_a_time=request.is_one_at_a_time, hosted_entries=hosted_entries)
    if offer.left_out:
        log.info("Tools that nobody here runs: %s", ", ".join(offer.left_out), extra={"model": request.model})
    return offer


def _with_choice(offer: ToolOffer, choice: msgspec.Raw) -> ToolOffer:
    return msgspec.structs.replace(offer, reply_choice=choice) if is_set(choice) else offer


def trim_options(
    services: Services, job: ResponseJob, upstream: UpstreamRequest, work: ConversationRequest
) -> TrimOptions:
    """Return how a conversation is cut to what fits (`truncation: auto`)."""

    async def prepare_shorter(shorter: ConversationRequest) -> UpstreamRequest:
        return await with_plan(services, upstream, job.target, shorter)

    return TrimOptions(work=work, prepare=prepare_shorter, dropped=job.encoder.note_dropped)


def _make_style(request: ResponsesRequest, offer: ToolOffer) -> ResponseStyle:
    return ResponseStyle(
        offer=offer,
        is_summary=request.wants_summary,
        is_sealed=request.wants_encrypted,
        one_call=request.is_one_at_a_time,
    )
