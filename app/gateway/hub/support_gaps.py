"""Says before a download that no engine which is here loads the model, and which update would help.

What a version loads is read from its own files (`app.gateway.engines.support`); of a model nobody can tell anything of,
nothing is said.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.core.engines import EngineInfo
from app.core.errors import Conflict
from app.core.model_facts import ModelFacts
from app.engine_store.catalogue import EngineCatalogue
from app.engine_store.recipe import EngineVariant
from app.gateway.advising.machine import MachineReader
from app.gateway.engines.support import SupportReader
from engines.api.support import EngineSupport


class SupportGap(NamedTuple):
    """Why an engine that is here does not load a model, and what would help."""

    engine: EngineInfo
    sentence: str
    hint: str
    short: str
    """For a row of a list: "Needs a newer llama.cpp: update (33 MB) first"."""


class GapInputs(NamedTuple):
    """What every model is judged on."""

    engines: Sequence[EngineInfo]
    supports: Mapping[str, EngineSupport]
    variants: Mapping[str, EngineVariant]
    """What an update of each engine would install on this machine."""


async def check_support(
    catalogue: EngineCatalogue, machine: MachineReader, support: SupportReader, facts: ModelFacts
) -> None:
    """Raise Conflict (engine_too_old) for a model that no engine which reads its format here loads."""
    gap = find_gap(facts, await read_gap_inputs(catalogue, machine, support))
    if gap is not None:
        raise Conflict(gap.sentence, hint=gap.hint, code="engine_too_old")


async def read_gap_inputs(catalogue: EngineCatalogue, machine: MachineReader, support: SupportReader) -> GapInputs:
    """Return what is installed here, and what it loads."""
    from app.engine_store.host import best_variant, host_of  # noqa: PLC0415 -- the gateway starts without it

    engines = await asyncio.to_thread(catalogue.list_engines)
    host = host_of(await machine.read_free())
    best = {engine: best_variant(recipe, host) for engine, recipe in catalogue.recipes.items()}
    variants = {engine: variant for engine, variant in best.items() if variant is not None}
    installed_engines = [engine for engine in engines if engine.installed]
    return GapInputs(installed_engines, await asyncio.to_thread(support.read_all), variants)


def name_facts(architecture: str, model_format: str, quantization: str) -> ModelFacts:
    """Return what a model is called, where no more than its architecture is known."""
    from app.hub.facts.hf_config import model_types_of  # noqa: PLC0415 -- as above

    return ModelFacts(
        name=architecture,
        format=model_format,
        architecture=architecture,
        quantization=quantization,
        model_types=model_types_of(architecture),
        layers=[],
        weights=[],
        hidden=0,
        vocabulary=0,
        file_bytes=0,
        parameters=0,
        active_parameters=0,
    )


def find_gap(facts: ModelFacts, inputs: GapInputs) -> SupportGap | None:
    """Return why nothing here loads a model; None where something does or may, or nothing here reads its format."""
    from app.advisor.choosing.support import explain_unknown  # noqa: PLC0415 -- the gateway starts without the advisor

    readers = [engine for engine in inputs.engines if facts.format in engine.formats]
    lacks = [explain_unknown(facts, inputs.supports.get(engine.id)) for engine in readers]
    if not readers or not all(lacks):
        return None
    engine = readers[0]
    from engines.failures import find_knowing_version  # noqa: PLC0415 -- the gateway starts without it

    knowing_version = find_knowing_version(engine.name, lacks[0].rpartition(" ")[2])
    knows = f" {engine.name} {knowing_version} does." if knowing_version else ""
    sentence, variant = f"{engine.name} {engine.version} {lacks[0]}.{knows}", inputs.variants.get(engine.id)
    return SupportGap(engine, sentence, _update_hint(engine, variant), _short(engine, variant))


def _update_hint(engine: EngineInfo, variant: EngineVariant | None) -> str:
    anyway = "Or download it all the same: `roundhouse pull NAME --anyway`."
    if variant is None:
        return f"Update {engine.name} first. {anyway}"
    channel = " --channel latest" if variant.version == engine.version else ""
    return f"Update it first{_size(variant)}: `roundhouse engines update {engine.id}{channel}`. {anyway}"


def _short(engine: EngineInfo, variant: EngineVariant | None) -> str:
    return f"Needs a newer {engine.name}: update it{_size(variant)} first"


def _size(variant: EngineVariant | None) -> str:
    return f" ({variant.download_mb} MB)" if variant is not None and variant.download_mb else ""
