"""Tell reasoning from the answer in the window's chats too, where the engine hands on a model's raw text."""

import msgspec

from app.core.models import ModelInfo
from app.gateway.canonical.events import Event, Finish, Finished, ReasoningDelta, TextDelta
from app.gateway.canonical.families.answer import AnswerReader, Reading
from app.gateway.chats.stream import Piece
from app.gateway.exchange.capability_fallback import family_for
from app.gateway.services import Services
from engines.api import Descriptor, Feature


class Apart:
    """Takes an engine's pieces and returns them told apart; as they are, without a reading."""

    def __init__(self, reading: Reading | None) -> None:
        self._reader = None if reading is None else AnswerReader(reading)

    def __call__(self, piece: Piece) -> Piece:
        """Return what a piece says now; what may be part of a mark is said with a later one, or the last."""
        if self._reader is None or not (piece.content or piece.finish_reason):
            return piece
        events: list[Event] = [TextDelta(piece.content)]
        if piece.finish_reason:
            is_cut = piece.finish_reason == Finish.LENGTH
            events.append(Finished(reason=Finish.LENGTH if is_cut else Finish.STOP))
        told = self._reader.take(events)
        content = "".join(event.text for event in told if isinstance(event, TextDelta))
        reasoning = "".join(event.text for event in told if isinstance(event, ReasoningDelta))
        return msgspec.structs.replace(piece, content=content, reasoning=piece.reasoning + reasoning)


async def apart(services: Services, model: ModelInfo, descriptor: Descriptor) -> Apart:
    """Return what tells one answer's pieces apart, if the engine does not."""
    if Feature.REASONING in descriptor.features:
        return Apart(None)
    family = await family_for(services, model)
    return Apart(Reading(family=family, is_open=family.opens))
