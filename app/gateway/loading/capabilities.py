"""What a model can do here. Every listing and every refusal takes it from this place, so that all of them agree.

A model that lies here can do what its files say, with the projector that is loaded with it, as far as the engine that
runs it goes along. Of an attached one counts what is known of its endpoint.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from app.config.model_settings import ModelSettingsFile
from app.core.capabilities import Capability, in_order, with_implied
from app.core.errors import EngineFailed
from app.core.models import ModelInfo
from app.gateway.loading.launch import engine_for
from app.gateway.loading.model_tuning import has_projector
from app.gateway.services import Services
from engines.api import Descriptor, Feature, ModelFormat, Route


async def with_capabilities(services: Services, models: Sequence[ModelInfo]) -> list[ModelInfo]:
    """Return the models, each with what it can do here."""
    return await asyncio.to_thread(_listed, services, models)


async def capabilities_of(services: Services, model: ModelInfo) -> list[Capability]:
    """Return what one model can do here."""
    return (await with_capabilities(services, [model]))[0].capabilities


def _listed(services: Services, models: Sequence[ModelInfo]) -> list[ModelInfo]:
    readers = _Readers(services)
    return [
        model
        if model.attached or model.problem
        else msgspec.structs.replace(model, capabilities=_here(services.tuning, model, readers))
        for model in models
    ]


def _here(tuning: ModelSettingsFile, model: ModelInfo, readers: "_Readers") -> list[Capability]:
    present = {*model.capabilities} - {Capability.CHAT}
    if model.chats:  # also without a template of its own: engines have one for such a model
        present.add(Capability.CHAT)
    if model.embeds:
        present.add(Capability.EMBEDDING)
    if has_projector(tuning, model):
        present.add(Capability.VISION)
    return in_order({*with_implied(present)} - readers.lacking(model))


class _Readers:
    """The engines that run models, asked for once for a whole list."""

    def __init__(self, services: Services) -> None:
        self._services, self._engines = services, services.catalogue.list()
        self._lacking: dict[tuple[str, str | None], frozenset[Capability]] = {}

    def lacking(self, model: ModelInfo) -> frozenset[Capability]:
        """Return what the engine that runs a model cannot do; without one, what none that reads it could."""
        key = (model.format, self._services.tuning.of(model.runs_as).engine)
        if key not in self._lacking:
            lacks = [_lacks(descriptor) for descriptor in self._of(model)]
            self._lacking[key] = frozenset.intersection(*lacks) if lacks else frozenset()
        return self._lacking[key]

    def _of(self, model: ModelInfo) -> list[Descriptor]:
        own, adapters = self._services.tuning.of(model.runs_as), self._services.adapters
        try:
            return [adapters[engine_for(self._services, model, own, engines=self._engines).id].descriptor]
        except EngineFailed:
            kind = ModelFormat(model.format)
            return [one.descriptor for one in adapters.values() if kind in one.descriptor.formats]


def _lacks(descriptor: Descriptor) -> frozenset[Capability]:
    has = {
        Capability.VISION: Feature.VISION in descriptor.features,
        Capability.AUDIO: "audio" in descriptor.modalities,
        Capability.INFILL: Route.INFILL in descriptor.routes,
        Capability.EMBEDDING: Route.EMBEDDINGS in descriptor.routes,
        Capability.RERANK: Route.RERANK in descriptor.routes,
    }
    return frozenset(capability for capability, is_there in has.items() if not is_there)
