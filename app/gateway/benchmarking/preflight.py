"""Before a tool is wired: how long a model takes for what it sends, as predicted, or as it was measured here."""

import asyncio

import msgspec

from app.connect.connections import find_tool
from app.core import words
from app.core.advice import Estimate, EstimateRequest
from app.core.benchmarks import BenchmarkReceipt, Correctness, Workload
from app.core.capabilities import Capability
from app.core.errors import NotFound, RoundhouseError
from app.core.models import ModelInfo
from app.core.tool_prompts import TOOL_PROMPTS, ToolPreflight, ToolPrompt, find_tool_prompt
from app.gateway.loading.capabilities import capabilities_of, with_capabilities
from app.gateway.loading.launch import UNCHOSEN, choose_context, engine_for, find_model
from app.gateway.loading.requested_model import AUTO
from app.gateway.services import Services

_LEAST_SHARE = 0.5
"""Of the tokens that are estimated: tokenizers differ by less."""
_LEAST_VALID = 0.8
"""With more wrong calls than that an agent turns in circles."""
_MOST_CANDIDATES = 4
"""Each takes an estimate, a fraction of a second."""


async def preflight_tools(services: Services, model_name: str, tool: str = "") -> list[ToolPreflight]:
    """Return how a model would do with one tool, or with all of which prompts were recorded. Raises NotFound."""
    prompts = list(TOOL_PROMPTS)
    if tool:
        known_tool = find_tool(tool)
        prompt = find_tool_prompt(known_tool.id)
        if prompt is None:
            raise NotFound(
                f"Nothing was recorded of what {known_tool.name} sends.",
                hint=f"There is {', '.join(part.tool for part in TOOL_PROMPTS)}.",
                code="tool_not_recorded",
            )
        prompts = [prompt]
    model = await find_model(services, model_name or AUTO)
    receipts = [
        receipt
        for receipt in await services.chats.list_benchmarks(model=model.name)
        if receipt.settings.workload is Workload.TOOL
    ]
    calls_tools = Capability.TOOLS in await capabilities_of(services, model)
    results = [await _preflight(services, model, prompt, receipts, calls_tools=calls_tools) for prompt in prompts]
    suggestions = ModelSuggestions(services, model)
    return [
        _with_sentence(await suggestions.add_to(result, prompt), model)
        for result, prompt in zip(results, prompts, strict=True)
    ]


async def _preflight(
    services: Services, model: ModelInfo, prompt: ToolPrompt, receipts: list[BenchmarkReceipt], *, calls_tools: bool
) -> ToolPreflight:
    own = services.model_settings.settings_of(model.runs_as)
    context = (
        model.trained_context
        if model.attached
        else await asyncio.to_thread(choose_context, services.settings, model, UNCHOSEN, own)
    )
    estimate = None if model.attached else await _estimate(services, model, prompt)
    measured_prefix = next((part.prefix for part in receipts if _is_of(prompt, part)), None)
    # Whatever runs beside a model slows it down and makes its calls no worse.
    correctness = [part.correctness for part in receipts if part.settings.tool == prompt.tool]
    calls = next((part for part in correctness if part.tool_tasks), Correctness())
    prefill = estimate.prefill if estimate is not None and _fits_prompt(model, prompt.prompt_tokens) else None
    rate = prefill.tokens_per_second if prefill is not None else None
    return ToolPreflight(
        tool=prompt.tool,
        name=find_tool(prompt.tool).name,
        version=prompt.version,
        model=model.name,
        prompt_tokens=prompt.prompt_tokens,
        tools=prompt.tools,
        context_needed=prompt.context,
        context=context,
        largest_context=_find_largest_context(model, estimate),
        calls_tools=calls_tools,
        cold_s=measured_prefix.cold_ttft_s.value if measured_prefix else prompt.prompt_tokens / rate if rate else None,
        warm_s=measured_prefix.warm_ttft_s.value if measured_prefix else prompt.turn_tokens / rate if rate else None,
        is_measured=measured_prefix is not None,
        tool_tasks=calls.tool_tasks,
        valid_calls=calls.valid_calls,
        sentence="",
    )


def _fits_prompt(model: ModelInfo, prompt_tokens: int) -> bool:
    """Tell whether a model was trained for as much as a tool begins with; how soon it answers more means nothing."""
    return model.trained_context is None or model.trained_context >= prompt_tokens


def _find_largest_context(model: ModelInfo, estimate: Estimate | None) -> int | None:
    """Return how much the model was trained for, or how much fits here where that is less; None for unknown."""
    largest = estimate.largest_context if estimate is not None else None
    return min((size for size in (largest, model.trained_context) if size is not None), default=None)


