"""Ollama's routes that change which models there are: create, copy, delete, and the blobs that models are created from.

What is created is a name with settings over weights that are here (`hub.library.made`), so it costs no space and is
undone by deleting the name. Uploaded weights must be whole GGUF files; formats that can carry programs are refused
unread.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
from aiohttp import web

from app.core.errors import BadRequest, NotFound, UserError
from app.core.events import ModelsChanged
from app.core.models import ModelInfo, Preset, PresetMessage
from app.gateway.dialects.ollama.descriptions import digest_of
from app.gateway.dialects.ollama.lookup import json_reply, not_found, read_document, required
from app.gateway.dialects.ollama.options import kept_parameters, read_options
from app.gateway.dialects.ollama.stream import line
from app.gateway.dialects.ollama.templates import to_jinja
from app.gateway.dialects.ollama.uploads import checked_files
from app.gateway.dialects.ollama.wire import CopyRequest, CreateRequest, NamedRequest, Progress, SentMessage
from app.gateway.entry.access import check_may_change
from app.gateway.entry.faults import RequestTimeout
from app.gateway.services import SERVICES, Services
from app.hub.disk.blobs import Blobs
from app.hub.library.made import checked_name

_PIECE_BYTES = 1 << 20
_CREATED = 201
_ROLES = frozenset({"system", "user", "assistant"})


class NotOffered(UserError):
    """Ollama has it, and this endpoint does not, or not yet."""

    default_code = "not_offered"
    status = 501


def add_routes(app: web.Application) -> None:
    """Add the routes."""
    router = app.router
    router.add_post("/api/create", create)
    router.add_post("/api/copy", copy)
    router.add_delete("/api/delete", delete)
    router.add_head("/api/blobs/{digest}", has_blob)
    router.add_post("/api/blobs/{digest}", add_blob)


async def create(request: web.Request) -> web.StreamResponse:
    """POST /api/create: refusals have a status of their own, since nothing is sent before all is done."""
    check_may_change(request)
    services = request.app[SERVICES]
    sent = await read_document(request, CreateRequest)
    said = await asyncio.to_thread(_create, services, sent)
    # Whoever is loaded under this name has the settings of before.
    await services.supervisor.expire(checked_name(sent.named))
    services.events.publish(ModelsChanged())
    if sent.stream is False:
        return json_reply(Progress("success"))
    body = b"".join(line(Progress(status)) for status in (*said, "writing manifest", "success"))
    return web.Response(body=body, content_type="application/x-ndjson")


def _create(services: Services, sent: CreateRequest) -> list[str]:
    """Make the model, and return what to say of it. Raises UserError or StorageFault."""
    name = checked_name(sent.named)
    _check_wishes(sent)
    said = [f"{one} has no effect here" for one in sent.unheeded]
    said += [f"parameter {one} has no effect here" for one in read_options(sent.parameters).unheeded]
    if sent.from_:
        base = _usable(services, sent.from_)
        services.library.make(name, Path(base.path), _preset(sent, base.preset or Preset()))
        return [f"using existing layer sha256:{digest_of(base)}", *said]
    preset, blobs = _preset(sent, Preset()), blobs_of(services)
    files = checked_files(sent.files or {}, blobs.path)
    with services.library.making:
        try:
            first = min(blobs.place(files).values())
            services.library.check(first)
            services.library.make(name, first, preset)
        finally:
            _tidy(services)
    return ["parsing GGUF", *(f"using existing layer {digest}" for digest in files.values()), *said]


async def copy(request: web.Request) -> web.Response:
    """POST /api/copy: a further name for the same weights, with the settings of the first."""
    check_may_change(request)
    services = request.app[SERVICES]
    sent = await read_document(request, CopyRequest)
    if not sent.source or not sent.destination:
        raise BadRequest("source and destination are required", code="model_required")
    await asyncio.to_thread(_copy, services, sent)
    services.events.publish(ModelsChanged())
    return web.Response()


def _copy(services: Services, sent: CopyRequest) -> None:
    source = _usable(services, sent.source)
    services.library.make(sent.destination, Path(source.path), source.preset or Preset())


async def delete(request: web.Request) -> web.Response:
    """DELETE /api/delete: forget a made or attached model, or a registered file. Files of a person's stay on disk."""
    check_may_change(request)
    services = request.app[SERVICES]
    named = required((await read_document(request, NamedRequest)).named)
    try:
        model = await asyncio.to_thread(services.library.find, named)
        await asyncio.to_thread(services.library.forget, model.name)
    except NotFound as error:
        raise not_found(named, error) from None
    await services.supervisor.expire(model.name)
    if model.preset is not None:
        await asyncio.to_thread(_tidy_alone, services)
    services.events.publish(ModelsChanged())
    return web.Response()


