"""What the server answers: OpenAI's routes, llama-server's for tokens and templates, health and metrics."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from engines.serving import shapes
from engines.serving.answer import PromptSize, WorkerAnswer
from engines.serving.answer_request import (
    AnswerRequest,
    TemplateInput,
    parse_answer_request,
    parse_prompt,
    parse_template_input,
)
from engines.serving.backend import LoadResult, WorkerBackend
from engines.serving.count_tokens import parse_count_request
from engines.serving.fields import RequestFields
from engines.serving.http import HttpRequest, WorkerConnection
from engines.serving.json_text import encode_compact, parse_object
from engines.serving.metrics import WorkerMetrics
from engines.serving.refusals import RequestRefused, context_refusal, invalid_request, not_ready_refusal
from engines.serving.scheduler import Scheduler, work_of
from engines.serving.templates import ChatTemplate

_EVENT_STREAM = "text/event-stream"
Body = Mapping[str, object]


@dataclass(slots=True)
class ServedModel:
    """What answers once the model is loaded. `template` is None where the model came without one."""

    name: str
    backend: WorkerBackend
    loaded: LoadResult
    scheduler: Scheduler
    template: ChatTemplate | None
    usual: Mapping[str, float | int] = field(default_factory=dict)
    """Sampling for requests that do not say."""


class WorkerRoutes:
    """Answers requests. `model` is set when it is loaded; until then `stage` and `fraction` say how far that is."""

    def __init__(self, key: str, metrics: WorkerMetrics) -> None:
        self.model: ServedModel | None = None
        self.stage = "Starting"
        self.fraction: float | None = None
        self.stop = asyncio.Event()
        self._key = f"Bearer {key}".encode()
        self._metrics = metrics
        self._get: dict[str, Callable[[WorkerConnection], None]] = {
            "/health": self._health,
            "/v1/models": self._models,
            "/metrics": self._send_metrics,
        }
        self._post: dict[str, Callable[[Body, WorkerConnection], Awaitable[None]]] = {
            "/v1/chat/completions": self._chat,
            "/v1/completions": self._complete,
            "/v1/messages/count_tokens": self._count,
            "/tokenize": self._tokenize,
            "/detokenize": self._detokenize,
            "/apply-template": self._apply,
            "/shutdown": self._shutdown,
        }

    async def handle_request(self, request: HttpRequest, to: WorkerConnection) -> None:
        """Answer one request, with an error if need be."""
        try:
            await self._route(request, to)
        except RequestRefused as refused:
            if not to.has_begun:
                to.send_refusal(refused)
                return
            to.write_chunk(shapes.encode_event(refused.document()))
            to.end_chunks()

    async def _route(self, request: HttpRequest, to: WorkerConnection) -> None:
        if request.path != "/health":
            self._check_key(request)
        if request.method == "GET" and request.path in self._get:
            self._get[request.path](to)
        elif request.method == "POST" and request.path in self._post:
            await self._post[request.path](parse_object(request.body or b"{}"), to)
        elif request.path in self._get or request.path in self._post:
            raise RequestRefused(HTTPStatus.METHOD_NOT_ALLOWED, f"{request.path} does not take {request.method}.")
        else:
            raise RequestRefused(HTTPStatus.NOT_FOUND, f"There is no {request.path} here.", code="not_found")

    def _check_key(self, request: HttpRequest) -> None:
        authorization = request.headers.get("authorization", "").encode("latin-1")
        if not hmac.compare_digest(authorization, self._key):
            raise RequestRefused(HTTPStatus.UNAUTHORIZED, "Invalid API Key", kind="authentication_error")

    def _require_model(self) -> ServedModel:
        if self.model is None:
            raise not_ready_refusal()
        return self.model

    def _health(self, to: WorkerConnection) -> None:
        if self.model is None:
            document = {**not_ready_refusal().document(), "stage": self.stage, "fraction": self.fraction}
            to.send_answer(HTTPStatus.SERVICE_UNAVAILABLE, encode_compact(document))
            return
        loaded = self.model.loaded
        to.send_answer(
            HTTPStatus.OK,
            encode_compact({"status": "ok", "device": loaded.device, "device_name": loaded.device_name}),
        )

    def _models(self, to: WorkerConnection) -> None:
        model = self._require_model()
        meta = {"n_ctx": model.loaded.context, "slots": model.loaded.slots}
        entry = {"id": model.name, "object": "model", "owned_by": "roundhouse", "meta": meta}
        to.send_answer(HTTPStatus.OK, encode_compact({"object": "list", "data": [entry]}))

    def _send_metrics(self, to: WorkerConnection) -> None:
        to.send_answer(HTTPStatus.OK, self._metrics.render_text().encode(), "text/plain; version=0.0.4")

    async def _chat(self, body: Body, to: WorkerConnection) -> None:
        model = self._require_model()
        request = parse_answer_request(body, model.loaded.abilities, is_chat=True, usual=model.usual)
        tokens = model.backend.encode(_render_prompt(model, parse_template_input(body)), adds_special=False)
        await self._answer(request, tokens, to, is_chat=True)

    async def _complete(self, body: Body, to: WorkerConnection) -> None:
        model = self._require_model()
        request = parse_answer_request(body, model.loaded.abilities, is_chat=False, usual=model.usual)
        prompt = parse_prompt(body)
        tokens = model.backend.encode(prompt, adds_special=True) if isinstance(prompt, str) else prompt
        await self._answer(request, tokens, to, is_chat=False)

    async def _answer(self, request: AnswerRequest, tokens: list[int], to: WorkerConnection, *, is_chat: bool) -> None:
        model = self._require_model()
        context = model.loaded.context
        if not tokens:
            raise invalid_request("The prompt is empty.", "messages" if is_chat else "prompt")
        if len(tokens) >= context:
            raise context_refusal(len(tokens), context)
        news = asyncio.Event()
        prompt = PromptSize(len(tokens), model.loaded.hides_cache)
        answer = WorkerAnswer(request, model.backend.make_decoder(), prompt, ready=news.set)
        shape = shapes.AnswerShape(model.name, is_chat, lambda token: model.backend.decode([token]))
        number = model.scheduler.submit(work_of(answer, tokens, context=context), answer)
        try:
            if request.streams:
                await _stream(answer, shape, news, to)
            else:
                to.send_answer(HTTPStatus.OK, await _whole_answer(answer, shape, news))
        finally:
            model.scheduler.cancel(number)

    async def _count(self, body: Body, to: WorkerConnection) -> None:
        model = self._require_model()
        tokens = model.backend.encode(_render_prompt(model, parse_count_request(body)), adds_special=False)
        to.send_answer(HTTPStatus.OK, encode_compact({"input_tokens": len(tokens)}))

    async def _tokenize(self, body: Body, to: WorkerConnection) -> None:
        fields, model = RequestFields(body), self._require_model()
        tokens = model.backend.encode(fields.text("content") or "", adds_special=fields.flag("add_special"))
        pieces = [{"id": token, "piece": model.backend.decode([token])} for token in tokens]
        to.send_answer(HTTPStatus.OK, encode_compact({"tokens": pieces if fields.flag("with_pieces") else tokens}))

    async def _detokenize(self, body: Body, to: WorkerConnection) -> None:
        tokens = RequestFields(body).tokens("tokens")
        if tokens is None and body.get("tokens") != []:
            raise invalid_request("`tokens` must be a list of token numbers.", "tokens")
        to.send_answer(HTTPStatus.OK, encode_compact({"content": self._require_model().backend.decode(tokens or [])}))

    async def _apply(self, body: Body, to: WorkerConnection) -> None:
        to.send_answer(
            HTTPStatus.OK, encode_compact({"prompt": _render_prompt(self._require_model(), parse_template_input(body))})
        )

    async def _shutdown(self, body: Body, to: WorkerConnection) -> None:  # noqa: ARG002 -- as every route's
        self.stop.set()
        to.send_answer(HTTPStatus.ACCEPTED, encode_compact({"status": "stopping"}))


def _render_prompt(model: ServedModel, conversation: TemplateInput) -> str:
    if model.template is None:
        raise invalid_request("This model has no chat template; ask it through /v1/completions.", "messages")
    return model.template.render(conversation)


async def _stream(answer: WorkerAnswer, shape: shapes.AnswerShape, news: asyncio.Event, to: WorkerConnection) -> None:
    """Send an answer as it comes. An error before its first word has a status of its own."""
    await _wait_for_more(answer, news)
    to.begin_chunks(_EVENT_STREAM)
    opening = shape.role_event()
    while answer.finish is None:
        to.write_chunk(opening + shape.piece(answer))
        opening = b""
        await _wait_for_more(answer, news)
    to.write_chunk(opening + shape.piece(answer) + shape.final_events(answer))
    to.end_chunks()


async def _whole_answer(answer: WorkerAnswer, shape: shapes.AnswerShape, news: asyncio.Event) -> bytes:
    while answer.finish is None:
        await _wait_for_more(answer, news)
    return shape.whole_answer(answer)


async def _wait_for_more(answer: WorkerAnswer, news: asyncio.Event) -> None:
    """Wait for more of an answer. Raises what ended it."""
    await news.wait()
    news.clear()
    if answer.error is not None:
        raise answer.error
