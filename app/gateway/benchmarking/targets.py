"""What a benchmark measures, ready to be asked: a model loaded for it, an attached one, or an endpoint at an address.

A model of this computer is loaded under a name of its own with as many slots as requests run at once, by way of the
supervisor like anybody else: what runs is left alone, and it goes when the benchmark ends.
"""

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from app.benchmark.workloads import (
    CHARACTERS_PER_TOKEN,
    Conversation,
    estimate_context,
    make_workload,
)
from app.core.advice import EstimateRequest
from app.core.benchmarks import (
    BenchmarkMemory,
    BenchmarkPrediction,
    BenchmarkPrompt,
    BenchmarkSettings,
    BenchmarkTarget,
    StartBenchmark,
)
from app.core.errors import BadRequest, NotFound, RoundhouseError, quote_value
from app.core.models import LoadOptions, ModelInfo, ModelSettings, list_changes
from app.gateway.benchmarking.client import BenchmarkEndpoint
from app.gateway.benchmarking.text_density import TextDensities
from app.gateway.library.attached_endpoints import check_url, find_endpoint_models
from app.gateway.library.model_choices import settings_for_engine
from app.gateway.loading.launch import find_model, load_request_for
from app.gateway.loading.measured_names import MeasuredAs, rename_load
from app.gateway.loading.requested_model import ResolvedModel
from app.gateway.services import Services
from app.hub.disk.verification import files_of, sha256_of
from app.hub.download.wire import DownloadStopped
from app.supervisor.lease import Lease
from app.supervisor.policy import LoadRequest
from engines.api import LaunchOptions, Route

_LEAST_CONTEXT = 1024
_SHA256_CHARS = 64
_CHAT_PATH, _COMPLETIONS_PATH = "/chat/completions", "/completions"


class OpenTarget(msgspec.Struct, kw_only=True):
    """What is measured, with the requests of one round."""

    endpoint: BenchmarkEndpoint
    about: BenchmarkTarget
    conversations: list[Conversation]
    lease: Lease | None = None
    resolved: ResolvedModel | None = None
    """None at an address."""
    load_s: float | None = None
    memory: BenchmarkMemory = BenchmarkMemory()
    prediction: BenchmarkPrediction = BenchmarkPrediction()
    notes: list[str] = msgspec.field(default_factory=list)

    @property
    def pids(self) -> list[int]:
        """The engine's processes, where it is one of ours."""
        pid = self.lease.status.pid if self.lease is not None else None
        return [] if pid is None else [pid]

    @property
    def backend(self) -> str:
        """Where it computes; empty where nobody says."""
        return self.about.backend


async def check_request(services: Services, request: StartBenchmark) -> None:
    """Return if a benchmark can begin. Raises NotFound or BadRequest."""
    if request.url:
        check_url(request.url, own=services.identity.url)
        if request.settings.engine:
            raise BadRequest("An engine is chosen for a model of this computer, and this is an address.")
    elif not request.model:
        raise BadRequest("Name a model or an address.")
    else:
        model = await find_model(services, request.model)
        if not model.chats or model.is_reranker:
            raise BadRequest(f"{model.title} does not answer in words.", code="model_unusable")
        if not model.attached:
            await asyncio.to_thread(_load_of, services, model, request.settings, LoadOptions())
    _make_conversations(request.settings, request.prompts, None)


@asynccontextmanager
async def open_target(
    services: Services,
    request: StartBenchmark,
    *,
    own: ModelSettings | None = None,
    densities: TextDensities | None = None,
) -> AsyncIterator[OpenTarget]:
    """Have what is to be measured ready while the block runs, with `own` instead of the model's settings.

    With `densities` the engine counts the prompts, and the model is loaded once more where they do not fit; later
    times it is loaded rightly at once. Raises UserError, EngineFailed or Unavailable.
    """
    if request.url:
        yield await _target_at(services, request)
        return
    model = await find_model(services, request.model)
    if model.attached:
        load = await asyncio.to_thread(load_request_for, services, model)
        async with services.supervisor.lease(load) as lease:
            yield _with_lease(services, request, model, lease, load)
        return
    async with _load_target(services, request, model, own, densities) as target:
        yield target


