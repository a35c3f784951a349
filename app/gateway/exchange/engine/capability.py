"""What a request may need, and how it comes to have it on every engine: from the engine, from here, or not at all.

`SUPPLY` is the whole of it. Nothing that a request asks for is passed over in silence: what an engine lacks and nobody
can supply is refused by name.
"""

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

from app.core.errors import BadRequest
from app.gateway.canonical.request import Choose, Complete, Generate, Image, Level, Request, Shape
from engines.api import Feature


class Need(StrEnum):
    """What a request may ask for beyond plain text."""

    TOOLS = "tools"
    TOOL_CHOICE = "tool_choice"
    ONE_CALL = "one_call"
    REASONING = "reasoning"
    FORMAT = "format"
    FORMAT_OF_PROMPT = "format_of_prompt"
    IMAGES = "images"
    LOGPROBS = "logprobs"
    LOGIT_BIAS = "logit_bias"
    CHOICES = "choices"
    STOPS = "stops"
    SEED = "seed"
    USAGE = "usage"


class How(StrEnum):
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


class Way(msgspec.Struct, frozen=True):
    """The feature an engine has it by (None: none is needed), what is done without, and its name in a refusal."""

    feature: Feature | None
    otherwise: How
    name: str = ""
    instead: Feature | None = None
    """A feature with which `better` is done without `feature`."""
    better: How | None = None


SUPPLY: Mapping[Need, Way] = MappingProxyType(
    {
        Need.TOOLS: Way(Feature.TOOLS, How.READ, "tools"),
        Need.TOOL_CHOICE: Way(Feature.TOOLS, How.CHECKED, instead=Feature.JSON_SCHEMA, better=How.CONSTRAINED),
        Need.ONE_CALL: Way(Feature.TOOLS, How.READ),
        Need.REASONING: Way(Feature.REASONING, How.READ),
        Need.FORMAT: Way(Feature.JSON_SCHEMA, How.REFUSED, "answers in a given format"),
        Need.FORMAT_OF_PROMPT: Way(Feature.GRAMMAR, How.REFUSED, "a format for bare prompts"),
        Need.IMAGES: Way(Feature.VISION, How.REFUSED, "images"),
        Need.LOGPROBS: Way(Feature.LOGPROBS, How.REFUSED, "log probabilities"),
        Need.LOGIT_BIAS: Way(Feature.LOGIT_BIAS, How.REFUSED, "biased tokens"),
        Need.CHOICES: Way(Feature.CHOICES, How.REPEATED),
        Need.STOPS: Way(Feature.TOOLS, How.CUT),
        Need.SEED: Way(None, How.PASSED_ON),
        Need.USAGE: Way(Feature.STREAM_USAGE, How.COUNTED),
    }
)


def how(need: Need, features: Collection[Feature]) -> How:
    """Return where an engine with these features gets it from."""
    way = SUPPLY[need]
    if way.feature is not None and way.feature in features:
        return How.ENGINE
    return way.better if way.better is not None and way.instead in features else way.otherwise


def needs(request: Request) -> list[Need]:
    """Return what a request asks for."""
    return [*_needs_of_any(request), *(_needs_of_chat(request) if isinstance(request, Generate) else ())]


def _needs_of_any(request: Request) -> Iterator[Need]:
    if request.limits.logprobs is not None:
        yield Need.LOGPROBS
    if request.sampling.logit_bias:
        yield Need.LOGIT_BIAS
    if request.limits.stops:
        yield Need.STOPS
    if request.sampling.seed is not None:
        yield Need.SEED
    if request.response_format.shape is not Shape.TEXT:
        yield Need.FORMAT
        if isinstance(request, Complete):
            yield Need.FORMAT_OF_PROMPT


def _needs_of_chat(request: Generate) -> Iterator[Need]:
    if request.tools:
        choice = request.tool_choice
        yield Need.TOOLS
        if choice.choose is not Choose.AUTO or choice.is_required:
            yield Need.TOOL_CHOICE
        if choice.one_at_a_time:
            yield Need.ONE_CALL
    if request.thinking is not Level.DEFAULT:
        yield Need.REASONING
    if any(isinstance(part, Image) for turn in request.messages for part in turn.parts):
        yield Need.IMAGES


def check(request: Request, features: Collection[Feature], *, engine: str = "The engine") -> None:
    """Raise BadRequest (engine_cannot) for what is asked, and neither the engine nor we can do."""
    for need in needs(request):
        if how(need, features) is How.REFUSED:
            raise cannot(need, engine)


def cannot(need: Need, engine: str = "The engine") -> BadRequest:
    """Return the refusal."""
    return BadRequest(
        f"{engine} does not support {SUPPLY[need].name}.",
        hint="Leave it out, or run the model on an engine that does.",
        code="engine_cannot",
    )
