"""What the server answers: OpenAI's routes, llama-server's for tokens and templates, health and metrics.

Anthropic's count of tokens: its messages as templates take them. Text counts; what cannot be read is refused.

Answers in OpenAI's shapes: whole, and in events. What repeats in every event of a stream is made once.
"""

import asyncio
import hmac
import itertools
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from engines.serving.answer import PromptSize, WorkerAnswer
from engines.serving.answer_request import (
    AnswerRequest,
    RequestFields,
    TemplateInput,
    parse_answer_request,
    parse_prompt,
    parse_template_input,
)
from engines.serving.backend import BackendAbility, LoadResult, PictureReader, Token, WorkerBackend
from engines.serving.http import HttpRequest, WorkerConnection
from engines.serving.json_text import encode_compact, parse_object
from engines.serving.metrics import WorkerMetrics
from engines.serving.pictures import decode_picture, split_pictures
from engines.serving.refusals import (
    RequestRefused,
    context_refusal,
    feature_refusal,
    invalid_request,
    not_ready_refusal,
)
from engines.serving.scheduler import Scheduler, work_of
from engines.serving.templates import ChatTemplate

_EVENT = b"data: %s\n\n"
DONE = b"data: [DONE]\n\n"


@dataclass(slots=True)
class AnswerShape:
    """One answer's shape: a chat's, or a bare completion's. `text_of` gives the text of a token."""

    model: str
    is_chat: bool
    text_of: Callable[[int], str]
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))
    _plain: tuple[bytes, bytes] = field(init=False)
    _offset: int = 0

    def __post_init__(self) -> None:
        """Make the frame that plain text goes into."""
        mark = "\x00"
        frame = encode_compact(self._chunk(mark, None, None))
        before, _, after = frame.partition(encode_compact(mark))
        self._plain = (b"data: " + before, after + b"\n\n")

    def role_event(self) -> bytes:
        """Return the event that says who speaks; bare completions have none."""
        if not self.is_chat:
            return b""
        choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        return _EVENT % encode_compact({**self._head(whole=False), "choices": [choice]})

    def piece(self, answer: WorkerAnswer) -> bytes:
        """Return the event for what came since the last one; nothing if nothing came."""
        text, tokens = answer.take_text(), answer.take_tokens()
        if tokens:
            return _EVENT % encode_compact(
                self._chunk(text, self._logprobs(tokens, answer.request.logprobs or 0), None)
            )
        if not text:
            return b""
        before, after = self._plain
        return before + encode_compact(text) + after

    def final_events(self, answer: WorkerAnswer) -> bytes:
        """Return the last events: why it ended, with its times, what was used if that was asked for, and the end."""
        timings = answer.collect_timings()
        last = encode_event({**self._chunk("", None, str(answer.finish)), "timings": timings})
        if not answer.request.tells_usage:
            return last + DONE
        head = self._head(whole=False)
        return last + encode_event({**head, "choices": [], "usage": usage_document(answer), "timings": timings}) + DONE

    def whole_answer(self, answer: WorkerAnswer) -> bytes:
        """Return a whole answer."""
        text, tokens = answer.take_text(), answer.take_tokens()
        logprobs = self._logprobs(tokens, answer.request.logprobs or 0) if answer.request.logprobs is not None else None
        choice: dict[str, object] = {"index": 0, "logprobs": logprobs, "finish_reason": str(answer.finish)}
        choice |= {"message": {"role": "assistant", "content": text}} if self.is_chat else {"text": text}
        return encode_compact(
            {
                **self._head(whole=True),
                "choices": [choice],
                "usage": usage_document(answer),
                "timings": answer.collect_timings(),
            }
        )

    def _head(self, *, whole: bool) -> dict[str, object]:
        kind = ("chat.completion" if whole else "chat.completion.chunk") if self.is_chat else "text_completion"
        prefix = "chatcmpl" if self.is_chat else "cmpl"
        return {"id": f"{prefix}-{self.id}", "object": kind, "created": self.created, "model": self.model}

    def _chunk(self, text: str, logprobs: object, finish: str | None) -> dict[str, object]:
        choice: dict[str, object] = {"index": 0, "logprobs": logprobs, "finish_reason": finish}
        if self.is_chat:
            choice["delta"] = {"content": text} if finish is None else {}
        else:
            choice["text"] = text
        return {**self._head(whole=False), "choices": [choice]}

    def _logprobs(self, tokens: Sequence[tuple[str, Token]], count: int) -> dict[str, object]:
        if self.is_chat:
            return {"content": [self._token_logprobs(token, piece, count) for piece, token in tokens], "refusal": None}
        offsets = list(itertools.accumulate((len(piece) for piece, _ in tokens), initial=self._offset))
        self._offset = offsets.pop()
        return {
            "tokens": [piece for piece, _ in tokens],
            "token_logprobs": [token.logprob for _, token in tokens],
            "top_logprobs": [{self.text_of(token_id): p for token_id, p in token.top[:count]} for _, token in tokens],
            "text_offset": offsets,
        }

    def _token_logprobs(self, token: Token, piece: str, count: int) -> dict[str, object]:
        text = piece if token.text is not None else self.text_of(token.id) or piece
        top = [_token_document(self.text_of(other), logprob) for other, logprob in token.top[:count]]
        return {**_token_document(text, token.logprob or 0.0), "top_logprobs": top}


def usage_document(answer: WorkerAnswer) -> dict[str, object]:
    """Return what was read and written."""
    counts: dict[str, object] = {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.written,
        "total_tokens": answer.prompt_tokens + answer.written,
    }
    return counts if answer.cached is None else {**counts, "prompt_tokens_details": {"cached_tokens": answer.cached}}


