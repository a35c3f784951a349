"""Which uploaded files a model can be made of, told by their names and first bytes. Nothing is unpacked or executed."""

import asyncio
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import msgspec
from aiohttp import web

from app.config.paths import Paths
from app.core.errors import BadRequest, NotFound, quote_value
from app.core.events import ModelsChanged
from app.core.models import ModelInfo, Preset, PresetMessage
from app.gateway.dialects.form import utf8_json_reply
from app.gateway.dialects.ollama.descriptions import digest_of
from app.gateway.dialects.ollama.models import OllamaUnsupported, not_found, read_document, require_name
from app.gateway.dialects.ollama.requests import parameters_to_keep, read_options
from app.gateway.dialects.ollama.stream import encode_line
from app.gateway.dialects.ollama.templates import to_jinja
from app.gateway.dialects.ollama.wire import (
    OllamaCopyRequest,
    OllamaCreateRequest,
    OllamaMessage,
    OllamaModelRequest,
    OllamaProgress,
)
from app.gateway.entry.access import check_may_change
from app.gateway.entry.faults import RequestTimeout
from app.gateway.loading.template_trials import TemplateTrials, check_new_template
from app.gateway.services import SERVICES
from app.hub.disk.blobs import BlobStore
from app.hub.library.library import Library
from app.hub.library.made import check_name

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")
_GGUF = b"GGUF"
_PICKLE_ENDINGS = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_PICKLE_STARTS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
"""A PyTorch archive is a zip of pickles; a bare pickle begins with its protocol."""
_PROGRAMS = "can carry programs that run when it is opened"


def check_files(files: Mapping[str, str], blob: Callable[[str], Path]) -> dict[str, str]:
    """Return the files under names that can be on any disk. `blob` says where a digest's bytes are.

    Raises BadRequest for what is no GGUF file, NotFound for a blob that is not here.
    """
    return {_check_file_name(name, _first_bytes(name, digest, blob)): digest for name, digest in files.items()}


def _check_file_name(name: str, start: bytes) -> str:
    plain = name.replace("\\", "/").removeprefix("./")
    if not _FILE_NAME.fullmatch(plain) or ".." in plain:
        raise BadRequest(
            f"{quote_value(name)} is no name for a file.", hint="Send its last part only.", code="invalid_value"
        )
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
        raise NotFound(f"There is no blob {digest} for {quote_value(name)}.", hint="Upload it first.") from None


_PIECE_BYTES = 1 << 20
_CREATED = 201
_ROLES = frozenset({"system", "user", "assistant"})


def add_routes(router: web.UrlDispatcher) -> None:
    """Add the routes."""
    router.add_post("/api/create", create_model)
    router.add_post("/api/copy", copy_model)
    router.add_delete("/api/delete", delete_model)
    router.add_head("/api/blobs/{digest}", has_blob)
    router.add_post("/api/blobs/{digest}", add_blob)


async def create_model(request: web.Request) -> web.StreamResponse:
    """POST /api/create: refusals have a status of their own, since nothing is sent before all is done."""
    check_may_change(request)
    services = request.app[SERVICES]
    create_request = await read_document(request, OllamaCreateRequest)
    notes = await asyncio.to_thread(_make_model, services.templates, services.library, services.paths, create_request)
    # Whoever is loaded under this name has the settings of before.
    await services.supervisor.expire_model(check_name(create_request.model_name))
    services.events.publish(ModelsChanged())
    if create_request.stream is False:
        return utf8_json_reply(OllamaProgress("success"))
    body = b"".join(encode_line(OllamaProgress(status)) for status in (*notes, "writing manifest", "success"))
    return web.Response(body=body, content_type="application/x-ndjson")


def _make_model(
    templates: TemplateTrials, library: Library, paths: Paths, create_request: OllamaCreateRequest
) -> list[str]:
    """Make the model, and return what to say of it. Raises UserError or StorageFault."""
    name = check_name(create_request.model_name)
    _check_request(create_request)
    if create_request.template:
        check_new_template(templates, to_jinja(create_request.template))
    notes = [f"{option} has no effect here" for option in create_request.fields_without_effect]
    notes += [
        f"parameter {option} has no effect here"
        for option in read_options(create_request.parameters).names_without_effect
    ]
    if create_request.from_:
        base = _find_usable(library, create_request.from_)
        library.make_model(name, Path(base.path), _merge_preset(create_request, base.preset or Preset()))
        return [f"using existing layer sha256:{digest_of(base)}", *notes]
    preset, blobs = _merge_preset(create_request, Preset()), blobs_of(paths)
    files = check_files(create_request.files or {}, blobs.blob_path)
    with library.making_lock:
        try:
            first = min(blobs.link_blobs(files).values())
            library.check_file(first)
            library.make_model(name, first, preset)
        finally:
            _tidy_blobs(library, paths)
    return ["parsing GGUF", *(f"using existing layer {digest}" for digest in files.values()), *notes]


async def copy_model(request: web.Request) -> web.Response:
    """POST /api/copy: a further name for the same weights, with the settings of the first."""
    check_may_change(request)
    services = request.app[SERVICES]
    copy_request = await read_document(request, OllamaCopyRequest)
    if not copy_request.source or not copy_request.destination:
        raise BadRequest("source and destination are required", code="model_required")
    await asyncio.to_thread(_make_copy, services.library, copy_request)
    services.events.publish(ModelsChanged())
    return web.Response()


