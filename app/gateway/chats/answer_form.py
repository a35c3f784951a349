"""Whether a model can answer in the form that a chat asks for: told before a question is stored, not by its engine."""

from app.core.chats import Chat
from app.core.errors import BadRequest
from app.gateway.chats.chat_request import chat_request
from app.gateway.exchange.capability_fallback import family_for, running_descriptor
from app.gateway.exchange.engine.capability import check_needs
from app.gateway.loading.requested_model import ResolvedModel
from app.gateway.services import Services


async def check_answer_form(services: Services, target: ResolvedModel, chat: Chat, *, continues: bool = False) -> None:
    """Return if the engine can answer as the chat's sampling says, or continue an answer. Raises BadRequest."""
    chat.sampling.check_forms()
    descriptor = running_descriptor(services.adapters, services.supervisor, target.load)
    check_needs(chat_request(chat, (), continues=continues), descriptor.features, engine=descriptor.name)
    if not chat.sampling.grammar or continues:
        return
    family = await family_for(services.facts, services.model_settings, target.model)
    if family.opens and not family.can_switch:
        raise BadRequest(
            f"{target.model.title} always thinks before it answers, so a grammar would hold its thoughts.",
            hint="Use a JSON schema, or choose another model.",
            code="model_cannot",
        )
