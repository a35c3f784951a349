"""What can be asked of a model's answers: thinking or not and how much, and forms that they are held to."""

import re

from app.core.capabilities import Capability
from app.core.errors import EngineFailed
from app.core.model_facts import ModelFacts
from app.core.models import AnswerChoices, ModelInfo, ModelSettings
from app.gateway.canonical.families.family import family_of
from app.gateway.loading.launch import ATTACHED, engine_for
from app.gateway.services import Services
from engines.api import Descriptor, Feature

_EFFORT = re.compile(r"\breasoning_effort\b")


def answer_choices(services: Services, model: ModelInfo, own: ModelSettings, facts: ModelFacts | None) -> AnswerChoices:
    """Return what can be asked of answers; nothing where no engine runs the model."""
    from app.hub.facts.capabilities import template_capabilities  # noqa: PLC0415 -- start-up reads no models

    descriptor = _descriptor_of(services, model, own)
    if descriptor is None or not model.chats:
        return AnswerChoices()
    template = (model.preset.chat_template if model.preset else "") or own.chat_template or ""
    template = template or (facts.chat_template + facts.tool_template if facts else "")
    family = family_of(template, model.architecture)
    # Of a model that runs elsewhere nobody has the template: what its endpoint says counts.
    thinks = Capability.THINKING in (model.capabilities if model.attached else template_capabilities(template))
    return AnswerChoices(
        thinks=thinks,
        can_switch_thinking=thinks and (bool(model.attached) or family.can_switch),
        takes_effort=thinks and (bool(model.attached) or _EFFORT.search(template) is not None),
        takes_budget=thinks and Feature.THINKING_BUDGET in descriptor.features,
        takes_schema=Feature.JSON_SCHEMA in descriptor.features,
        takes_grammar=Feature.GRAMMAR in descriptor.features and (family.can_switch or not family.opens),
        engine_name=descriptor.name,
    )


def _descriptor_of(services: Services, model: ModelInfo, own: ModelSettings) -> Descriptor | None:
    if model.attached:
        return services.adapters[model.router or ATTACHED].descriptor
    try:
        return services.adapters[engine_for(services, model, own).id].descriptor
    except EngineFailed:
        return None
