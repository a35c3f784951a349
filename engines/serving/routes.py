"""What the server answers: OpenAI's routes, llama-server's for tokens and templates, health and metrics."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from engines.serving import shapes
from engines.serving.answer import Answer, Prompt
from engines.serving.asked import Conversation, Wanted, conversation_of, prompt_of, wanted_of
from engines.serving.backend import Backend, Loaded
from engines.serving.counting import counted_conversation
from engines.serving.fields import Fields
from engines.serving.http import Connection, Request
from engines.serving.json_text import compact, parse_object
from engines.serving.metrics import Metrics
from engines.serving.refusals import Refused, invalid, loading, too_long
from engines.serving.scheduler import Scheduler, work_of
from engines.serving.templates import Template

_EVENT_STREAM = "text/event-stream"
Body = Mapping[str, object]


@dataclass(slots=True)
class Model:
    """What answers once the model is loaded. `template` is None where the model came without one."""

    name: str
    backend: Backend
    loaded: Loaded
    scheduler: Scheduler
    template: Template | None
    usual: Mapping[str, float | int] = field(default_factory=dict)
    """Sampling for requests that do not say."""


class Routes:
    """Answers requests. `model` is set when it is loaded; until then `stage` and `fraction` say how far that is."""

    def __init__(self, key: str, metrics: Metrics) -> None:
        self.model: Model | None = None
        self.stage = "Starting"
        self.fraction: float | None = None
        self.stop = asyncio.Event()
        self._key = f"Bearer {key}".encode()
        self._metrics = metrics
        self._get: dict[str, Callable[[Connection], None]] = {
            "/health": self._health,
            "/v1/models": self._models,
            "/metrics": self._told,
        }
        self._post: dict[str, Callable[[Body, Connection], Awaitable[None]]] = {
            "/v1/chat/completions": self._chat,
            "/v1/completions": self._complete,
            "/v1/messages/count_tokens": self._count,
            "/tokenize": self._tokenize,
            "/detokenize": self._detokenize,
            "/apply-template": self._apply,
            "/shutdown": self._shutdown,
        }

    async def handle(self, request: Request, to: Connection) -> None:
        """Answer one request, with an error if need be."""
        try:
            await self._route(request, to)
        except Refused as refused:
            if not to.has_begun:
                to.refuse(refused)
                return
            to.write(shapes.event(refused.document()))
            to.end()

    async def _route(self, request: Request, to: Connection) -> None:
        if request.path != "/health":
            self._check_key(request)
        if request.method == "GET" and request.path in self._get:
            self._get[request.path](to)
        elif request.method == "POST" and request.path in self._post:
            await self._post[request.path](parse_object(request.body or b"{}"), to)
        elif request.path in self._get or request.path in self._post:
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"{request.path} does not take {request.method}.")
        else:
            raise Refused(HTTPStatus.NOT_FOUND, f"There is no {request.path} here.", code="not_found")

    def _check_key(self, request: Request) -> None:
        said = request.headers.get("authorization", "").encode("latin-1")
        if not hmac.compare_digest(said, self._key):
            raise Refused(HTTPStatus.UNAUTHORIZED, "Invalid API Key", kind="authentication_error")

    def _ready(self) -> Model:
        if self.model is None:
            raise loading()
        return self.model

    def _health(self, to: Connection) -> None:
        if self.model is None:
            document = {**loading().document(), "stage": self.stage, "fraction": self.fraction}
            to.send(HTTPStatus.SERVICE_UNAVAILABLE, compact(document))
            return
        loaded = self.model.loaded
        to.send(
            HTTPStatus.OK,
            compact({"status": "ok", "device": loaded.device, "device_name": loaded.device_name}),
        )

    def _models(self, to: Connection) -> None:
        model = self._ready()
        meta = {"n_ctx": model.loaded.context, "slots": model.loaded.slots}
        entry = {"id": model.name, "object": "model", "owned_by": "roundhouse", "meta": meta}
        to.send(HTTPStatus.OK, compact({"object": "list", "data": [entry]}))

    def _told(self, to: Connection) -> None:
        to.send(HTTPStatus.OK, self._metrics.text().encode(), "text/plain; version=0.0.4")

    async def _chat(self, body: Body, to: Connection) -> None:
        model = self._ready()
        wanted = wanted_of(body, model.loaded.abilities, is_chat=True, usual=model.usual)
        tokens = model.backend.encode(_rendered(model, conversation_of(body)), adds_special=False)
        await self._answer(wanted, tokens, to, is_chat=True)

    async def _complete(self, body: Body, to: Connection) -> None:
        model = self._ready()
        wanted = wanted_of(body, model.loaded.abilities, is_chat=False, usual=model.usual)
        prompt = prompt_of(body)
        tokens = model.backend.encode(prompt, adds_special=True) if isinstance(prompt, str) else prompt
        await self._answer(wanted, tokens, to, is_chat=False)

    async def _answer(self, wanted: Wanted, tokens: list[int], to: Connection, *, is_chat: bool) -> None:
        model = self._ready()
        context = model.loaded.context
        if not tokens:
            raise invalid("The prompt is empty.", "messages" if is_chat else "prompt")
        if len(tokens) >= context:
            raise too_long(len(tokens), context)
        news = asyncio.Event()
        prompt = Prompt(len(tokens), model.loaded.hides_cache)
        answer = Answer(wanted, model.backend.decoder(), prompt, ready=news.set)
        shape = shapes.Shape(model.name, is_chat, lambda token: model.backend.decode([token]))
        number = model.scheduler.submit(work_of(answer, tokens, context=context), answer)
        try:
            if wanted.streams:
                await _stream(answer, shape, news, to)
            else:
                to.send(HTTPStatus.OK, await _whole(answer, shape, news))
        finally:
            model.scheduler.cancel(number)

    async def _count(self, body: Body, to: Connection) -> None:
        model = self._ready()
        tokens = model.backend.encode(_rendered(model, counted_conversation(body)), adds_special=False)
        to.send(HTTPStatus.OK, compact({"input_tokens": len(tokens)}))

    async def _tokenize(self, body: Body, to: Connection) -> None:
        fields, model = Fields(body), self._ready()
        tokens = model.backend.encode(fields.text("content") or "", adds_special=fields.flag("add_special"))
        pieces = [{"id": one, "piece": model.backend.decode([one])} for one in tokens]
        to.send(HTTPStatus.OK, compact({"tokens": pieces if fields.flag("with_pieces") else tokens}))

    async def _detokenize(self, body: Body, to: Connection) -> None:
        tokens = Fields(body).tokens("tokens")
        if tokens is None and body.get("tokens") != []:
            raise invalid("`tokens` must be a list of token numbers.", "tokens")
        to.send(HTTPStatus.OK, compact({"content": self._ready().backend.decode(tokens or [])}))

    async def _apply(self, body: Body, to: Connection) -> None:
        to.send(HTTPStatus.OK, compact({"prompt": _rendered(self._ready(), conversation_of(body))}))

    async def _shutdown(self, body: Body, to: Connection) -> None:  # noqa: ARG002 -- as every route's
        self.stop.set()
        to.send(HTTPStatus.ACCEPTED, compact({"status": "stopping"}))


def _rendered(model: Model, conversation: Conversation) -> str:
    if model.template is None:
        raise invalid("This model has no chat template; ask it through /v1/completions.", "messages")
    return model.template.render(conversation)


async def _stream(answer: Answer, shape: shapes.Shape, news: asyncio.Event, to: Connection) -> None:
    """Send an answer as it comes. An error before its first word has a status of its own."""
    await _more(answer, news)
    to.begin(_EVENT_STREAM)
    opening = shape.opening()
    while answer.finish is None:
        to.write(opening + shape.piece(answer))
        opening = b""
        await _more(answer, news)
    to.write(opening + shape.piece(answer) + shape.closing(answer))
    to.end()


async def _whole(answer: Answer, shape: shapes.Shape, news: asyncio.Event) -> bytes:
    while answer.finish is None:
        await _more(answer, news)
    return shape.whole(answer)


async def _more(answer: Answer, news: asyncio.Event) -> None:
    """Wait for more of an answer. Raises what ended it."""
    await news.wait()
    news.clear()
    if answer.error is not None:
        raise answer.error
