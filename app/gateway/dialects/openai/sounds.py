"""Recordings in OpenAI's dialect: `/v1/audio/transcriptions` and `/v1/audio/translations`.

They come as forms. What an engine gets is a form written anew: fields by name, the recording under a name of ours, and
the name the engine has for the model. Our engines are sent the fields of OpenAI's only, since llama-server makes a
chat of a form and would heed all that a chat may have; an endpoint judges for itself.
"""

from functools import partial
from http import HTTPStatus

import msgspec
from aiohttp import hdrs, web

from app.core.errors import BadRequest, quote_value
from app.core.recordings import FORM, write_form
from app.gateway.canonical.events import failure_event
from app.gateway.dialects.form import ErrorReply
from app.gateway.dialects.openai.form import END, OpenAIForm
from app.gateway.dialects.openai.record import dialect_for_field
from app.gateway.entry.bodies import call_off_loop, read_upload
from app.gateway.entry.forms import UploadForm, read_form
from app.gateway.exchange.handling import RequestJob, client_header_lines, engine_path
from app.gateway.exchange.observer import BODY_BYTES, OBSERVATION, Observation
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest
from app.gateway.loading.able_models import resolve_able_model
from app.gateway.services import SERVICES
from app.supervisor.lease import Lease
from engines.api import Descriptor, Route

MODEL, RESPONSE_FORMAT, STREAM = "model", "response_format", "stream"
_FIELDS = frozenset(
    {
        *("language", "prompt", RESPONSE_FORMAT, STREAM, "temperature"),
        *("timestamp_granularities[]", "include[]", "chunking_strategy"),
    }
)
_JSON, _TEXT = "json", "text"
_FORMATS = frozenset({_JSON, _TEXT, "srt", "verbose_json", "vtt", "diarized_json"})
_END = b'"transcript.text.done"'


class _Transcript(msgspec.Struct, frozen=True):
    text: str


class TranscriptForm(OpenAIForm, frozen=True, kw_only=True):
    """`app.gateway.dialects.form.AnswerForm` for a transcript; `is_text`: as plain text, of an engine that has none."""

    prompt: str = "prompt"
    is_text: bool = False

    def whole(self, body: bytes) -> bytes:
        """Return the transcript."""
        return msgspec.json.decode(body, type=_Transcript).text.encode() if self.is_text else body

    def is_complete(self, tail: bytes) -> bool:
        """Tell whether a stream said that it was over: OpenAI's own have no `[DONE]`."""
        return _END in tail or super().is_complete(tail)


_EVENT_STARTS = (b"data:", b"event:", b"id:", b":")
_NO_ROUTE = frozenset({HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})


class MediaForm(OpenAIForm, frozen=True, kw_only=True):
    """`app.gateway.dialects.form.AnswerForm` for sound and pictures, which come whole or as events."""

    prompt: str = "input"
    does: str = ""
    """What the route is for, as it follows "does not"."""

    def is_complete(self, tail: bytes) -> bool:
        """Tell whether a stream said that it was over: its last event is called so.

        Of a picture's event only the end may have been kept, without its name: it is enough that the event ends.
        """
        if b'.done"' in tail or b'.completed"' in tail or super().is_complete(tail):
            return True
        lines = tail.replace(b"\r\n", b"\n")
        return lines.endswith(END) and not lines.startswith(_EVENT_STARTS) and END not in lines.removesuffix(END)

    def refusal(self, body: bytes, status: int) -> ErrorReply:
        """Return OpenAI's error document. An endpoint that has no such route is one that cannot."""
        is_absent = status in _NO_ROUTE or (status == HTTPStatus.NOT_FOUND and b"model" not in body.lower())
        if not self.does or not is_absent:
            return super().refusal(body, status)
        error = BadRequest(
            f"The endpoint of this model does not {self.does}.",
            hint="Attach an endpoint that does, and name its model.",
            code="model_cannot",
        )
        document = dialect_for_field(self.prompt).error_document(failure_event(error))
        return ErrorReply(msgspec.json.encode(document), HTTPStatus.BAD_REQUEST)


async def prepare_recording_job(request: web.Request, route: Route) -> RequestJob:
    """Return what a form with a recording asks for. Raises BadRequest or NotFound."""
    services, body = request.app[SERVICES], await read_upload(request)
    form = await call_off_loop(body, read_form, body, request.headers.get(hdrs.CONTENT_TYPE, ""))
    _note_fields(request[OBSERVATION], form)
    _check_fields(form)
    model, load = await resolve_able_model(services, form.find(MODEL), route)
    descriptor = services.adapters[load.engine].descriptor
    is_ours, is_text = load.source.remote is None, _is_made_text(form, descriptor)
    fields = [(name, value) for name, value in form.fields if not is_ours or name in _FIELDS]
    dropped_fields = {MODEL, *([RESPONSE_FORMAT] if is_text else [])}
    remaining_form = UploadForm([(name, value) for name, value in fields if name not in dropped_fields], form.recording)
    upstream = UpstreamRequest(
        load=load,
        path=engine_path(services.adapters, services.library, load.engine, model, route),
        body=b"",
        model=form.find(MODEL) or "",
        form=TranscriptForm(is_text=is_text),
        streams=form.find(STREAM) == "true",
        headers=client_header_lines(request),
        prepare=partial(_fill_form, remaining_form),
        content_type=FORM,
        answers_as="text/plain; charset=utf-8" if is_text else "",
        drops_cache_field=True,
        keeps_limit=True,  # a transcript has none
    )
    return RequestJob(upstream, detour=_refuse_shared_cache)


async def _fill_form(
    form: UploadForm, _engines: EngineAccess, lease: Lease, upstream: UpstreamRequest
) -> UpstreamRequest:
    """Return the request with its form, in which the model is called what the engine calls it."""
    fields = [(MODEL, lease.served_name), *form.fields]
    body, content_type = write_form(fields, form.recording)
    return msgspec.structs.replace(upstream, body=body, content_type=content_type, model=lease.served_name)


async def _refuse_shared_cache() -> RequestJob:
    raise BadRequest(
        "Several keys use this model, and its engine cannot keep their prompts apart while it transcribes.",
        hint="Allow them to share it (`engine.share_cache`), or attach an endpoint that transcribes.",
        code="engine_cannot",
    )


def _note_fields(observation: Observation, form: UploadForm) -> None:
    """Keep what was asked for the inspector, if somebody wants to read it; of the recording only what it is."""
    if observation.caller.keeps_bodies:
        recording_text = f"{form.recording.kind}, {len(form.recording.content)} bytes"
        observation.kept_request = msgspec.json.encode({**dict(form.fields), "file": recording_text})[:BODY_BYTES]


def _check_fields(form: UploadForm) -> None:
    wish = form.find(RESPONSE_FORMAT)
    if wish and wish not in _FORMATS:
        raise BadRequest(
            f"`response_format` {quote_value(wish)} is none of {', '.join(sorted(_FORMATS))}.", code="invalid_value"
        )


def _is_made_text(form: UploadForm, engine: Descriptor) -> bool:
    """Tell whether plain text is to be made of JSON. Raises BadRequest for a form the engine cannot write."""
    wish = form.find(RESPONSE_FORMAT) or _JSON
    if not engine.transcripts or wish in engine.transcripts:
        return False
    if wish != _TEXT or form.find(STREAM) == "true":
        raise BadRequest(
            f"`response_format` cannot be {wish} on {engine.name}, which writes words without their times.",
            hint="Choose json or text, or an attached endpoint with Whisper.",
            code="engine_cannot",
        )
    return True