async def has_blob(request: web.Request) -> web.Response:
    """HEAD /api/blobs/{digest}."""
    is_here = await asyncio.to_thread(blobs_of(request.app[SERVICES]).has, request.match_info["digest"])
    return web.Response(status=200 if is_here else 404)


async def add_blob(request: web.Request) -> web.Response:
    """POST /api/blobs/{digest}: the body as it comes, written and checked piece by piece."""
    check_may_change(request)
    blobs, digest = blobs_of(request.app[SERVICES]), request.match_info["digest"]
    if await asyncio.to_thread(blobs.has, digest):
        await _passed_over(request)
        return web.Response()
    upload = blobs.upload(digest, expected_bytes=request.content_length)
    try:
        await _in_thread(upload.begin)
        while piece := await _piece(request):
            await _in_thread(partial(upload.write, piece))
        await _in_thread(upload.finish)
    finally:
        await _in_thread(upload.end)
    return web.Response(status=_CREATED)


def blobs_of(services: Services) -> Blobs:
    """Return the uploaded files."""
    return Blobs(services.paths.data / "blobs", services.paths.data / "created")


async def _in_thread(work: Callable[[], None]) -> None:
    """Wait for a thread also when cancelled: what it opens has to be closed after it, not beside it."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working})
        raise


async def _passed_over(request: web.Request) -> None:
    """Read what is here already: clients that are answered while they still send see a broken connection."""
    while await _piece(request):
        pass


async def _piece(request: web.Request) -> bytes:
    limit_s = request.app[SERVICES].limits.body_s
    try:
        async with asyncio.timeout(limit_s):
            return await request.content.read(_PIECE_BYTES)
    except TimeoutError:
        raise RequestTimeout(f"Nothing more of the file came within {limit_s:g} seconds.") from None
    except web.RequestPayloadError as error:
        raise BadRequest(f"The file cannot be read: {error}") from None


def _check_wishes(sent: CreateRequest) -> None:
    """Raise what cannot be had, before anything is touched."""
    if not sent.from_ and not sent.files:
        hint = "A Modelfile's text is not read any more: send its parts as fields." if sent.modelfile else ""
        raise BadRequest("neither 'from' or 'files' was specified", hint=hint)
    if sent.from_ and sent.files:
        raise BadRequest("Both 'from' and 'files' were specified.", hint="Send one of them.", code="invalid_value")
    if sent.quantize or sent.quantization:
        raise NotOffered("Weights are not quantised here.", hint="Upload the quantised file.", code="cannot_quantize")
    if sent.adapters:
        raise NotOffered("LoRA adapters cannot be part of a model here.", code="cannot_adapt")


def _usable(services: Services, name: str) -> ModelInfo:
    """Return the model of exactly that name: an alias could mean another one tomorrow. Raises NotFound, BadRequest."""
    try:
        model = services.library.find(name)
    except NotFound as error:
        raise not_found(name, error) from None
    if model.problem:
        raise BadRequest(f"{model.title} cannot be used: {model.problem}", code="model_unusable")
    return model


def _preset(sent: CreateRequest, base: Preset) -> Preset:
    """Return the base's settings with what was sent in their place. Raises BadRequest."""
    changes: dict[str, object] = {"parameters": {**base.parameters, **kept_parameters(sent.parameters)}}
    if sent.system is not None:
        changes["system"] = sent.system
    if sent.template is not None:
        changes |= {"template": sent.template, "chat_template": to_jinja(sent.template)}
    if sent.messages is not None:
        changes["messages"] = [_turn(turn) for turn in sent.messages]
    if sent.license:
        changes["license"] = [*base.license, *([sent.license] if isinstance(sent.license, str) else sent.license)]
    return msgspec.structs.replace(base, **changes)


def _turn(sent: SentMessage) -> PresetMessage:
    role = sent.role.lower()
    if role not in _ROLES or sent.images or sent.tool_calls:
        raise BadRequest("`messages` are texts of system, user and assistant.", code="invalid_value")
    return PresetMessage(role=role, content=sent.content or "")


def _tidy_alone(services: Services) -> None:
    with services.library.making:
        _tidy(services)


def _tidy(services: Services) -> None:
    blobs_of(services).tidy({model.path for model in services.library.models()})
