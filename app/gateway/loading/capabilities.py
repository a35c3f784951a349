"""What a model can do here. Every listing and every refusal takes it from this place, so that all of them agree.

A model that lies here can do what its files say, with the projector that is loaded with it, as far as the engine that
runs it goes along. Of an attached one counts what is known of its endpoint.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from app.config.model_settings import ModelSettingsFile
from app.core.capabilities import Capability, add_implied, in_order
from app.core.errors import EngineFailed
from app.core.models import ModelInfo
from app.gateway.loading.launch import engine_for
from app.gateway.loading.model_tuning import loaded_projector
from app.gateway.services import Services
from app.hub.library.companions import projector_senses
from engines.api import Descriptor, Feature, ModelFormat, Route


async def with_capabilities(services: Services, models: Sequence[ModelInfo]) -> list[ModelInfo]:
    """Return the models, each with what it can do here."""
    return await asyncio.to_thread(_add_capabilities, services, models)


async def capabilities_of(services: Services, model: ModelInfo) -> list[Capability]:
    """Return what one model can do here."""
    return (await with_capabilities(services, [model]))[0].capabilities


def _add_capabilities(services: Services, models: Sequence[ModelInfo]) -> list[ModelInfo]:
    readers = _FormatReaders(services)
    return [
        model
        if model.attached or model.problem
        else msgspec.structs.replace(model, capabilities=_capabilities_here(services.model_settings, model, readers))
        for model in models
    ]


def _capabilities_here(tuning_file: ModelSettingsFile, model: ModelInfo, readers: "_FormatReaders") -> list[Capability]:
    present = {*model.capabilities} - {Capability.CHAT}
    if model.chats:  # also without a template of its own: engines have one for such a model
        present.add(Capability.CHAT)
    if model.embeds:
        present.add(Capability.EMBEDDING)
    projector = loaded_projector(tuning_file, model)
    if projector is not None:
        present |= projector_senses(projector)
    absent = readers.absent_capabilities(model)
    if Capability.AUDIO in present - absent:  # what hears can be told to write down what it hears
        present.add(Capability.TRANSCRIPTION)
    return in_order({*add_implied(present)} - absent)


class _FormatReaders:
    """The engines that run models, asked for once for a whole list."""

    def __init__(self, services: Services) -> None:
        self._services, self._engines = services, services.catalogue.list_engines()
        self._absent_by_key: dict[tuple[str, str | None], frozenset[Capability]] = {}

    def absent_capabilities(self, model: ModelInfo) -> frozenset[Capability]:
        """Return what the engine that runs a model cannot do; without one, what none that reads it could."""
        key = (model.format, self._services.model_settings.settings_of(model.runs_as).engine)
        if key not in self._absent_by_key:
            lacks = [_absent_in(descriptor) for descriptor in self._descriptors_of(model)]
            self._absent_by_key[key] = frozenset.intersection(*lacks) if lacks else frozenset()
        return self._absent_by_key[key]

    def _descriptors_of(self, model: ModelInfo) -> list[Descriptor]:
        own, adapters = self._services.model_settings.settings_of(model.runs_as), self._services.adapters
        try:
            return [adapters[engine_for(self._services, model, own, engines=self._engines).id].descriptor]
        except EngineFailed:
            kind = ModelFormat(model.format)
            return [adapter.descriptor for adapter in adapters.values() if kind in adapter.descriptor.formats]


def _absent_in(descriptor: Descriptor) -> frozenset[Capability]:
    has = {
        Capability.VISION: Feature.VISION in descriptor.features,
        Capability.AUDIO: "audio" in descriptor.modalities,
        Capability.INFILL: Route.INFILL in descriptor.routes,
        Capability.EMBEDDING: Route.EMBEDDINGS in descriptor.routes,
        Capability.RERANK: Route.RERANK in descriptor.routes,
        Capability.TRANSCRIPTION: Route.TRANSCRIPTIONS in descriptor.routes,
        Capability.SPEECH: Route.SPEECH in descriptor.routes,
        Capability.IMAGES: Route.IMAGES in descriptor.routes,
    }
    return frozenset(capability for capability, is_there in has.items() if not is_there)
