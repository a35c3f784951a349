"""The middle of a text, asked for with all that is around it.

Of what comes before the gap llama.cpp's infill route reads three quarters of a batch, of what comes after it one, and
of other files what a batch leaves of the context. It drops the rest and says nothing. So what might not fit is written
out here as tokens, in the order of that route, for the engine's plain one: that reads all of it, or refuses it with
both counts.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from app.core.errors import BadRequest, EngineFailed
from app.gateway.canonical.events import ContextOverflow
from app.gateway.entry.bodies import decode_body
from app.gateway.exchange.engine.answers import TokenizeReply
from app.gateway.exchange.upstream import EngineAccess, Preparer, UpstreamRequest
from app.supervisor.lease import Lease
from engines.api import Descriptor, Route

T = TypeVar("T")

_BATCH = 2048
"""llama.cpp's own, where the options say nothing."""
_QUARTERS = 4
_REPOSITORY = ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>")
_FILE = ("<|file_sep|>",)
"""What llama.cpp takes for the marks of a repository and of a file, in its order."""
_PROJECT, _THIS_FILE, _SNIPPET = "myproject\n", "filename\n", "\n\n--- snippet ---\n\n"
"""What it writes around other files."""
_AFTER_FIRST = "--spm-infill"
"""Has llama.cpp put what comes after the gap first, which is not done here."""
_MOST_KNOWN = 64

Written = list[str | int]
"""Texts, whose own marks mean nothing, and tokens."""


class OtherFile(msgspec.Struct, frozen=True):
    """A piece of another file."""

    text: str
    filename: str = "tmp"


class InfillContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says is around the gap; `prompt` is the beginning of what is to be written."""

    input_prefix: str
    input_suffix: str
    input_extra: list[OtherFile] | None = None
    prompt: str | None = None


class InfillMarks(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens a model was trained to know a gap by: what all begins with, before, after, and the gap itself."""

    first: Sequence[int]
    before: int
    after: int
    gap: int
    repository: int | None = None
    file: int | None = None


class _InfillReply(msgspec.Struct, frozen=True):
    prompt: str
    tokens_evaluated: int


class _RefusesError(Exception):
    """The engine writes no middles with this model. Asked for one, it says why."""


_KNOWN: dict[str, InfillMarks | None] = {}
"""By the key of an engine's launch; None where they cannot be told."""


async def _prepare_infill(engines: EngineAccess, lease: Lease, upstream: UpstreamRequest) -> UpstreamRequest:
    """Return what asks for the middle so that nothing around it is dropped.

    Raises BadRequest for a body that is not as expected, and where something would be dropped all the same; OSError
    where the engine cannot be reached.
    """
    around = decode_body(upstream.body, InfillContext)
    options = upstream.load.options
    batch = 0 if options.extra_args else options.max_batch_tokens or _BATCH
    engine = engines.adapters[lease.engine].descriptor
    if _surely_fits(around, batch) or Route.RAW not in engine.routes:
        return upstream
    infill_engine = _InfillEngine(engines, lease, engine)
    try:
        marks = None if _AFTER_FIRST in options.extra_args else await infill_engine.find_marks()
    except _RefusesError:
        return upstream
    if marks is None:
        await _check_bounds(infill_engine, around, batch or _BATCH)
        return upstream
    began = await infill_engine.tokenize([around.prompt], reads_marks=True) if around.prompt else []
    tokens = await infill_engine.tokenize(whole_prompt(around, marks, began))
    return msgspec.structs.replace(upstream, path=engine.routes[Route.RAW], body=_raw_request(upstream.body, tokens))


PREPARERS: Mapping[Route, Preparer] = {Route.INFILL: _prepare_infill}
"""By route, what has all of a request read where something of it would be dropped."""


def whole_prompt(around: InfillContext, marks: InfillMarks, began: Sequence[int]) -> Written:
    """Return the whole prompt as llama.cpp's infill route would have it."""
    others: Written = []
    for chunk in around.input_extra or []:
        others += [marks.file, chunk.filename + "\n"] if marks.file is not None else [_SNIPPET]
        others.append(chunk.text)
    if marks.file is not None:
        others += [marks.file, _THIS_FILE]
    if marks.repository is not None:
        others = [marks.repository, _PROJECT, *others]
    middle: Written = [marks.before, around.input_prefix, *began, marks.after, around.input_suffix, marks.gap]
    return [*others, *marks.first, *middle]


