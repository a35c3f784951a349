"""From a request in OpenAI's dialect to what its engine is sent, where, and what becomes of the answer."""

from functools import partial
from typing import NamedTuple

import msgspec

from app.gateway.canonical.assistant_prefill import NOTHING
from app.gateway.dialects.keep_alive import Staying
from app.gateway.dialects.openai import chat_checks, fim, ranking, several, text_checks, text_form, vectors
from app.gateway.dialects.openai.chat_form import CHAT, ONE_CALL
from app.gateway.dialects.openai.form import OPENAI, OpenAI
from app.gateway.dialects.openai.ranges import Answers
from app.gateway.entry.bodies import decode
from app.gateway.exchange.proxy import Gather
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
    """What the engine is sent, where, and what becomes of its answer."""

    route: Route
    body: bytes
    form: OpenAI = OPENAI
    gather: Gather | None = None


def prepared(body: bytes, asked: Asked | chat_checks.Asked, route: Route) -> Prepared:
    """Return what a request comes to. Raises BadRequest for what no engine would heed."""
    if isinstance(asked, chat_checks.Asked):
        chat = ONE_CALL if asked.parallel_tool_calls is False else CHAT
        return Prepared(route, chat_checks.checked(body, asked), chat)
    if route is Route.COMPLETIONS:
        return _completion(body, asked)
    if route is Route.EMBEDDINGS:
        wanted = decode(body, vectors.Asked)
        return Prepared(route, vectors.for_engine(body, wanted), vectors.form_of(wanted))
    if route is Route.RERANK:
        ranked = decode(body, ranking.Asked)
        return Prepared(route, ranking.for_engine(body, ranked), ranking.form_of(ranked))
    return Prepared(route, body)


def fitted(
    prepared: Prepared, engine: Descriptor, body: bytes, asked: Asked | chat_checks.Asked, *, name: str
) -> Prepared:
    """Return it as an engine with ways of its own has to be asked, and understood.

    `body` is the request's, `name` what the answer calls the model.
    """
    if isinstance(prepared.form, fim.Fim):
        return prepared._replace(form=msgspec.structs.replace(prepared.form, model=name))
    if asked.stream and asked.n is None and isinstance(asked, chat_checks.Asked):
        return prepared  # as with most
    each = int(asked.n or 1)
    is_several = prepared.route in _WRITES and (each > 1 or (isinstance(asked, Asked) and _prompts(asked.prompt) > 1))
    if engine.counts_each and is_several and not asked.stream:
        gather = partial(several.gathered, each=each)
        return prepared._replace(body=several.as_stream(prepared.body), gather=gather)
    form = _going_on(prepared.form, engine, body, asked)
    if engine.counts_each and is_several:
        form = msgspec.structs.replace(form, each=each)
    return prepared._replace(form=form)


def _prompts(raw: msgspec.Raw) -> int:
    """Return how many prompts a completion has: a list of tokens is one."""
    prompts = msgspec.json.decode(raw) if bytes(raw).startswith(b"[") else []
    return len(prompts) if all(isinstance(one, str | list) for one in prompts) else 1


def _going_on(form: OpenAI, engine: Descriptor, body: bytes, asked: Asked | chat_checks.Asked) -> OpenAI:
    """Return the form of an answer that may go on with the request's last turn."""
    if not engine.repeats_prefill or not isinstance(asked, chat_checks.Asked):
        return form
    prefilled = chat_checks.prefilled_by(body, asked)
    return form if prefilled == NOTHING else msgspec.structs.replace(form, prefilled=prefilled)


def _completion(body: bytes, asked: Asked) -> Prepared:
    wanted = decode(body, text_checks.Asked)
    checked = text_checks.checked(body, wanted)
    if asked.suffix:
        between = decode(body, fim.Asked)
        form = fim.Fim(includes_usage=wanted.includes_usage)
        return Prepared(Route.INFILL, fim.for_infill(checked, between), form)
    texts = text_form.Texts(includes_usage=wanted.includes_usage, is_only_chosen=wanted.is_only_chosen)
    return Prepared(Route.COMPLETIONS, checked, texts)
