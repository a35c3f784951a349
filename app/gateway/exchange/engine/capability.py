"""What a request may need, and how it comes to have it on every engine: from the engine, from here, or not at all.

`SUPPLY` is the whole of it. Nothing that a request asks for is passed over in silence: what an engine lacks and nobody
can supply is refused by name.
"""

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

from app.core.errors import BadRequest
from app.core.thinking import ThinkingLevel
from app.gateway.canonical.request import (
    CompletionRequest,
    ConversationRequest,
    Image,
    Request,
    ResponseShape,
    Sound,
    ToolMode,
)
from engines.api import Feature


class RequestNeed(StrEnum):
    """What a request may ask for beyond plain text."""

    TOOLS = "tools"
    TOOL_CHOICE = "tool_choice"
    ONE_CALL = "one_call"
    REASONING = "reasoning"
    THINKING_BUDGET = "thinking_budget"
    FORMAT = "format"
    GRAMMAR = "grammar"
    FORMAT_OF_PROMPT = "format_of_prompt"
    IMAGES = "images"
    PREFILL = "prefill"
    SOUND = "sound"
    LOGPROBS = "logprobs"
    LOGIT_BIAS = "logit_bias"
    CHOICES = "choices"
    STOPS = "stops"
    SEED = "seed"
    USAGE = "usage"


class Fulfilment(StrEnum):
    """Where it comes from."""

    ENGINE = "engine"
    """The engine does it."""
    READ = "read"
    """Read out of what the model writes."""
    CONSTRAINED = "constrained"
    """The engine is held to a JSON schema of calls."""
    CHECKED = "checked"
    """The model is told; an answer without it is asked for once more, and then refused."""
    CUT = "cut"
    """The answer is ended here."""
    REPEATED = "repeated"
    """Asked for as often as it takes."""
    COUNTED = "counted"
    """By the engine's tokenizer, where it has a route for it; otherwise it is said to be unknown."""
    PASSED_ON = "passed_on"
    """Said to the engine; the dialects promise no more than that it tries."""
    REFUSED = "refused"


class FulfilmentRule(msgspec.Struct, frozen=True):
    """The feature an engine has it by (None: none is needed), what is done without, and its name in a refusal."""

    feature: Feature | None
    otherwise: Fulfilment
    name: str = ""
    instead: Feature | None = None
    """A feature with which `better` is done without `feature`."""
    better: Fulfilment | None = None


SUPPLY: Mapping[RequestNeed, FulfilmentRule] = MappingProxyType(
    {
        RequestNeed.TOOLS: FulfilmentRule(Feature.TOOLS, Fulfilment.READ, "tools"),
        RequestNeed.TOOL_CHOICE: FulfilmentRule(
            Feature.TOOLS, Fulfilment.CHECKED, instead=Feature.JSON_SCHEMA, better=Fulfilment.CONSTRAINED
        ),
        RequestNeed.ONE_CALL: FulfilmentRule(Feature.TOOLS, Fulfilment.READ),
        RequestNeed.REASONING: FulfilmentRule(Feature.REASONING, Fulfilment.READ),
        RequestNeed.THINKING_BUDGET: FulfilmentRule(
            Feature.THINKING_BUDGET, Fulfilment.REFUSED, "a limit for thinking"
        ),
        RequestNeed.FORMAT: FulfilmentRule(Feature.JSON_SCHEMA, Fulfilment.REFUSED, "answers in a given format"),
        RequestNeed.GRAMMAR: FulfilmentRule(Feature.GRAMMAR, Fulfilment.REFUSED, "grammars"),
        RequestNeed.FORMAT_OF_PROMPT: FulfilmentRule(Feature.GRAMMAR, Fulfilment.REFUSED, "a format for bare prompts"),
        RequestNeed.IMAGES: FulfilmentRule(Feature.VISION, Fulfilment.REFUSED, "images"),
        RequestNeed.PREFILL: FulfilmentRule(Feature.PREFILL, Fulfilment.REFUSED, "continuing an answer"),
        RequestNeed.SOUND: FulfilmentRule(None, Fulfilment.PASSED_ON, "sound"),
        RequestNeed.LOGPROBS: FulfilmentRule(Feature.LOGPROBS, Fulfilment.REFUSED, "log probabilities"),
        RequestNeed.LOGIT_BIAS: FulfilmentRule(Feature.LOGIT_BIAS, Fulfilment.REFUSED, "biased tokens"),
        RequestNeed.CHOICES: FulfilmentRule(Feature.CHOICES, Fulfilment.REPEATED),
        RequestNeed.STOPS: FulfilmentRule(Feature.TOOLS, Fulfilment.CUT),
        RequestNeed.SEED: FulfilmentRule(None, Fulfilment.PASSED_ON),
        RequestNeed.USAGE: FulfilmentRule(Feature.STREAM_USAGE, Fulfilment.COUNTED),
    }
)


def fulfilment_of(need: RequestNeed, features: Collection[Feature]) -> Fulfilment:
    """Return where an engine with these features gets it from."""
    way = SUPPLY[need]
    if way.feature is not None and way.feature in features:
        return Fulfilment.ENGINE
    return way.better if way.better is not None and way.instead in features else way.otherwise


def needs_of(request: Request) -> list[RequestNeed]:
    """Return what a request asks for."""
    return [*_needs_of_any(request), *(_needs_of_chat(request) if isinstance(request, ConversationRequest) else ())]


def _needs_of_any(request: Request) -> Iterator[RequestNeed]:
    if request.limits.logprobs is not None:
        yield RequestNeed.LOGPROBS
    if request.sampling.logit_bias:
        yield RequestNeed.LOGIT_BIAS
    if request.limits.stops:
        yield RequestNeed.STOPS
    if request.sampling.seed is not None:
        yield RequestNeed.SEED
    if request.response_format.shape is ResponseShape.GRAMMAR:
        yield RequestNeed.GRAMMAR
    elif request.response_format.shape is not ResponseShape.TEXT:
        yield RequestNeed.FORMAT
        if isinstance(request, CompletionRequest):
            yield RequestNeed.FORMAT_OF_PROMPT


def _needs_of_chat(request: ConversationRequest) -> Iterator[RequestNeed]:
    if request.tools:
        choice = request.tool_choice
        yield RequestNeed.TOOLS
        if choice.choose is not ToolMode.AUTO or choice.is_required:
            yield RequestNeed.TOOL_CHOICE
        if choice.one_at_a_time:
            yield RequestNeed.ONE_CALL
    if request.thinking is not ThinkingLevel.DEFAULT:
        yield RequestNeed.REASONING
    if request.thinking_budget is not None:
        yield RequestNeed.THINKING_BUDGET
    if request.continues:
        yield RequestNeed.PREFILL
    if any(isinstance(part, Image) for turn in request.messages for part in turn.parts):
        yield RequestNeed.IMAGES
    if any(isinstance(part, Sound) for turn in request.messages for part in turn.parts):
        yield RequestNeed.SOUND


def check_needs(request: Request, features: Collection[Feature], *, engine: str = "The engine") -> None:
    """Raise BadRequest (engine_cannot) for what is asked, and neither the engine nor we can do."""
    for need in needs_of(request):
        if fulfilment_of(need, features) is Fulfilment.REFUSED:
            raise cannot_error(need, engine)


def cannot_error(need: RequestNeed, engine: str = "The engine") -> BadRequest:
    """Return the refusal."""
    return BadRequest(
        f"{engine} does not support {SUPPLY[need].name}.",
        hint="Leave it out, or run the model on an engine that does.",
        code="engine_cannot",
    )
