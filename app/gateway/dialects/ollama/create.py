"""Which uploaded files a model can be made of, told by their names and first bytes. Nothing is unpacked or executed."""

import asyncio
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import msgspec
from aiohttp import web

from app.core.errors import BadRequest, NotFound
from app.core.events import ModelsChanged
from app.core.models import ModelInfo, Preset, PresetMessage
from app.gateway.dialects.ollama.descriptions import digest_of
from app.gateway.dialects.ollama.models import NotOffered, not_found, read_document, required
from app.gateway.dialects.ollama.options import kept_parameters, read_options
from app.gateway.dialects.ollama.stream import line
from app.gateway.dialects.ollama.templates import to_jinja
from app.gateway.dialects.ollama.wire import CopyRequest, CreateRequest, NamedRequest, Progress, SentMessage
from app.gateway.dialects.replies import utf8_json_reply
from app.gateway.entry.access import check_may_change
from app.gateway.entry.faults import RequestTimeout
from app.gateway.services import SERVICES, Services
from app.hub.disk.blobs import Blobs
from app.hub.library.made import checked_name

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")
_GGUF = b"GGUF"
_PICKLE_ENDINGS = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_PICKLE_STARTS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
"""A PyTorch archive is a zip of pickles; a bare pickle begins with its protocol."""
_PROGRAMS = "can carry programs that run when it is opened"


def checked_files(files: Mapping[str, str], blob: Callable[[str], Path]) -> dict[str, str]:
    """Return the files under names that can be on any disk. `blob` says where a digest's bytes are.

    Raises BadRequest for what is no GGUF file, NotFound for a blob that is not here.
    """
    return {_checked_name(name, _first_bytes(name, digest, blob)): digest for name, digest in files.items()}


def _checked_name(name: str, start: bytes) -> str:
    plain = name.replace("\\", "/").removeprefix("./")
    if not _FILE_NAME.fullmatch(plain) or ".." in plain:
        raise BadRequest(f"{name[:80]!r} is no name for a file.", hint="Send its last part only.", code="invalid_value")
    if plain.lower().endswith(_PICKLE_ENDINGS) or start.startswith(_PICKLE_STARTS):
        raise BadRequest(f"{plain} {_PROGRAMS}.", hint="Upload the model as a GGUF file.", code="unsafe_format")
    if start != _GGUF:
        kind = "a safetensors file" if plain.lower().endswith(".safetensors") else "no GGUF file"
        raise BadRequest(
            f"{plain} is {kind}, and models are created from GGUF files here.",
            hint="Upload it as GGUF, or put the folder of a safetensors model into a model folder.",
            code="unsupported_format",
        )
    return plain if plain.lower().endswith(".gguf") else plain + ".gguf"


def _first_bytes(name: str, digest: str, blob: Callable[[str], Path]) -> bytes:
    try:
        with blob(digest).open("rb") as file:
            return file.read(len(_GGUF))
    except FileNotFoundError:
        raise NotFound(f"There is no blob {digest} for {name[:80]!r}.", hint="Upload it first.") from None


_PIECE_BYTES = 1 << 20
_CREATED = 201
_ROLES = frozenset({"system", "user", "assistant"})


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
        return utf8_json_reply(Progress("success"))
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
