"""From a request in OpenAI's dialect to what its engine is sent, where, and what becomes of the answer."""

from typing import NamedTuple

import msgspec

from app.gateway.dialects.openai import chat_checks, fim, ranking, text_form, vectors
from app.gateway.dialects.openai.chat_form import CHAT, ONE_CALL
from app.gateway.dialects.openai.form import OPENAI, OpenAI
from app.gateway.dialects.prefilled import NOTHING
from app.gateway.dialects.staying import Staying
from app.gateway.entry.bodies import decode
from engines.api import Descriptor, Route


class Asked(Staying, frozen=True, kw_only=True):
    """The part of a request that concerns the gateway."""

    model: str | None = None
    stream: bool | None = None
    suffix: str | None = None
    """Of a completion: what comes after the text to be written."""


class Prepared(NamedTuple):
    """What the engine is sent, where, and what becomes of its answer."""

    route: Route
    body: bytes
    form: OpenAI = OPENAI


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


def going_on(form: OpenAI, engine: Descriptor, body: bytes, asked: Asked | chat_checks.Asked) -> OpenAI:
    """Return the form of an answer that may go on with the request's last turn."""
    if not engine.repeats_prefill or not isinstance(asked, chat_checks.Asked):
        return form
    prefilled = chat_checks.prefilled_by(body, asked)
    return form if prefilled == NOTHING else msgspec.structs.replace(form, prefilled=prefilled)


def _completion(body: bytes, asked: Asked) -> Prepared:
    if asked.suffix:
        between = decode(body, fim.Asked)
        form = fim.Fim(model=asked.model or "", includes_usage=between.includes_usage)
        return Prepared(Route.INFILL, fim.for_infill(body, between), form)
    fim.check_plain(decode(body, fim.Plain))
    includes_usage = decode(body, text_form.Asked).includes_usage
    return Prepared(Route.COMPLETIONS, body, text_form.Texts(includes_usage=includes_usage))