def encode_event(document: object) -> bytes:
    """Return a document as one event of a stream."""
    return _EVENT % encode_compact(document)


def _token_document(text: str, logprob: float) -> dict[str, object]:
    return {"token": text, "logprob": round(logprob, 6), "bytes": list(text.encode())}


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
    picture_reader: PictureReader | None = field(init=False)
    """What looks at pictures; None where the model, or the library, does not."""

    def __post_init__(self) -> None:
        """Look once whether it sees: each request wants to know."""
        can_see = BackendAbility.IMAGES in self.loaded.abilities
        self.picture_reader = self.backend if can_see and isinstance(self.backend, PictureReader) else None


class AnswerSender:
    """Sends an answer: whole once it is over, or each piece at once, by whoever has it, without waking a task."""

    def __init__(self, shape: AnswerShape, to: WorkerConnection) -> None:
        self._shape = shape
        self._to = to
        self._first_event = shape.role_event()
        self._over = asyncio.Event()

    def take_news(self, answer: WorkerAnswer) -> None:
        """Send what came of a stream, or note that it is over."""
        if answer.is_over:
            self._over.set()
        elif answer.request.streams:
            self._send_piece(self._shape.piece(answer))

    async def finish(self, answer: WorkerAnswer) -> None:
        """Wait for its end and send that. Raises what ended it: before the first word, that has a status of its own."""
        await self._over.wait()
        if answer.error is not None:
            raise answer.error
        if not answer.request.streams:
            self._to.send_answer(HTTPStatus.OK, self._shape.whole_answer(answer))
            return
        if not self._to.has_begun:
            self._send_piece(b"")
        self._to.end_chunks(self._shape.piece(answer) + self._shape.final_events(answer))

    def _send_piece(self, piece: bytes) -> None:
        if self._to.has_begun:
            self._to.write_chunk(piece)
        else:
            self._to.begin_chunks(_EVENT_STREAM, self._first_event + piece)


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
        except RequestRefused as refusal:
            if not to.has_begun:
                to.send_refusal(refusal)
                return
            to.end_chunks(encode_event(refusal.document()))

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
        loaded_model = self.model.loaded
        to.send_answer(
            HTTPStatus.OK,
            encode_compact({"status": "ok", "device": loaded_model.device, "device_name": loaded_model.device_name}),
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
        await self._answer(request, await _encode_chat(model, body), to, is_chat=True)

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
        prompt = PromptSize(len(tokens), model.loaded.hides_cache)
        sender = AnswerSender(AnswerShape(model.name, is_chat, lambda token: model.backend.decode([token])), to)
        answer = WorkerAnswer(request, model.backend.make_decoder(), prompt, announce=sender.take_news)
        number = model.scheduler.submit(work_of(answer, tokens, context=context), answer)
        try:
            await sender.finish(answer)
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
        model = self._require_model()
        plain, _ = split_pictures(body) if model.picture_reader is not None else (body, {})
        to.send_answer(HTTPStatus.OK, encode_compact({"prompt": _render_prompt(model, parse_template_input(plain))}))

    async def _shutdown(self, body: Body, to: WorkerConnection) -> None:  # noqa: ARG002 -- as every route's
        self.stop.set()
        to.send_answer(HTTPStatus.ACCEPTED, encode_compact({"status": "stopping"}))


async def _encode_chat(model: ServedModel, body: Body) -> list[int]:
    """Return a conversation's tokens, with what the model sees in its pictures. Raises Refused."""
    reader = model.picture_reader
    plain, pictures = split_pictures(body) if reader is not None else (body, {})
    text = _render_prompt(model, parse_template_input(plain))
    if reader is None or not pictures:
        return model.backend.encode(text, adds_special=False)
    if not all(mark in text for mark in pictures):
        raise invalid_request("This model's template leaves pictures out.", "messages", code="unsupported_content")
    seen_pictures = [reader.find_picture(mark) or await _look_at(reader, mark, file) for mark, file in pictures.items()]
    return reader.encode_pictures(text, seen_pictures)


async def _look_at(reader: PictureReader, mark: str, file: bytes) -> object:
    """Return what the model sees in a picture. It is decoded aside; the model looks in its turn among the answers."""
    return reader.read_picture(mark, await asyncio.to_thread(decode_picture, file))


def _render_prompt(model: ServedModel, conversation: TemplateInput) -> str:
    if model.template is None:
        raise invalid_request("This model has no chat template; ask it through /v1/completions.", "messages")
    return model.template.render(conversation)


def parse_count_request(body: Mapping[str, object]) -> TemplateInput:
    """Return the conversation that an Anthropic request means. Raises Refused."""
    fields = RequestFields(body)
    system = _text(body.get("system"))
    first: list[dict[str, object]] = [{"role": "system", "content": system}] if system else []
    turns = [{"role": turn.get("role"), "content": _text(turn.get("content"))} for turn in fields.objects("messages")]
    tools = [_tool(tool) for tool in fields.objects("tools")]
    return parse_template_input({"messages": [*first, *turns], "tools": tools})


def _text(content: object) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise invalid_request("`content` must be a string or a list of blocks.", "messages")
    return "".join(_block(block) for block in content)


def _block(block: Mapping[str, object]) -> str:
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text") or "")
    if kind == "thinking":
        return str(block.get("thinking") or "")
    if kind == "tool_use":
        return f"{block.get('name')} {block.get('input')}"
    if kind == "tool_result":
        return _text(block.get("content"))
    raise feature_refusal(f"blocks of the type {kind}", "messages")


def _tool(tool: Mapping[str, object]) -> dict[str, object]:
    function = {name: tool[name] for name in ("name", "description") if name in tool}
    return {"type": "function", "function": {**function, "parameters": tool.get("input_schema", {})}}
