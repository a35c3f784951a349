"""OpenAI's chat route in front of engines whose bytes cannot pass: translated to the canonical form and back.

Several answers to one request are asked for one after another.
"""

import secrets
import time
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from aiohttp import web

from app.gateway.canonical.aggregate import fold
from app.gateway.canonical.events import Failed, Usage
from app.gateway.canonical.request import Generate
from app.gateway.dialects.form import Form
from app.gateway.dialects.openai.chat_checks import Asked
from app.gateway.dialects.openai.chat_reply import DONE, About, Chunks, added, counts_chunk, whole
from app.gateway.dialects.openai.chat_request import ChatRequest, generate
from app.gateway.dialects.openai.form import OPENAI
from app.gateway.dialects.openai.record import OPENAI_DIALECT
from app.gateway.entry.bodies import decode
from app.gateway.exchange.capability_fallback import may_pass, started, with_plan
from app.gateway.exchange.engine.capability import How, Need, how, needs
from app.gateway.exchange.native import path_of
from app.gateway.exchange.proxy import Ask
from app.gateway.exchange.streaming import SSE_HEADERS, Edited, written
from app.gateway.exchange.translated import asked
from app.gateway.loading.recent import Found
from app.gateway.services import Services
from app.gateway.watching.watch import Watch
from app.supervisor.policy import Terms
from engines.api import Feature, Route

_ALL = frozenset(
    {
        Feature.TOOLS,
        Feature.REASONING,
        Feature.JSON_SCHEMA,
        Feature.LOGPROBS,
        Feature.LOGIT_BIAS,
        Feature.CHOICES,
    }
)
"""An engine with these answers every request itself."""


async def passes(services: Services, found: Found, body: bytes, asked: Asked) -> bool:
    """Tell whether a request's bytes may go to the engine as they are. Raises BadRequest for what cannot be read."""
    descriptor = started(services, found.load)
    if descriptor.features >= _ALL:
        return not asked.has_tools or await may_pass(services, found, has_tools=True)
    if not await may_pass(services, found, has_tools=asked.has_tools):
        return False
    sent = decode(body, ChatRequest)
    asked_for = [*needs(generate(sent)), *([Need.CHOICES] if sent.choices > 1 else [])]
    return all(how(need, descriptor.features) in {How.ENGINE, How.PASSED_ON} for need in asked_for)


class Wish(NamedTuple):
    """A request for a chat: its body, the model's name as the client said it, how to put the answer, and its terms."""

    body: bytes
    name: str
    form: Form = OPENAI
    terms: Terms = Terms()


async def ask_for(services: Services, found: Found, wish: Wish) -> Ask:
    """Return what asks the engine for a chat, and answers with it. Raises BadRequest for what cannot be asked."""
    sent = decode(wish.body, ChatRequest)
    blank = Ask(
        load=found.load,
        path=path_of(services, found.load.engine, found.model, Route.CHAT),
        body=b"",
        model=found.model.name,
        terms=wish.terms,
        form=wish.form,
    )
    asks = [await with_plan(services, blank, found, one) for one in _each(generate(sent), sent.choices)]
    about = About(id=f"chatcmpl-{secrets.token_hex(12)}", model=wish.name, created=int(time.time()))
    job = _Job(asks=tuple(asks), about=about, includes_usage=sent.includes_usage)
    return msgspec.structs.replace(asks[0], answer=job.stream if sent.stream else job.whole)


def _each(request: Generate, count: int) -> Iterator[Generate]:
    """Yield the request once for every answer; with a seed, each has one of its own, or all would be the same."""
    for number in range(count):
        seed = None if request.sampling.seed is None else request.sampling.seed + number
        sampling = msgspec.structs.replace(request.sampling, seed=seed)
        yield msgspec.structs.replace(request, sampling=sampling)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A request understood: an ask for every answer it wants."""

    asks: tuple[Ask, ...]
    about: About
    includes_usage: bool

    async def whole(self, request: web.Request, ask: Ask, watch: Watch) -> web.StreamResponse:
        """Answer at once."""
        answers = []
        for each in self.asks:
            async with aclosing(asked(request, each, watch)) as batches:
                answers.append(fold([event async for batch in batches for event in batch]))
        reply = whole(self.about, answers)
        if isinstance(reply, Failed):
            return _json(OPENAI_DIALECT.document(reply), reply.status)
        return web.Response(body=ask.form.whole(msgspec.json.encode(reply)), content_type="application/json")

    async def stream(self, request: web.Request, ask: Ask, watch: Watch) -> web.StreamResponse:
        """Answer piece by piece, one choice after another."""
        response = web.StreamResponse(headers=SSE_HEADERS)
        edit, total = ask.form.editor(), None
        for index, each in enumerate(self.asks):
            chunks = Chunks(self.about, index=index)
            await written(request, response, asked(request, each, watch), Edited(chunks, edit), watch)
            if chunks.has_failed:
                break
            total = chunks.usage if total is None else added(total, chunks.usage)
        else:
            counts = counts_chunk(self.about, total or Usage()) if self.includes_usage else b""
            await response.write(edit(counts + DONE))
        await response.write_eof()
        return response


def _json(value: msgspec.Struct, status: int) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")