def hash_weights(model: ModelInfo, off: threading.Event) -> str:
    """Return the SHA-256 of a model's file; of several, of their hashes in order of their names.

    Files that the hub's cache names by their hash are not read. Raises OSError, and DownloadStopped once `off` is set.
    """

    def report(_file: Path, _count: int) -> None:
        if off.is_set():
            raise DownloadStopped

    hashes = [_sha256_in_name(file) or sha256_of(file, report) for file in files_of(model)]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()


def _sha256_in_name(file: Path) -> str:
    name = file.resolve().name.removeprefix("sha256-")
    is_hash = len(name) == _SHA256_CHARS and all(character in "0123456789abcdef" for character in name)
    return name if is_hash else ""


async def _target_at(services: Services, request: StartBenchmark) -> OpenTarget:
    base, models = await find_endpoint_models(check_url(request.url, own=services.identity.url), request.key)
    names = [model.id for model in models]
    if not request.model and len(names) != 1:
        raise BadRequest(
            f"The endpoint has {len(names)} models.", hint="Name one with --served-name.", code="model_required"
        )
    name = request.model or names[0]
    if names and name not in names:
        raise NotFound(
            f"The endpoint has no model {quote_value(name)}.",
            hint=f"It has {', '.join(names[:10])}.",
            code="model_not_found",
        )
    return OpenTarget(
        endpoint=BenchmarkEndpoint(url=base + _CHAT_PATH, key=request.key, model=name),
        about=BenchmarkTarget(model=name, url=base),
        conversations=_make_conversations(request.settings, request.prompts, None),
        notes=["What else runs where the endpoint runs was not watched."],
    )


@asynccontextmanager
async def _load_target(
    services: Services,
    request: StartBenchmark,
    model: ModelInfo,
    own: ModelSettings | None,
    densities: TextDensities | None,
) -> AsyncIterator[OpenTarget]:
    """Load a model, and once more where its tokenizer makes so many tokens of the prompts that they do not fit."""
    async with _load_once(services, request, model, own, densities) as target:
        if densities is None or model.name in densities or await _fit_prompts(services, request, target, densities):
            yield target
            return
    async with _load_once(services, request, model, own, densities) as target:
        yield target


async def _fit_prompts(
    services: Services, request: StartBenchmark, target: OpenTarget, densities: TextDensities
) -> bool:
    """Have the engine count, and make the prompts anew by that; tell whether the context is large enough for them."""
    resolved, lease = target.resolved, target.lease
    if resolved is None or lease is None:
        return True
    density = await densities.count(services, resolved.model.name, lease, target.conversations)
    context = resolved.load.options.context or 0
    target.conversations = _make_conversations(request.settings, request.prompts, lease.context or context, density)
    return (_options_for(request, resolved.model, density).context or 0) <= context


@asynccontextmanager
async def _load_once(
    services: Services,
    request: StartBenchmark,
    model: ModelInfo,
    own: ModelSettings | None,
    densities: TextDensities | None,
) -> AsyncIterator[OpenTarget]:
    from app.gateway.loading.memory_fit import fit_load  # noqa: PLC0415 -- the advisor is brought in once it is needed

    density = CHARACTERS_PER_TOKEN if densities is None else densities.of_model(model.name)
    options = _options_for(request, model, density)
    load = await asyncio.to_thread(_load_of, services, model, request.settings, options, own=own)
    load = await fit_load(services, load, is_fixed=True)
    prediction, estimate_bytes = await _predict(services, model, load)
    name = load.source.name
    try:
        async with services.supervisor.lease(load) as lease:
            target = _with_lease(services, request, model, lease, load)
            target.conversations = _make_conversations(
                request.settings, request.prompts, lease.context or load.options.context, density
            )
            free = (await services.machine.read_free()).memory.available.value
            target.memory = BenchmarkMemory(
                engine_bytes=lease.status.memory_bytes, estimate_bytes=estimate_bytes, free_bytes=free
            )
            target.prediction = prediction
            target.notes += await asyncio.to_thread(_describe_dropped, services, model, request.settings.engine, own)
            target.load_s = lease.status.load_seconds or lease.load_s
            yield target
    finally:
        await services.supervisor.unload_model(name)