class ModelSuggestions:
    """Models of this computer that would do where another does not: the largest that calls tools and fits."""

    def __init__(self, services: Services, model: ModelInfo) -> None:
        self._services, self._model = services, model
        self._fits: dict[tuple[str, int], bool] = {}

    async def add_to(self, result: ToolPreflight, prompt: ToolPrompt) -> ToolPreflight:
        """Return a preflight with a model to use instead, where it says that this one does not do."""
        if _would_do(result):
            return result
        for candidate in await self._list_candidates(prompt):
            if await self._is_fitting(candidate, prompt):
                return msgspec.structs.replace(result, suggestion=candidate.name)
        return result

    async def _list_candidates(self, prompt: ToolPrompt) -> list[ModelInfo]:
        models = await asyncio.to_thread(self._services.library.list_models)
        usable = [
            part
            for part in models
            if part.chats and not part.problem and not part.attached and part.name != self._model.name
            if part.trained_context is None or part.trained_context >= prompt.context
        ]
        able = await with_capabilities(self._services, usable)
        callers = [part for part in able if not prompt.tools or Capability.TOOLS in part.capabilities]
        return sorted(callers, key=lambda part: part.parameters or 0, reverse=True)[:_MOST_CANDIDATES]

    async def _is_fitting(self, candidate: ModelInfo, prompt: ToolPrompt) -> bool:
        key = (candidate.name, prompt.context)
        if key not in self._fits:
            estimate = await _estimate(self._services, candidate, prompt)
            self._fits[key] = estimate is not None and (estimate.largest_context or 0) >= prompt.context
        return self._fits[key]


def _would_do(result: ToolPreflight) -> bool:
    """Tell whether nothing but a setting stands in the way, and most of its calls can be made."""
    has_room = result.largest_context is None or result.largest_context >= result.context_needed
    is_caller = result.calls_tools and result.valid_calls >= _LEAST_VALID * result.tool_tasks
    return has_room and (is_caller or not result.tools)


def _is_of(prompt: ToolPrompt, receipt: BenchmarkReceipt) -> bool:
    """Tell whether a benchmark sent what the tool sends, and not what was cut to a model's context."""
    prefix = receipt.prefix
    return (
        receipt.settings.tool == prompt.tool
        and not receipt.disturbances
        and prefix is not None
        and prefix.prompt_tokens >= _LEAST_SHARE * prompt.prompt_tokens
    )


async def _estimate(services: Services, model: ModelInfo, prompt: ToolPrompt) -> Estimate | None:
    from app.gateway.advising.advice import estimate_model  # noqa: PLC0415 -- the advisor is brought in once it is needed

    most = min(prompt.context, model.trained_context or prompt.context)
    own = services.model_settings.settings_of(model.runs_as)
    try:
        engine = await asyncio.to_thread(engine_for, services, model, own)
        request = EstimateRequest(
            model=model.name, engine=engine.id, context=most, slots=1, depth=min(prompt.prompt_tokens, most - 1)
        )
        return await estimate_model(services, request)
    except RoundhouseError:
        return None


def _with_sentence(result: ToolPreflight, model: ModelInfo) -> ToolPreflight:
    tools = f"{result.tools} tools" if result.tools else "no tools"
    parts = [f"{result.name} begins with about {_thousands(result.prompt_tokens)} tokens and {tools}."]
    if result.is_measured or _fits_prompt(model, result.prompt_tokens):
        parts.append(_time_words(result, model))
    parts.append(_context_words(result, model))
    if not result.calls_tools and result.tools:
        parts.append(f"{model.name} is not made to call tools.")
    if result.tool_tasks and result.tools:
        parts.append(f"{result.valid_calls} of {result.tool_tasks} tool calls were valid (measured).")
    if result.suggestion:
        parts.append(f"Use {result.suggestion}.")
    return msgspec.structs.replace(result, sentence=" ".join(parts))


def _time_words(result: ToolPreflight, model: ModelInfo) -> str:
    if result.cold_s is None or result.warm_s is None:
        return f"How soon {model.name} answers that is not known before it is measured."
    cold, warm = words.format_duration(result.cold_s), words.format_duration(result.warm_s)
    how = "measured" if result.is_measured else "predicted"
    return f"With {model.name} the first token comes after {cold}, that of later answers after {warm} ({how})."


def _context_words(result: ToolPreflight, model: ModelInfo) -> str:
    context_words, largest = f"It needs {result.context_needed:,} tokens of context", result.largest_context
    if not _fits_prompt(model, result.prompt_tokens):
        return f"That does not fit: {model.name} was trained for {model.trained_context:,} tokens."
    if largest is not None and largest < result.context_needed:
        why = "fit here" if largest != model.trained_context else "are what the model was trained for"
        return f"{context_words} to work well, and {largest:,} {why}."
    if result.context is None:
        return f"{context_words}; how much {model.name} has is not known."
    if result.context < result.context_needed:
        how = f"`roundhouse tune {model.name} --context {result.context_needed}` sets it."
        return f"{context_words}, and the model is set to {result.context:,}: {how}"
    return f"{context_words}, which the model has."


def _thousands(tokens: int) -> str:
    return f"{tokens / 1000:.0f}k" if tokens >= 10_000 else f"{tokens:,}"  # noqa: PLR2004 -- two digits
