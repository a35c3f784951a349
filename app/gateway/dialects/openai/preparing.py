"""From a request in OpenAI's dialect to what its engine is sent, where, and what becomes of the answer."""

from functools import partial
from typing import NamedTuple

import msgspec

from app.gateway.canonical.assistant_prefill import NOTHING
from app.gateway.dialects.keep_alive import Staying
from app.gateway.dialects.openai import answers, checks, embeddings, infill, multi_choice, rerank, text_checks
from app.gateway.dialects.openai.chat_form import CHAT, ONE_CALL
from app.gateway.dialects.openai.form import OPENAI, OpenAI
from app.gateway.dialects.openai.ranges import Answers
from app.gateway.entry.bodies import decode
from app.gateway.exchange.upstream import Gather
from engines.api import Descriptor, Route

_NOTHING = msgspec.Raw()
_WRITES = frozenset({Route.CHAT, Route.COMPLETIONS})


class Asked(Staying, frozen=True, kw_only=True):
    """The part of a request that concerns the gateway."""

    model: str | None = None
    stream: bool | None = None
    prompt: msgspec.Raw = _NOTHING
    n: Answers | None = None
    suffix: str | None = None
    """Of a completion: what comes after the text to be written."""


class Prepared(NamedTuple):
    """What the engine is sent, where, and what becomes of its answer. `source` is the body as it came."""

    route: Route
    body: bytes
    source: bytes
    form: OpenAI = OPENAI
    gather: Gather | None = None


def prepared_chat(body: bytes, wishes: checks.Asked) -> Prepared:
    """Return what a chat comes to. Raises BadRequest for what no engine would heed."""
    form = ONE_CALL if wishes.parallel_tool_calls is False else CHAT
    return Prepared(Route.CHAT, checks.checked(body, wishes), body, form)


def prepared(body: bytes, wishes: Asked, route: Route) -> Prepared:
    """Return what any other request comes to. Raises BadRequest for what no engine would heed."""
    if route is Route.COMPLETIONS:
        return _completion(body, wishes)
    if route is Route.EMBEDDINGS:
        vector_wishes = decode(body, embeddings.Asked)
        return Prepared(route, embeddings.for_engine(body, vector_wishes), body, embeddings.form_of(vector_wishes))
    if route is Route.RERANK:
        ranking_wishes = decode(body, rerank.Asked)
        return Prepared(route, rerank.for_engine(body, ranking_wishes), body, rerank.form_of(ranking_wishes))
    return Prepared(route, body, body)


def fitted(prepared: Prepared, engine: Descriptor, wishes: Asked | checks.Asked, *, name: str) -> Prepared:
    """Return it as an engine with ways of its own has to be asked and read; `name` is what answers call the model."""
    if isinstance(prepared.form, infill.Fim):
        return prepared._replace(form=msgspec.structs.replace(prepared.form, model=name))
    if wishes.stream and wishes.n is None and isinstance(wishes, checks.Asked):
        return prepared  # as with most
    each = int(wishes.n or 1)
    is_several = prepared.route in _WRITES and (each > 1 or (isinstance(wishes, Asked) and _prompts(wishes.prompt) > 1))
    if engine.counts_each and is_several and not wishes.stream:
        gather = partial(multi_choice.gathered, each=each)
        return prepared._replace(body=multi_choice.as_stream(prepared.body), gather=gather)
    form = _going_on(prepared.form, engine, prepared.source, wishes)
    if engine.counts_each and is_several:
        form = msgspec.structs.replace(form, each=each)
    return prepared._replace(form=form)


def _prompts(raw: msgspec.Raw) -> int:
    """Return how many prompts a completion has: a list of tokens is one."""
    prompts = msgspec.json.decode(raw) if bytes(raw).startswith(b"[") else []
    return len(prompts) if all(isinstance(one, str | list) for one in prompts) else 1


def _going_on(form: OpenAI, engine: Descriptor, body: bytes, wishes: Asked | checks.Asked) -> OpenAI:
    """Return the form of an answer that may go on with the request's last turn."""
    if not engine.repeats_prefill or not isinstance(wishes, checks.Asked):
        return form
    prefilled = checks.prefilled_by(body, wishes)
    return form if prefilled == NOTHING else msgspec.structs.replace(form, prefilled=prefilled)


def _completion(body: bytes, wishes: Asked) -> Prepared:
    wanted = decode(body, text_checks.Asked)
    checked = text_checks.checked(body, wanted)
    if wishes.suffix:
        between = decode(body, infill.Asked)
        form = infill.Fim(includes_usage=wanted.includes_usage)
        return Prepared(Route.INFILL, infill.for_infill(checked, between), body, form)
    texts = answers.Texts(includes_usage=wanted.includes_usage, is_only_chosen=wanted.is_only_chosen)
    return Prepared(Route.COMPLETIONS, checked, body, texts)