def _make_copy(library: Library, copy_request: OllamaCopyRequest) -> None:
    source = _find_usable(library, copy_request.source)
    library.make_model(copy_request.destination, Path(source.path), source.preset or Preset())


async def delete_model(request: web.Request) -> web.Response:
    """DELETE /api/delete: forget a made or attached model, or a registered file. Files of a person's stay on disk."""
    check_may_change(request)
    services = request.app[SERVICES]
    name = require_name((await read_document(request, OllamaModelRequest)).model_name)
    try:
        model = await asyncio.to_thread(services.library.find_model, name)
        await asyncio.to_thread(services.library.forget_model, model.name)
    except NotFound as error:
        raise not_found(name, error) from None
    await services.supervisor.expire_model(model.name)
    if model.preset is not None:
        await asyncio.to_thread(_tidy_under_lock, services.library, services.paths)
    services.events.publish(ModelsChanged())
    return web.Response()


async def has_blob(request: web.Request) -> web.Response:
    """HEAD /api/blobs/{digest}."""
    is_here = await asyncio.to_thread(blobs_of(request.app[SERVICES].paths).has_blob, request.match_info["digest"])
    return web.Response(status=200 if is_here else 404)


async def add_blob(request: web.Request) -> web.Response:
    """POST /api/blobs/{digest}: the body as it comes, written and checked piece by piece."""
    check_may_change(request)
    blobs, digest = blobs_of(request.app[SERVICES].paths), request.match_info["digest"]
    if await asyncio.to_thread(blobs.has_blob, digest):
        await _skip_body(request)
        return web.Response()
    upload = blobs.start_upload(digest, expected_bytes=request.content_length)
    try:
        await _in_thread(upload.open_file)
        while piece := await _read_piece(request):
            await _in_thread(partial(upload.write_piece, piece))
        await _in_thread(upload.move_into_place)
    finally:
        await _in_thread(upload.close_and_clean)
    return web.Response(status=_CREATED)


def blobs_of(paths: Paths) -> BlobStore:
    """Return the uploaded files."""
    return BlobStore(paths.data / "blobs", paths.data / "created")


async def _in_thread(work: Callable[[], None]) -> None:
    """Wait for a thread also when cancelled: what it opens has to be closed after it, not beside it."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


async def _skip_body(request: web.Request) -> None:
    """Read what is here already: clients that are answered while they still send see a broken connection."""
    while await _read_piece(request):
        pass


async def _read_piece(request: web.Request) -> bytes:
    limit_s = request.app[SERVICES].limits.body_s
    try:
        async with asyncio.timeout(limit_s):
            return await request.content.read(_PIECE_BYTES)
    except TimeoutError:
        raise RequestTimeout(f"Nothing more of the file came within {limit_s:g} seconds.") from None
    except web.RequestPayloadError as error:
        raise BadRequest(f"The file cannot be read: {error}") from None


def _check_request(create_request: OllamaCreateRequest) -> None:
    """Raise what cannot be had, before anything is touched."""
    if not create_request.from_ and not create_request.files:
        hint = "A Modelfile's text is not read any more: send its parts as fields." if create_request.modelfile else ""
        raise BadRequest("neither 'from' or 'files' was specified", hint=hint)
    if create_request.from_ and create_request.files:
        raise BadRequest("Both 'from' and 'files' were specified.", hint="Send one of them.", code="invalid_value")
    if create_request.quantize or create_request.quantization:
        raise OllamaUnsupported(
            "Weights are not quantised here.", hint="Upload the quantised file.", code="cannot_quantize"
        )
    if create_request.adapters:
        raise OllamaUnsupported("LoRA adapters cannot be part of a model here.", code="cannot_adapt")


def _find_usable(library: Library, name: str) -> ModelInfo:
    """Return the model of exactly that name: an alias could mean another one tomorrow. Raises NotFound, BadRequest."""
    try:
        model = library.find_model(name)
    except NotFound as error:
        raise not_found(name, error) from None
    if model.problem:
        raise BadRequest(f"{model.title} cannot be used: {model.problem}", code="model_unusable")
    return model


def _merge_preset(create_request: OllamaCreateRequest, base: Preset) -> Preset:
    """Return the base's settings with what was sent in their place. Raises BadRequest."""
    changes: dict[str, object] = {"parameters": {**base.parameters, **parameters_to_keep(create_request.parameters)}}
    if create_request.system is not None:
        changes["system"] = create_request.system
    if create_request.template is not None:
        changes |= {"template": create_request.template, "chat_template": to_jinja(create_request.template)}
    if create_request.messages is not None:
        changes["messages"] = [_preset_message(turn) for turn in create_request.messages]
    if create_request.license:
        changes["license"] = [
            *base.license,
            *([create_request.license] if isinstance(create_request.license, str) else create_request.license),
        ]
    return msgspec.structs.replace(base, **changes)


def _preset_message(message: OllamaMessage) -> PresetMessage:
    role = message.role.lower()
    if role not in _ROLES or message.images or message.tool_calls:
        raise BadRequest("`messages` are texts of system, user and assistant.", code="invalid_value")
    return PresetMessage(role=role, content=message.content or "")


def _tidy_under_lock(library: Library, paths: Paths) -> None:
    with library.making_lock:
        _tidy_blobs(library, paths)


def _tidy_blobs(library: Library, paths: Paths) -> None:
    blobs_of(paths).remove_unused({model.path for model in library.list_models()})