def _surely_fits(around: InfillContext, batch: int) -> bool:
    """Tell whether nothing could be dropped: no token is shorter than a byte, but for a space put first."""
    texts = (around.input_prefix, around.input_suffix, around.prompt or "")
    prefix, suffix, began = (len(text.encode()) + 1 for text in texts)
    quarter = batch // _QUARTERS
    return not around.input_extra and prefix <= 3 * quarter and suffix + began + 2 <= quarter


def _raw_request(body: bytes, tokens: Sequence[int]) -> bytes:
    fields: dict[str, object] = dict(msgspec.json.decode(body, type=dict[str, msgspec.Raw]))
    for name in msgspec.structs.fields(InfillContext):
        fields.pop(name.name, None)
    return msgspec.json.encode({**fields, "prompt": tokens})


async def _find_marks(engine: "_InfillEngine") -> InfillMarks | None:
    """Return a model's marks, as the engine sets them around nothing; None if they are not told apart again.

    Raises _RefusesError for a model without any.
    """
    reply = await engine.ask(Route.INFILL, {"input_prefix": "", "input_suffix": "", "n_predict": 0}, _InfillReply)
    if reply is None:
        raise _RefusesError
    tokens = await engine.tokenize([reply.prompt], reads_marks=True)
    if len(tokens) != reply.tokens_evaluated or len(tokens) < _QUARTERS - 1:
        return None
    *before, start, after, gap = tokens
    first = await engine.tokenize([""], adds_first=True)
    return InfillMarks(
        first=first[:1] if first and before[-1:] == first[:1] else (),
        before=start,
        after=after,
        gap=gap,
        repository=await engine.find_mark(_REPOSITORY, apart=gap),
        file=await engine.find_mark(_FILE, apart=gap),
    )


async def _check_bounds(engine: "_InfillEngine", around: InfillContext, batch: int) -> None:
    """Raise BadRequest for what the engine's own route would drop: of no part of a prompt does a dialect have words."""
    quarter = batch // _QUARTERS
    began = len(await engine.tokenize([around.prompt or ""], reads_marks=True))
    others = [chunk.text for chunk in around.input_extra or []]
    parts = (
        ("before the gap", [around.input_prefix], 3 * quarter),
        ("after the gap", [around.input_suffix], max(0, quarter - 2 - began)),
        ("in other files", others, 0),
    )
    for place, texts, most in parts:
        count = len(await engine.tokenize(texts)) if texts else 0
        if count > most:
            sentence = f"This engine accepts at most {most} tokens {place}, and there are {count}."
            raise BadRequest(sentence, hint="Send less of it.", code=ContextOverflow.default_code)


class _InfillEngine:
    """What an engine can be asked beside its work."""

    def __init__(self, engines: EngineAccess, lease: Lease, about: Descriptor) -> None:
        self._engines = engines
        self._lease = lease
        self._about = about

    async def find_marks(self) -> InfillMarks | None:
        """Return the model's marks, None where they cannot be told. Raises _RefusesError for a model without any."""
        launch = self._lease.key
        if launch not in _KNOWN:
            if len(_KNOWN) >= _MOST_KNOWN:
                _KNOWN.clear()
            _KNOWN[launch] = await _find_marks(self)
        return _KNOWN[launch]

    async def tokenize(
        self, written_parts: Sequence[str | int], *, reads_marks: bool = False, adds_first: bool = False
    ) -> list[int]:
        """Return the tokens of texts, one after another; tokens among them stay what they are."""
        question = {"content": written_parts, "parse_special": reads_marks, "add_special": adds_first}
        reply = await self.ask(Route.TOKENIZE, question, TokenizeReply)
        if reply is None:
            raise EngineFailed("The engine does not tell the tokens of a text.", code="engine_error")
        return reply.tokens

    async def find_mark(self, names: Sequence[str], *, apart: int) -> int | None:
        """Return the token that has one of these names; `apart` is put between them."""
        tokens = await self.tokenize([part for name in names for part in (name, apart)], reads_marks=True)
        mark_tokens: list[int] = []
        for token in tokens:
            if token != apart:
                mark_tokens.append(token)
            elif len(mark_tokens) == 1:
                return mark_tokens[0]
            else:
                mark_tokens = []
        return None

    async def ask(self, route: Route, question: object, kind: type[T]) -> T | None:
        """Return what the engine answers, None for anything else."""
        _, answer = await self._engines.ask_engine(
            self._lease, self._about.routes[route], msgspec.json.encode(question)
        )
        try:
            return msgspec.json.decode(answer, type=kind)
        except msgspec.MsgspecError:
            return None
