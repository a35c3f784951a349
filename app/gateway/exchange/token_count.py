"""How many tokens a conversation is: the engine writes the prompt down and counts it, or it is estimated and marked so.

An estimate needs no engine, so nothing is loaded for it.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
from aiohttp import web

from app.core.models import Preset
from app.core.tokens import BYTES_PER_TOKEN
from app.gateway.canonical.request import (
    ConversationMessage,
    ConversationRequest,
    Image,
    MessageRole,
    Part,
    PictureSize,
    Sound,
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResult,
    size_of,
)
from app.gateway.exchange.capability_fallback import with_plan, with_system
from app.gateway.exchange.engine.answers import TemplateReply, TokenizeReply, decode_reply
from app.gateway.exchange.handling import engine_path
from app.gateway.exchange.observer import ExchangeOutcome, Observation
from app.gateway.exchange.translating import fetch_body
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest
from app.gateway.library.endpoint_routes import routes_of, with_probes
from app.gateway.loading.requested_model import ResolvedModel
from app.gateway.services import Services
from app.supervisor.policy import LeaseOptions
from engines.api import Route

ESTIMATED = "x-roundhouse-estimated"
"""The header of an answer whose count is an estimate."""


class RequestTokenCount(NamedTuple):
    """A count, and whether it is an estimate."""

    tokens: int
    is_estimate: bool

    def mark_estimate(self, response: web.Response) -> web.Response:
        """Return the answer that says this count, marked if it is an estimate."""
        if self.is_estimate:
            response.headers[ESTIMATED] = "true"
        return response


class PromptTokenCounter(msgspec.Struct, frozen=True, kw_only=True):
    """A count to be made: `upstream` has the prompt written, `tokenize` is where its tokens are; or an estimate."""

    upstream: UpstreamRequest
    tokenize: str = ""
    estimate: int | None = None

    async def count(self, engines: EngineAccess, observation: Observation) -> RequestTokenCount:
        """Return the count. Raises as `fetch_body` does, and EngineFailed for answers that are not as expected."""
        if self.estimate is not None:
            observation.outcome = ExchangeOutcome.OK
            return RequestTokenCount(self.estimate, is_estimate=True)
        prompt = decode_reply(await fetch_body(engines, self.upstream, observation), TemplateReply).prompt
        question = {"model": self.upstream.model, "content": prompt, "add_special": True, "parse_special": True}
        body = msgspec.json.encode(question)
        upstream = msgspec.structs.replace(self.upstream, path=self.tokenize, body=body)
        tokens = decode_reply(await fetch_body(engines, upstream, observation), TokenizeReply).tokens
        return RequestTokenCount(len(tokens), is_estimate=False)


async def token_counter(
    services: Services, target: ResolvedModel, work: ConversationRequest, terms: LeaseOptions
) -> PromptTokenCounter:
    """Return how a conversation is counted.

    Raises BadRequest if the model does not write, or what `plan_fallbacks` does.
    """
    target = await with_probes(
        services.library, services.shared_work, services.events, target, Route.TOKENIZE, Route.APPLY_TEMPLATE
    )
    model, routes = target.model, routes_of(services.adapters, services.library, target.load.engine, target.model)
    path = engine_path(services.adapters, services.library, target.load.engine, model, Route.CHAT)
    blank = UpstreamRequest(load=target.load, path=path, body=b"", model=model.name, terms=terms)
    if not {Route.APPLY_TEMPLATE, Route.TOKENIZE} <= routes.keys():
        return PromptTokenCounter(upstream=blank, estimate=estimate_tokens(_with_preset(work, model.preset)))
    upstream = await with_plan(services, blank, target, work)
    upstream = msgspec.structs.replace(upstream, path=routes[Route.APPLY_TEMPLATE])
    return PromptTokenCounter(upstream=upstream, tokenize=routes[Route.TOKENIZE])


def _with_preset(work: ConversationRequest, preset: Preset | None) -> ConversationRequest:
    """Return the conversation with what a made model puts before it, in any order: only its length counts."""
    if preset is None:
        return work
    first = tuple(
        ConversationMessage(MessageRole.USER, (Text(turn.content),))
        for turn in preset.messages
        if turn.role != MessageRole.SYSTEM
    )
    work = with_system(work, preset)
    return msgspec.structs.replace(work, messages=(*first, *work.messages))


# How long a conversation is in tokens, roughly, where nobody is there who could count them.
#
# Text: UTF-8 bytes / 4. OpenAI's rule of thumb is four English characters to a token ("What are tokens and how to count
# them?"); counting bytes carries it over to scripts whose characters take two or three. Turns: 4 marks each and 3 for
# the answer's beginning, as OpenAI's cookbook counts its own chat template. Pictures: pixels / 750 after scaling, at
# most 1600, which is Anthropic's formula ("Vision"); Qwen's models take a token for 784 pixels.
#
# How far off it is, measured on this repository's text and code (estimate / exact): 0.85 to 1.26 for text, 0.70 to 1.09
# for code and tables, with vocabularies of 128 000 (Llama 3) and 200 000 (gpt-oss) tokens, which agree to within 3 %
# (npm's llama3-tokenizer-js and gpt-tokenizer); a paragraph each of German, Russian, Chinese and Japanese came to 1.01
# to 1.63. The smaller the vocabulary the more tokens: the Guide's 2048 take nearly twice as many (0.57 to 0.69 for
# text, 0.45 to 0.53 for code; `test_token_estimate`, which prints each file's). Pictures were held against no model.

_MARKS_PER_TURN = 4
_MARKS_OF_ANSWER = 3
_PIXELS_PER_TOKEN = 750
_LONGEST_EDGE = 1568
_MOST_OF_PICTURE = 1600
"""Also for a picture whose size cannot be read."""


def estimate_tokens(request: ConversationRequest) -> int:
    """Return about how many tokens an engine would read; above is how far off that may be."""
    parts = [part for message in _messages_to_count(request.messages) for part in message.parts]
    size_bytes = sum(map(_bytes, parts)) + sum(map(_tool_bytes, request.tools))
    pictures = sum(_picture_tokens(part) for part in parts if isinstance(part, Image))
    sounds = sum(sound_tokens(part.seconds) for part in parts if isinstance(part, Sound))
    marks = _MARKS_PER_TURN * sum(map(_turns, request.messages)) + _MARKS_OF_ANSWER
    return math.ceil(size_bytes / BYTES_PER_TOKEN) + pictures + sounds + marks


def _messages_to_count(messages: Sequence[ConversationMessage]) -> Iterator[ConversationMessage]:
    """Yield the messages without what was reasoned before the last question, which templates leave out."""
    last = max((at for at, message in enumerate(messages) if message.role is MessageRole.USER), default=0)
    for at, message in enumerate(messages):
        if at < last:
            counted_parts = tuple(part for part in message.parts if not isinstance(part, Thinking))
            yield ConversationMessage(message.role, counted_parts)
        else:
            yield message


def _bytes(part: Part) -> int:
    match part:
        case Text(text=text) | Thinking(text=text) | ToolResult(text=text):
            return len(text.encode())
        case ToolCall(name=name, arguments=arguments):
            return len(f'{{"name": "{name}", "arguments": {arguments}}}'.encode())
    return 0


def _tool_bytes(tool: ToolDefinition) -> int:
    """Return the size of a tool as most templates write it: OpenAI's JSON."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return len(msgspec.json.encode({"type": "function", "function": function}))


def _turns(message: ConversationMessage) -> int:
    """Return how many turns a message is written as: each tool's result is one by itself."""
    results = sum(isinstance(part, ToolResult) for part in message.parts)
    return results + (results < len(message.parts) or not message.parts)


def _picture_tokens(picture: Image) -> int:
    size = size_of(picture.data)
    return _MOST_OF_PICTURE if size is None else picture_tokens(size)


_TOKENS_PER_SECOND = 25
"""Of sound: Qwen's models take that many, Voxtral half, Ultravox and Gemma a quarter of it."""


def sound_tokens(seconds: float) -> int:
    """Return about how many tokens a sound is, at most."""
    return math.ceil(seconds * _TOKENS_PER_SECOND)


def picture_tokens(size: PictureSize) -> int:
    """Return about how many tokens a picture is."""
    scale = min(1.0, _LONGEST_EDGE / max(size.width, size.height, 1))
    pixels = size.width * size.height * scale * scale
    return min(_MOST_OF_PICTURE, math.ceil(pixels / _PIXELS_PER_TOKEN))
