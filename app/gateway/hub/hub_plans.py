"""How variants of a model would be run on this machine, and which of them is the one to take."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from app.core.advice import Intent, Plan
from app.core.model_facts import ModelFacts
from app.gateway.services import Services
from app.hub.repositories.offers import variant_label
from app.hub.repositories.variants import ModelVariant

USUAL_QUANTIZATIONS = {
    "gguf": "Q4_K_M",
    "mlx": "4bit",
    "exl3": "4.0bpw",
    "exl2": "4.0bpw",
    "awq": "4bit",
    "gptq": "4bit",
    "nvfp4": "NVFP4",
    "mxfp4": "MXFP4",
    "fp8": "FP8",
    "compressed-tensors": "FP8",
    "openvino": "int4",
    "onnx-genai": "int4",
    "mlc": "q4f16_1",
    "safetensors": "BF16",
}
"""The quantisation of each format that most people take, the format that most machines can run first."""


class BestVariant(NamedTuple):
    """The variant to take, and why."""

    variant: ModelVariant
    reason: str


def pick_best(
    plans: Iterable[Plan], offered_variants: Iterable[ModelVariant], facts: Mapping[str, ModelFacts]
) -> BestVariant | None:
    """Return the first plan's variant that is offered and fits."""
    variant_by_form: dict[tuple[str, str], ModelVariant] = {}
    for variant in offered_variants:
        if (variant_facts := facts.get(variant_label(variant))) is not None:
            variant_by_form.setdefault((variant_facts.format, variant_facts.quantization), variant)
    for plan in plans:
        chosen_variant = variant_by_form.get((plan.format, plan.quantization))
        if chosen_variant is not None and (plan.estimate is None or plan.estimate.fits):
            return BestVariant(chosen_variant, plan.sentence or next((reason.text for reason in plan.reasons), ""))
    return None


async def plans_for(services: Services, facts: Mapping[str, ModelFacts]) -> list[Plan]:
    """Return how these variants would be run here, the best that is installed first."""
    from app.advisor.plans.ranking import PlanInputs, build_advice  # noqa: PLC0415 -- the gateway starts without the advisor
    from app.engine_store.host import host_of  # noqa: PLC0415 -- as above
    from app.gateway.advising.engine_table import engines_for  # noqa: PLC0415 -- as above

    engines = [engine for engine in await asyncio.to_thread(services.catalogue.list_engines) if engine.installed]
    machine = await services.machine.read_free()
    supports = await asyncio.to_thread(services.support.read_all)
    inputs = PlanInputs(
        traits=engines_for(machine, services.catalogue.recipes, engines, host_of(machine), supports),
        machine=machine,
        candidates=list(facts.values()),
        model=next(iter(facts.values())).name,
        intent=Intent.CHAT,
        engines=engines,
        calibrations=await services.speed_measurements.calibrations(),
    )
    advice = await asyncio.to_thread(build_advice, inputs)
    usable = [plan for plan in advice.plans if not plan.refused]
    return sorted(usable, key=lambda plan: not plan.is_installed)
