"""Why an answer failed, as a sentence with buttons: made from the stored message and the state of its engine. Pure."""

from app.core.chats import Message, MessageStatus, Role
from app.core.engines import EngineState, EngineStatus
from app.core.errors import ErrorBody
from app.core.translation import tr
from app.gui import phrases
from app.gui.screens.chat.turns import AnswerTrouble, TroubleRemedy

_LOG_LINES = 12


def trouble_of(message: Message, engine: EngineStatus | None) -> AnswerTrouble | None:
    """Return what went wrong with an answer; None when nothing did."""
    if message.status is MessageStatus.INTERRUPTED:
        return AnswerTrouble(
            sentence=tr("Roundhouse's service ended while this was being written."),
            hint=tr("What was written so far is kept."),
        )
    if message.status is MessageStatus.COMPLETE and message.role is Role.ASSISTANT and not message.content.strip():
        return _nothing_written(message)
    if message.status is not MessageStatus.FAILED:
        return None
    sentence, _, cause = message.error.strip().partition("\n")
    if message.finish_reason == "context_too_long":
        remedies = (TroubleRemedy.CUT_OLDEST, TroubleRemedy.SUMMARISE, TroubleRemedy.CHOOSE_MODEL)
        return AnswerTrouble(sentence=sentence, remedies=remedies)
    sentence = phrases.drop_commands(sentence)
    failure = engine.failure if engine is not None and engine.state is EngineState.FAILED else None
    if failure is None:
        return AnswerTrouble(
            sentence=sentence or tr("The answer could not be written."),
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


def _nothing_written(message: Message) -> AnswerTrouble:
    return AnswerTrouble(
        sentence=tr("The model thought, and wrote no answer.") if message.reasoning else tr("The model wrote nothing."),
        hint=tr("Its answer ended at Longest answer.") if message.finish_reason == "length" else "",
        remedies=(TroubleRemedy.TRY_AGAIN, TroubleRemedy.CHOOSE_MODEL),
    )


def trouble_from(error: ErrorBody) -> AnswerTrouble:
    """Return an error reply as trouble in the transcript."""
    return AnswerTrouble(sentence=error.sentence, hint=phrases.drop_commands(error.hint), cause=error.detail)
