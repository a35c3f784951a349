"""Look at an endpoint that somebody else runs: which models it lists, and whether it still has ours.

The list is the one question that every OpenAI-compatible server answers without computing anything, so asking it now
and then is no burden. What goes wrong becomes a failure in a sentence, as an engine's end does.
"""

import asyncio
import ssl
from http import HTTPStatus
from urllib.parse import urlsplit

import msgspec

from app.core.errors import Offline
from app.network.machine_addresses import machine_addresses
from app.supervisor.dialing import ForbiddenAddress
from app.supervisor.faults import StartFailed
from app.supervisor.readiness import EngineEndpoint
from engines.api import Failure, FailureKind

MODELS = "/models"
"""Below an endpoint's base: its list of models."""
LOOK_S = 10.0
"""Time for the list of models: a busy server may be slow to say anything."""
_LOOKS = 2
"""So many in a row without an answer, and the endpoint is lost: one can be a dropped packet."""
_REFUSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_REDIRECTS = range(300, 400)
_LOOK_THERE = "Check that it is running and can be reached from this computer."


class _RemoteMeta(msgspec.Struct, frozen=True):
    n_ctx: int | None = None
    n_ctx_train: int | None = None


class RemoteModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model as its endpoint lists it. Contexts in tokens, each under the name some server has for it."""

    id: str
    type: str | None = None
    task: str | None = None
    """Speaches: the kind of a model, in the hub's words."""
    max_model_len: int | None = None
    """vLLM, SGLang and their kin."""
    loaded_context_length: int | None = None
    """LM Studio and Roundhouse."""
    context_length: int | None = None
    """OpenRouter, Together."""
    context_window: int | None = None
    """Groq."""
    max_context_length: int | None = None
    meta: _RemoteMeta | None = None
    """llama-server."""
    owned_by: object = None
    capabilities: object = None
    """A list of words (llama-server, Roundhouse), or a table of answers (Mistral)."""
    architecture: object = None
    """OpenRouter's, with the modalities it takes and gives."""
    supported_parameters: object = None
    """OpenRouter."""

    @property
    def context(self) -> int | None:
        """The most this endpoint takes, as far as it says."""
        meta = self.meta or _RemoteMeta()
        limits = (
            self.max_model_len,
            self.loaded_context_length,
            self.context_length,
            self.context_window,
            meta.n_ctx,
            self.max_context_length,
            meta.n_ctx_train,
        )
        return next((tokens for tokens in limits if tokens is not None and tokens > 0), None)


class _RemoteModelList(msgspec.Struct, frozen=True):
    data: list[RemoteModel]


async def list_remote_models(endpoint: EngineEndpoint, path: str) -> list[RemoteModel]:
    """Return the models an endpoint lists. Raises StartFailed with what to say if it does not, or Offline."""
    where = _place_of(endpoint.base_url)
    try:
        reply = await endpoint.send_request("GET", path, timeout_s=LOOK_S)
    except (OSError, ValueError) as error:  # TimeoutError and ssl.SSLError are OSErrors
        raise StartFailed(_unreachable_failure(where, error)) from error
    if reply.status in _REFUSED:
        raise StartFailed(distrust_failure(endpoint.base_url) or _key_failure(where))
    if reply.status != HTTPStatus.OK:
        raise StartFailed(_answer_failure(where, reply.status))
    try:
        return msgspec.json.decode(reply.body, type=_RemoteModelList).data
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise StartFailed(
            _endpoint_failure(f"What answers at {where} does not list models in OpenAI's format.")
        ) from None


async def check_endpoint(endpoint: EngineEndpoint, path: str) -> Failure | None:
    """Return why the model cannot be asked there now; None if it can."""
    try:
        models = await list_remote_models(endpoint, path)
    except StartFailed as error:
        return error.failure
    except Offline as error:
        return _endpoint_failure(str(error), hint=error.hint)
    if any(model.id == endpoint.served_name for model in models):
        return None
    where = _place_of(endpoint.base_url)
    return _endpoint_failure(
        f"The endpoint at {where} has no model called {endpoint.served_name!r} now.",
        hint="Load it there, or attach the endpoint again.",
    )


async def wait_until_lost(endpoint: EngineEndpoint, path: str, *, every_s: float) -> Failure:
    """Look now and then; return once the model has been out of reach several times in a row."""
    missed_count = 0
    while True:
        await asyncio.sleep(every_s)
        failure = await check_endpoint(endpoint, path)
        missed_count = 0 if failure is None else missed_count + 1
        if failure is not None and missed_count >= _LOOKS:
            return failure


def _unreachable_failure(where: str, error: Exception) -> Failure:
    match error:
        case ForbiddenAddress():
            return _endpoint_failure(
                f"The address of {where} is one that is never contacted.", hint="Attach another endpoint."
            )
        case ssl.SSLCertVerificationError():
            return _endpoint_failure(
                f"The certificate of {where} cannot be verified: {error.verify_message}.",
                hint="Give the endpoint a certificate that this computer trusts.",
            )
        case TimeoutError():
            return _endpoint_failure(f"The endpoint at {where} did not answer within {LOOK_S:g} seconds.")
        case ConnectionRefusedError():
            return _endpoint_failure(f"The endpoint at {where} does not answer: nothing listens there.")
        case _:
            reason = getattr(error, "strerror", None) or error  # an OSError's text begins with its number
            return _endpoint_failure(f"The endpoint at {where} does not answer: {reason}.")


def distrust_failure(url: str) -> Failure | None:
    """Return why a paired machine lets nobody in at an address of ours; None where that leads to no machine."""
    machine = machine_addresses.find_machine(url)
    if machine is None:
        return None
    return Failure(
        kind=FailureKind.AUTH,
        sentence=f"{machine.name} does not trust this computer, or not any more.",
        hint="Pair the two again.",
    )


def _place_of(url: str) -> str:
    """Return what an endpoint's place is called: a paired machine's name, or host and port."""
    machine = machine_addresses.find_machine(url)
    return urlsplit(url).netloc if machine is None else machine.name


def _key_failure(where: str) -> Failure:
    return Failure(
        kind=FailureKind.AUTH,
        sentence=f"The endpoint at {where} does not accept the key.",
        hint="Attach it again with a valid key.",
    )


def _answer_failure(where: str, status: int) -> Failure:
    if status in _REDIRECTS:
        return _endpoint_failure(
            f"The endpoint at {where} redirects to another address ({status}), which is not followed.",
            hint="Attach its actual address.",
        )
    return _endpoint_failure(f"The endpoint at {where} answers {status} when asked for its models.")


def _endpoint_failure(sentence: str, *, hint: str = _LOOK_THERE) -> Failure:
    return Failure(kind=FailureKind.UNREACHABLE, sentence=sentence, hint=hint)
