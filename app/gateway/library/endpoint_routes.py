"""Which routes an attached endpoint has for a model, asked when a request first needs one, and remembered.

A question is as small as can be and computes nothing but an embedding, or the words in a moment of silence. A route
that was not there is asked for again after a while, since a server is started with other options sooner than its list
of models changes. What stays unknown, because nobody answered, is simply tried.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import msgspec

from app.core.capabilities import Capability
from app.core.errors import RoundhouseError
from app.core.events import ModelsChanged
from app.core.models import ModelInfo
from app.core.recordings import SILENCE, SoundFile, write_form
from app.gateway.background import SharedWork
from app.gateway.events import EventHub
from app.gateway.library.endpoint_cards import root_of
from app.gateway.loading.requested_model import MEDIA, ResolvedModel
from app.hub.library.attached import KEY_SUFFIX, Attachment, RouteProbe
from app.hub.library.library import Library
from app.supervisor.readiness import JSON, OK, EngineEndpoint, EngineReply
from engines.api import EngineAdapter, Route

PROBE_S = 5.0
"""Time for one question: an endpoint may load the model first. One that takes longer is tried with the request."""
AGAIN_S = 600.0
"""How long it counts that a route was not there."""
_WORD = "a"
_ABSENT = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.METHOD_NOT_ALLOWED,
        HTTPStatus.UNPROCESSABLE_ENTITY,
        HTTPStatus.NOT_IMPLEMENTED,
    }
)
"""How servers answer a request that is in order, for a route or a model that is not made for it."""
_NEEDS = {
    Route.CHAT: Capability.CHAT,
    Route.COMPLETIONS: Capability.COMPLETION,
    Route.EMBEDDINGS: Capability.EMBEDDING,
    Route.RERANK: Capability.RERANK,
    Route.INFILL: Capability.INFILL,
    **MEDIA,
}
_USUAL = {
    Route.CHAT: "/chat/completions",
    Route.COMPLETIONS: "/completions",
    Route.EMBEDDINGS: "/embeddings",
    Route.RERANK: "/rerank",
    Route.TRANSCRIPTIONS: "/audio/transcriptions",
    Route.TRANSLATIONS: "/audio/translations",
    Route.SPEECH: "/audio/speech",
    Route.IMAGES: "/images/generations",
    Route.IMAGE_EDITS: "/images/edits",
    Route.IMAGE_VARIATIONS: "/images/variations",
}
"""Where a route is at an endpoint that was not asked, or did not answer."""


class _RouteProbe(NamedTuple):
    """A request that shows whether a route is there, and what its answer has if it is."""

    path: str
    body: Mapping[str, object]
    shown_by: Callable[[object], bool]
    is_below_base: bool = True
    text_field: str = ""
    has_recording: bool = False
    """Whether it is a form with a moment of silence."""


def _has_field(name: str) -> Callable[[object], bool]:
    return lambda answer: isinstance(answer, dict) and bool(answer.get(name))


def _has_ranking(answer: object) -> bool:
    return bool(answer.get("results") if isinstance(answer, dict) else answer)


def _has_transcript(answer: object) -> bool:
    return isinstance(answer, dict) and isinstance(answer.get("text"), str)


def _has_text(answer: object) -> bool:
    return isinstance(answer, dict) and isinstance(answer.get("content"), str)


_TURNS = [{"role": "user", "content": _WORD}]
_RANKED = {"query": _WORD, "documents": [_WORD]}
_ROUTE_PROBES: Mapping[Route, tuple[_RouteProbe, ...]] = {
    Route.EMBEDDINGS: (_RouteProbe("/embeddings", {"input": _WORD}, _has_field("data")),),
    Route.RERANK: (
        _RouteProbe("/rerank", _RANKED, _has_ranking),
        _RouteProbe("/rerank", _RANKED, _has_ranking, is_below_base=False),
    ),
    Route.TOKENIZE: (  # llama-server's words first: it takes vLLM's for no text at all
        _RouteProbe("/tokenize", {"content": _WORD}, _has_field("tokens"), is_below_base=False, text_field="content"),
        _RouteProbe("/tokenize", {"prompt": _WORD}, _has_field("tokens"), is_below_base=False, text_field="prompt"),
    ),
    Route.APPLY_TEMPLATE: (
        _RouteProbe("/apply-template", {"messages": _TURNS}, _has_field("prompt"), is_below_base=False),
    ),
    Route.COUNT_TOKENS: (
        _RouteProbe("/messages/count_tokens", {"messages": _TURNS, "max_tokens": 1}, _has_field("input_tokens")),
    ),
    Route.INFILL: (
        _RouteProbe(
            "/infill", {"input_prefix": _WORD, "input_suffix": _WORD, "n_predict": 0}, _has_text, is_below_base=False
        ),
    ),
    Route.TRANSCRIPTIONS: (_RouteProbe("/audio/transcriptions", {}, _has_transcript, has_recording=True),),
}


async def with_probes(
    library: Library, shared_work: SharedWork, events: EventHub, target: ResolvedModel, *routes: Route
) -> ResolvedModel:
    """Return the model with what its endpoint says of these routes, asked now where nobody knows."""
    if not target.model.attached:
        return target
    open_routes = [route for route in routes if _is_open(library.find_attachment(target.model), route)]
    for route in open_routes:  # many requests at once ask once
        await shared_work.run_once((target.model.path, route), partial(_learn, library, events, target.model, route))
    if not open_routes:
        return target
    now = await asyncio.to_thread(library.find_model, target.model.name)
    changed_fields = {name: getattr(now, name) for name in ("capabilities", "chats", "embeds")}
    return target._replace(model=msgspec.structs.replace(target.model, **changed_fields))


async def _learn(library: Library, events: EventHub, model: ModelInfo, route: Route) -> None:
    probe = await _probe(library, model, route)
    if probe is not None:
        await asyncio.to_thread(
            library.correct_attachment, model.name, lambda attachment: _with_probe(attachment, route, probe)
        )
        events.publish(ModelsChanged())


def routes_of(
    adapters: Mapping[str, EngineAdapter], library: Library, engine: str, model: ModelInfo
) -> Mapping[Route, str]:
    """Return the routes a model can be asked on, by what its engine has, or what is known of its endpoint."""
    if not model.attached:
        return adapters[engine].descriptor.routes
    return endpoint_routes(library.find_attachment(model))


def endpoint_routes(attachment: Attachment) -> dict[Route, str]:
    """Return where an endpoint has what, below its base; what nobody knows is where it usually is."""
    probed_paths = {route: probe.path for route, probe in attachment.known.probes.items() if probe.path}
    routes = {**_USUAL, **probed_paths}
    tokenizer = routes.get(Route.TOKENIZE)
    if tokenizer is not None:
        routes[Route.DETOKENIZE] = tokenizer.replace("tokenize", "detokenize")
    if attachment.can is not None and Capability.INFILL in attachment.can:
        routes.setdefault(Route.INFILL, _place(attachment, _ROUTE_PROBES[Route.INFILL][0]))
    return {
        route: path for route, path in routes.items() if _NEEDS.get(route) not in attachment.impossible_capabilities
    }


def text_field(adapters: Mapping[str, EngineAdapter], library: Library, engine: str, model: ModelInfo) -> str:
    """Return what the tokenizer that serves a model calls a text."""
    if not model.attached:
        return adapters[engine].descriptor.tokenizes
    probe = library.find_attachment(model).known.probes.get(Route.TOKENIZE)
    return probe.text_field if probe is not None else "content"


def capabilities_to_try(library: Library, model: ModelInfo) -> list[Capability]:
    """Return what an attached model may be asked for: what it can do, and what nobody knows."""
    refused_capabilities = library.find_attachment(model).impossible_capabilities
    return [capability for capability in Capability if capability not in refused_capabilities]


def _is_open(attachment: Attachment, route: Route) -> bool:
    """Tell whether a route has to be asked for before it is known."""
    capability, probe = _NEEDS.get(route), attachment.known.probes.get(route)
    if route not in _ROUTE_PROBES or (probe is not None and (probe.path or abs(time.time() - probe.at) < AGAIN_S)):
        return False
    if attachment.can is not None:  # a person's word is enough, but for a route that has two places
        return capability is None or (capability in attachment.can and len(_ROUTE_PROBES[route]) > 1)
    is_so = None if capability is None else attachment.known.cards.get(capability)
    return is_so is None or (is_so and route is not Route.EMBEDDINGS)


def _with_probe(attachment: Attachment, route: Route, probe: RouteProbe) -> Attachment:
    known_card = msgspec.structs.replace(attachment.known, probes={**attachment.known.probes, route: probe})
    return msgspec.structs.replace(attachment, known=known_card)


async def _probe(library: Library, model: ModelInfo, route: Route) -> RouteProbe | None:
    """Return where the route is, or that it is not there; None if the endpoint does not say."""
    attachment = library.find_attachment(model)
    endpoint = await asyncio.to_thread(endpoint_of, attachment, model)
    is_known = True
    for question in _ROUTE_PROBES[route]:
        answer = await _ask_route(endpoint, question)
        if answer is True:
            return RouteProbe(path=_place(attachment, question), at=time.time(), text_field=question.text_field)
        is_known = is_known and answer is not None
    return RouteProbe(path="", at=time.time()) if is_known else None


async def _ask_route(endpoint: EngineEndpoint, question: _RouteProbe) -> bool | None:
    base = endpoint.base_url if question.is_below_base else root_of(endpoint.base_url)
    body, content_type = msgspec.json.encode({"model": endpoint.served_name, **question.body}), JSON
    if question.has_recording:
        body, content_type = write_form([("model", endpoint.served_name)], SoundFile(SILENCE))
    try:
        where = msgspec.structs.replace(endpoint, base_url=base)
        reply = await where.send_request("POST", question.path, body=body, timeout_s=PROBE_S, content_type=content_type)
        return _read_presence(reply, question)
    except (OSError, ValueError, RecursionError, RoundhouseError):  # silence, nonsense, or being offline
        return None


def _read_presence(reply: EngineReply, question: _RouteProbe) -> bool | None:
    if reply.status == OK:
        return question.shown_by(msgspec.json.decode(reply.body))
    is_absent = reply.status in _ABSENT or b"not support" in reply.body
    return False if is_absent else None


def _place(attachment: Attachment, question: _RouteProbe) -> str:
    """Return where a question's route is below the base: what has no version is beside it."""
    is_beside = not question.is_below_base and root_of(attachment.url) != attachment.url
    return f"/..{question.path}" if is_beside else question.path


def endpoint_of(attachment: Attachment, model: ModelInfo) -> EngineEndpoint:
    """Return where to ask for a model, and with which key. Reads the key's file."""
    key = Path(model.path).with_suffix(KEY_SUFFIX).read_text()
    return EngineEndpoint(base_url=attachment.url, key=key, served_name=attachment.served_as)