def _options_for(request: StartBenchmark, model: ModelInfo, density: float) -> LoadOptions:
    """Return how to load a model: a slot for each request at once, and a context that its prompts fit in."""
    settings, load_options = request.settings, request.settings.load
    prompts = _make_conversations(settings, request.prompts, model.trained_context, density)
    needed_context = max(_LEAST_CONTEXT, estimate_context(prompts, density))
    context = load_options.context or min(needed_context, model.trained_context or needed_context)
    return msgspec.structs.replace(load_options, slots=load_options.slots or max(settings.concurrency), context=context)


def _load_of(
    services: Services,
    model: ModelInfo,
    settings: BenchmarkSettings,
    options: LoadOptions,
    *,
    own: ModelSettings | None = None,
) -> LoadRequest:
    purpose = MeasuredAs.BENCHMARK if own is None else MeasuredAs.SETTINGS
    own = services.model_settings.settings_of(model.runs_as) if own is None else own
    if settings.engine:
        own = settings_for_engine(services, model, own, settings.engine)
    return rename_load(load_request_for(services, model, options, own=own), purpose)


def _describe_dropped(services: Services, model: ModelInfo, engine: str, own: ModelSettings | None) -> list[str]:
    """Return what is set for the model and left out with this engine, in a sentence; nothing for nothing."""
    own = services.model_settings.settings_of(model.runs_as) if own is None else own
    engine_settings = settings_for_engine(services, model, own, engine) if engine else own
    names = [name for name in list_changes(own, engine_settings) if name != "engine"]
    return [f"{engine} has no option for what is set of {', '.join(names)}."] if names else []


async def _predict(services: Services, model: ModelInfo, load: LoadRequest) -> tuple[BenchmarkPrediction, int | None]:
    """Return what the advisor expects, and the bytes; nothing where it knows nothing of the model."""
    from app.gateway.advising.advice import estimate_model  # noqa: PLC0415 -- as above

    options = load.options
    try:
        estimate = await estimate_model(
            services,
            EstimateRequest(
                model=model.name,
                context=options.context,
                kv_type=options.kv_type,
                slots=options.slots,
                engine=load.engine,
            ),
        )
    except RoundhouseError:
        return BenchmarkPrediction(), None
    return BenchmarkPrediction(
        decode_tokens_s=estimate.decode.tokens_per_second if estimate.decode else None,
        prefill_tokens_s=estimate.prefill.tokens_per_second if estimate.prefill else None,
    ), estimate.total.bytes


def _with_lease(
    services: Services, request: StartBenchmark, model: ModelInfo, lease: Lease, load: LoadRequest
) -> OpenTarget:
    routes, status = services.adapters[lease.engine].descriptor.routes, lease.status
    is_chat = Route.CHAT in routes
    if not is_chat and Route.COMPLETIONS not in routes:
        raise BadRequest(f"{lease.engine} answers neither chats nor completions.", code="model_unusable")
    path = routes[Route.CHAT if is_chat else Route.COMPLETIONS]
    return OpenTarget(
        endpoint=BenchmarkEndpoint(url=lease.base_url + path, key=lease.key, model=lease.served_name, is_chat=is_chat),
        about=BenchmarkTarget(
            model=model.name,
            url=model.attached,
            engine=lease.engine,
            engine_version=status.version,
            backend=status.backend,
            format=model.format,
            quantization=model.quantization,
            architecture=model.architecture,
            parameters=model.parameters,
            size_bytes=model.size_bytes or None,
            options=_describe_options(load.options),
        ),
        conversations=_make_conversations(request.settings, request.prompts, lease.context or load.options.context),
        lease=lease,
        resolved=ResolvedModel(model, load),
    )


def _make_conversations(
    settings: BenchmarkSettings,
    prompts: list[BenchmarkPrompt],
    context: int | None,
    density: float = CHARACTERS_PER_TOKEN,
) -> list[Conversation]:
    try:
        return make_workload(settings, prompts, context=context, characters_per_token=density)
    except ValueError as error:
        raise BadRequest(str(error), code="prompts_required") from None


def _describe_options(options: LaunchOptions) -> dict[str, str | int | float | bool]:
    """Return what an engine was started with, as far as it differs from nothing; no paths."""
    named_options = {
        name: value
        for name in ("context", "slots", "threads", "gpu_layers", "cpu_moe_layers", "kv_type", "flash_attention")
        if (value := getattr(options, name)) is not None
    }
    extra = {"extra_args": " ".join(options.extra_args)} if options.extra_args else {}
    return {**named_options, **({"draft": options.draft_name} if options.draft is not None else {}), **extra}
