"""Why an answer failed, as a sentence with buttons: made from the stored message and the state of its engine. Pure."""

from app.core.chats import Message, MessageStatus
from app.core.engines import EngineState, EngineStatus
from app.core.errors import ErrorBody
from app.gui import phrases
from app.gui.screens.chat.turns import AnswerTrouble, TroubleRemedy

_UNKNOWN = "The answer could not be written."
_LOG_LINES = 12


def trouble_of(message: Message, engine: EngineStatus | None) -> AnswerTrouble | None:
    """Return what went wrong with an answer; None when nothing did."""
    if message.status is MessageStatus.INTERRUPTED:
        return AnswerTrouble(
            sentence="Roundhouse's service ended while this was written.", hint="What was written so far is kept."
        )
    if message.status is not MessageStatus.FAILED:
        return None
    sentence, _, cause = message.error.strip().partition("\n")
    failure = engine.failure if engine is not None and engine.state is EngineState.FAILED else None
    if failure is None:
        return AnswerTrouble(
            sentence=sentence or _UNKNOWN,
            cause=cause.strip(),
            remedies=(TroubleRemedy.TRY_AGAIN, TroubleRemedy.CHOOSE_MODEL),
        )
    log = "\n".join(failure.log_tail[-_LOG_LINES:])
    return AnswerTrouble(
        sentence=sentence or failure.sentence,
        hint="" if failure.hint and failure.hint in sentence else failure.hint,
        cause=cause.strip() or log,
        remedies=(TroubleRemedy.LOAD_AGAIN, TroubleRemedy.CHOOSE_MODEL),
        offers=tuple(phrases.quick_remedies(failure)),
    )


def trouble_from(error: ErrorBody) -> AnswerTrouble:
    """Return an error reply as trouble in the transcript."""
    return AnswerTrouble(sentence=error.sentence, hint=error.hint, cause=error.detail)
