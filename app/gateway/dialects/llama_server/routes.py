"""llama-server's own routes: what editors ask for completions in the middle of code, and tokens.

Clients made for llama-server name no model, as one of it has only one: they mean the model in use. Its words for an end
and for a mistake are other than OpenAI's.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Annotated

import msgspec
from aiohttp import web

from app.core.errors import BadRequest
from app.gateway.dialects.form import ErrorReply
from app.gateway.dialects.llama_server import models as llama_models
from app.gateway.dialects.openai.form import OPENAI, OpenAIForm
from app.gateway.entry.bodies import call_off_loop, decode_body, read_body
from app.gateway.exchange.handling import BESIDE_SLOTS, RequestJob, answer_request, client_header_lines, engine_path
from app.gateway.exchange.infilling import PREPARERS, InfillContext
from app.gateway.exchange.presets import apply_preset
from app.gateway.exchange.upstream import UpstreamRequest
from app.gateway.library.endpoint_routes import text_field, with_probes
from app.gateway.loading.launch import resolve_model
from app.gateway.services import SERVICES
from app.supervisor.policy import LeaseOptions
from engines.api import Route

CONTENT = "content"
"""What llama-server calls a text."""
_ADDS_MARKS = "add_special"
_LAST = b'"stop":true'
"""Inside a text the quotes would have backslashes before them."""
_SERVER_ERROR = 500
_OUT_OF_RANGE = re.compile(rb"_M_range_check|invalid vector subscript|\"vector\"")
"""What a look into its vocabulary throws, by the standard library that it was compiled with: GNU's, MSVC's, LLVM's."""
_NO_TOKEN = (
    b'{"error":{"message":"`tokens` names one that the model does not have.",'
    b'"type":"invalid_request_error","param":"tokens","code":"invalid_value"}}'
)


class LlamaInfillForm(OpenAIForm, frozen=True, kw_only=True):
    """`app.gateway.dialects.form.AnswerForm` for `/infill`: no `[DONE]` ends its stream, the last event says so."""

    prompt: str = "input_prefix"

    def is_complete(self, tail: bytes) -> bool:
        """Tell whether a stream said that it was over."""
        return _LAST in tail or super().is_complete(tail)


class LlamaDetokenizeForm(OpenAIForm, frozen=True, kw_only=True):
    """`app.gateway.dialects.form.AnswerForm` for `/detokenize`: a number beyond the vocabulary is the caller's mistake.

    `text_field` is what the engine calls the text.
    """

    text_field: str = CONTENT

    def whole(self, body: bytes) -> bytes:
        """Return the text under llama-server's name."""
        return (
            body if self.text_field == CONTENT else _rename_field(msgspec.json.decode(body), self.text_field, CONTENT)
        )

    def refusal(self, body: bytes, status: int) -> ErrorReply:
        """Return OpenAI's error document."""
        is_beyond = status == _SERVER_ERROR and _OUT_OF_RANGE.search(body) is not None
        return OPENAI.refusal(_NO_TOKEN, 400) if is_beyond else super().refusal(body, status)


def rename_text_field(fields: dict[str, msgspec.Raw], text_field: str) -> bytes:
    """Return a text to be tokenised as vLLM and SGLang take it, which add a model's marks unless told not to."""
    marks = fields.get(_ADDS_MARKS, msgspec.Raw(b"false"))
    return _rename_field({**fields, "add_special_tokens": marks}, CONTENT, text_field)


def _rename_field(fields: dict[str, object] | dict[str, msgspec.Raw], name: str, other: str) -> bytes:
    return msgspec.json.encode({(other if field == name else field): value for field, value in fields.items()})


_ROUTES = {
    "/infill": Route.INFILL,
    "/tokenize": Route.TOKENIZE,
    "/detokenize": Route.DETOKENIZE,
    "/apply-template": Route.APPLY_TEMPLATE,
}
_REQUIRED_FIELDS = {
    Route.INFILL: ("input_prefix", "input_suffix"),
    Route.TOKENIZE: ("content",),
    Route.DETOKENIZE: ("tokens",),
    Route.APPLY_TEMPLATE: ("messages",),
}
"""llama-server answers some requests without these as if they were empty."""
_FORMS: Mapping[Route, OpenAIForm] = {Route.INFILL: LlamaInfillForm()}
_PROBE_ROUTES = {Route.DETOKENIZE: Route.TOKENIZE}
"""A route that attached endpoints have where they have another one, which is asked for."""


class LlamaServerRequest(msgspec.Struct, frozen=True):
    """The model, if a client names one, and whether it wants a stream."""

    model: str | None = None
    stream: bool | None = None


class DetokenizeRequest(msgspec.Struct, frozen=True):
    """Tokens to be written out."""

    tokens: list[Annotated[int, msgspec.Meta(ge=0, lt=2**31)]]


def add_routes(router: web.UrlDispatcher) -> None:
    """Add llama-server's routes."""
    for path, route in _ROUTES.items():
        router.add_post(path, _make_handler(route))
    llama_models.add_routes(router)


def _make_handler(route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle_request(request: web.Request) -> web.StreamResponse:
        return await answer_request(request, route, partial(_prepare_job, route=route))

    return handle_request


async def _prepare_job(request: web.Request, route: Route) -> RequestJob:
    services, body = request.app[SERVICES], await read_body(request)
    fields = await call_off_loop(body, decode_body, body, dict[str, msgspec.Raw])
    for name in _REQUIRED_FIELDS[route]:
        if name not in fields:
            raise BadRequest(f"The request lacks `{name}`.", code="invalid_value")
    if route is Route.DETOKENIZE:
        await call_off_loop(body, decode_body, body, DetokenizeRequest)
    if route is Route.INFILL:
        await call_off_loop(body, decode_body, body, InfillContext)
    options = await call_off_loop(body, decode_body, body, LlamaServerRequest)
    model, load = await with_probes(
        services.library,
        services.shared_work,
        services.events,
        await resolve_model(services, options.model, route=route if route is Route.INFILL else Route.CHAT),
        _PROBE_ROUTES.get(route, route),
    )
    field = text_field(services.adapters, services.library, load.engine, model)
    if route is Route.TOKENIZE and field != CONTENT:
        body = rename_text_field(fields, field)
    upstream = await call_off_loop(
        body,
        UpstreamRequest,
        load=load,
        path=engine_path(services.adapters, services.library, load.engine, model, route),
        body=await call_off_loop(body, apply_preset, body, model, route),
        model=options.model or "",
        terms=LeaseOptions(takes_slot=route not in BESIDE_SLOTS),
        form=LlamaDetokenizeForm(text_field=field) if route is Route.DETOKENIZE else _FORMS.get(route, OPENAI),
        streams=bool(options.stream),
        headers=client_header_lines(request),
        prepare=PREPARERS.get(route),
    )
    return RequestJob(upstream)
