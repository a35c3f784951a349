"""Measures what a quantisation or a smaller KV cache loses: two loads, one after the other, asked for next tokens."""

import asyncio
import contextlib
from http import HTTPStatus

import aiohttp
import msgspec

from app.benchmark.loss import (
    TOP_TOKENS,
    Distribution,
    TextPlace,
    compare_distributions,
    read_distribution,
    text_places,
)
from app.core.advice import EstimateRequest
from app.core.benchmarks import BenchmarkSettings, LossResult, StartBenchmark
from app.core.errors import BadRequest, EngineFailed, RoundhouseError
from app.core.models import ModelInfo, ModelSettings, larger_quantizations
from app.gateway.benchmarking.targets import OpenTarget, open_target
from app.gateway.loading.launch import find_model
from app.gateway.services import Services
from engines.api import Descriptor, Feature, Route

NO_LIKELY_TOKENS = "The engine does not say which next tokens it holds for likely."
_TIMEOUT = aiohttp.ClientTimeout(total=600)
_SETTINGS = BenchmarkSettings(requests=1)


def tells_likely_tokens(about: Descriptor) -> bool:
    """Tell whether an engine can be asked what it holds for likely after a text."""
    return Route.COMPLETIONS in about.routes and Feature.LOGPROBS in about.features


async def compare_settings(services: Services, model: str, before: ModelSettings, after: ModelSettings) -> LossResult:
    """Return what a model with other settings loses against itself.

    Raises BadRequest for an engine that does not say what it holds for likely, EngineFailed where it does not run.
    """
    places = text_places()
    first = await _measure_distributions(services, model, before, places)
    return compare_distributions(places, first, await _measure_distributions(services, model, after, places))


async def compare_models(services: Services, reference: str, model: str) -> LossResult:
    """Return what `model` loses against another quantisation of it. Raises as `compare_settings` does.

    Without a `reference` it is the largest that is here and fits. Raises BadRequest too for models that are not made
    alike: their tokens could not be set side by side.
    """
    second_model = await find_model(services, model)
    first_model = await find_model(services, reference) if reference else await _largest_fit(services, second_model)
    for part in (first_model, second_model):
        if part.attached or not part.chats:
            raise BadRequest(f"{part.title} cannot be compared: it has to be a chat model of this computer.")
    if first_model.architecture != second_model.architecture:
        raise BadRequest(
            f"{first_model.title} and {second_model.title} are not two quantisations of one model.",
            code="models_differ",
        )
    places = text_places()
    first = await _measure_distributions(services, first_model.name, None, places)
    loss = compare_distributions(places, first, await _measure_distributions(services, model, None, places))
    return msgspec.structs.replace(loss, reference=first_model.name)


async def _largest_fit(services: Services, model: ModelInfo) -> ModelInfo:
    """Return the largest other quantisation that fits. Raises BadRequest where there is no larger one."""
    from app.gateway.advising.advice import estimate_model  # noqa: PLC0415 -- the advisor is brought in once it is needed

    models = await asyncio.to_thread(services.library.list_models)
    for larger in larger_quantizations(model, models):
        with contextlib.suppress(RoundhouseError):  # nothing is known of its memory
            if (await estimate_model(services, EstimateRequest(model=larger.name))).fits:
                return larger
    raise BadRequest(
        f"No larger quantisation of {model.title} that fits is here.",
        hint="Download a larger file of the same model, or name one.",
        code="reference_required",
    )


async def _measure_distributions(
    services: Services, model: str, own: ModelSettings | None, places: list[TextPlace]
) -> list[Distribution]:
    async with open_target(services, StartBenchmark(model=model, settings=_SETTINGS), own=own) as target:
        return [await _ask_next(services, target, place) for place in places]


async def _ask_next(services: Services, target: OpenTarget, place: TextPlace) -> Distribution:
    """Return the likeliest tokens at a place; what stands before it was mostly read for the place before."""
    lease = target.lease
    about = services.adapters[lease.engine].descriptor if lease is not None else None
    if lease is None or about is None or not tells_likely_tokens(about):
        raise BadRequest(NO_LIKELY_TOKENS, code="loss_unknown")
    body = {
        "model": lease.served_name,
        "prompt": place.before,
        "max_tokens": 1,
        "temperature": 0,
        "logprobs": TOP_TOKENS,
    }
    # llama-server closes idle connections whenever it likes: each answer gets one of its own.
    headers = {"Authorization": f"Bearer {lease.key}", "Connection": "close", "Content-Type": "application/json"}
    url = lease.base_url + about.routes[Route.COMPLETIONS]
    async with services.http.post(url, data=msgspec.json.encode(body), headers=headers, timeout=_TIMEOUT) as response:
        answer = await response.read()
    if response.status != HTTPStatus.OK:
        raise EngineFailed(f"The engine answered with status {response.status}.", code="loss_failed")
    try:
        return read_distribution(answer)
    except ValueError as error:
        raise BadRequest(str(error), code="loss_unknown") from None
