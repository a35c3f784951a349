"""Pictures made of pictures in OpenAI's dialect: `/v1/images/edits` and `/v1/images/variations`.

They come as forms, and go to attached endpoints only: no engine of ours has them. As with recordings, what an endpoint
gets is a form written anew, with files under names of ours and the name that the endpoint has for the model.
"""

from functools import partial

import msgspec
from aiohttp import hdrs, web

from app.core.recordings import FORM, FormFile, write_upload
from app.gateway.dialects.openai.sounds import MODEL, STREAM, MediaForm
from app.gateway.entry.bodies import call_off_loop, read_upload
from app.gateway.entry.forms import PictureForm, read_picture_form
from app.gateway.exchange.handling import ROUTE_VERBS, RequestJob, client_header_lines, engine_path
from app.gateway.exchange.observer import BODY_BYTES, OBSERVATION, Observation
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest
from app.gateway.loading.able_models import resolve_able_model
from app.gateway.services import SERVICES
from app.supervisor.lease import Lease
from engines.api import Route


async def prepare_picture_job(request: web.Request, route: Route) -> RequestJob:
    """Return what a form with pictures asks for. Raises BadRequest or NotFound."""
    services, body = request.app[SERVICES], await read_upload(request)
    form = await call_off_loop(body, read_picture_form, body, request.headers.get(hdrs.CONTENT_TYPE, ""))
    _note_fields(request[OBSERVATION], form)
    model, load = await resolve_able_model(services, form.find(MODEL), route)
    upstream = UpstreamRequest(
        load=load,
        path=engine_path(services.adapters, services.library, load.engine, model, route),
        body=b"",
        model=form.find(MODEL) or "",
        form=MediaForm(prompt="prompt", does=ROUTE_VERBS[route]),
        streams=form.find(STREAM) == "true",
        headers=client_header_lines(request),
        prepare=partial(_fill_form, form),
        content_type=FORM,
        is_media=True,
        drops_cache_field=True,
        keeps_limit=True,  # a picture has none
    )
    return RequestJob(upstream)


async def _fill_form(
    form: PictureForm, _engines: EngineAccess, lease: Lease, upstream: UpstreamRequest
) -> UpstreamRequest:
    """Return the request with its form, in which the model is called what the endpoint calls it."""
    fields = [(MODEL, lease.served_name), *((name, value) for name, value in form.fields if name != MODEL)]
    body, content_type = write_upload(fields, form.files)
    return msgspec.structs.replace(upstream, body=body, content_type=content_type, model=lease.served_name)


def _note_fields(observation: Observation, form: PictureForm) -> None:
    """Keep what was asked for the inspector, if somebody wants to read it; of the pictures only what they are."""
    if observation.caller.keeps_bodies:
        files = [_describe(file) for file in form.files]
        observation.kept_request = msgspec.json.encode({**dict(form.fields), "files": files})[:BODY_BYTES]


def _describe(file: FormFile) -> str:
    return f"{file.field}: {file.media_type}, {len(file.content)} bytes"
