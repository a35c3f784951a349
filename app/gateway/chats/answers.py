"""Answers in chats are the gateway's: a window may close or crash, the answer goes on and can be followed again.

One task conducts each answer: it starts the writing, saves the text once a second, and stores how it ended. Nobody but
that task ends the message; everybody else asks it to stop, or reads along.
"""

import asyncio
import dataclasses
import logging
from collections.abc import AsyncGenerator
from contextlib import suppress

from msgspec.structs import replace

from app.core.attachments import MOST_ATTACHMENTS, Attachment
from app.core.chats import (
    AnswerDelta,
    AnswerDone,
    AnswerEvent,
    Chat,
    Message,
    MessageStatus,
    NewTurn,
    Role,
    Turn,
)
from app.core.errors import BadRequest, Bug, Conflict, NotFound, RoundhouseError, StorageFault, Unavailable
from app.core.events import ChatChanged
from app.core.tokens import TextTokens
from app.core.tool_calls import ToolDecision
from app.gateway.attachments.prompt import check_senses
from app.gateway.background import Background
from app.gateway.chats.answer_form import check_answer_form
from app.gateway.chats.answer_writer import AnswerHelpers, AnswerJob, AnswerWriter
from app.gateway.chats.live_answer import LiveAnswer, call_event
from app.gateway.chats.model_requests import ModelRequests
from app.gateway.chats.text_tokens import count_text
from app.gateway.exchange.observer import Caller, ExchangeOutcome, Observation, Observers
from app.gateway.exchange.upstream import EngineAccess
from app.gateway.loading.launch import resolve_model
from app.gateway.loading.requested_model import ResolvedModel
from app.gateway.services import Services
from app.store.rows import new_id
from engines.api import Route

log = logging.getLogger(__name__)

SAVE_EVERY_S = 1.0
"""What a killed gateway may lose of an answer."""
SAVE_AGAIN_S = 5.0
"""How long until the next try to store how an answer ended, when the disk would not take it."""

_UNWRITTEN = Message(id="", chat="", parent=None, role=Role.ASSISTANT, content="", status=MessageStatus.GENERATING)
_OUTCOMES = {MessageStatus.COMPLETE: ExchangeOutcome.OK, MessageStatus.FAILED: ExchangeOutcome.ENGINE_FAILED}


class ChatAnswers:
    """Every answer being written. Belongs to the event loop's thread."""

    def __init__(self, services: Services, engines: EngineAccess, helpers: AnswerHelpers) -> None:
        self._services = services
        self._engines = engines
        self._observers = Observers((services.metrics, services.speed_measurements))
        self._requests = ModelRequests(services, engines, self._observers)
        self._writer = AnswerWriter(services, engines, self._requests, helpers)
        self._titles: set[asyncio.Task[None]] = set()
        self._live: dict[str, LiveAnswer] = {}
        self._background = Background()
        self._close_event = asyncio.Event()

    async def start(self, chat: str, turn: NewTurn) -> Turn:
        """Store a turn and have it answered, also if the caller goes away.

        Raises NotFound, BadRequest, Conflict, StorageFault, Unavailable, or EngineFailed if nothing can run the model.
        """
        self._give_way()
        about = await self._services.chats.read_chat(chat, with_messages=False)
        turn = await self._with_folder_files(about, turn)
        cut = await self._read_cut_answer(chat, turn)
        name = (
            turn.model
            or (cut.model if cut else "")
            or about.model
            or self._services.settings.get_text("models.default")
        )
        target = await resolve_model(self._services, name)
        if not target.model.chats:
            raise BadRequest(
                f"{target.model.title} does not write text.", hint="Choose another model.", code="model_cannot"
            )
        attachments = await self._attachments_of(chat, turn)
        await check_senses(self._services, target.model, attachments)
        await check_answer_form(self._services, target, about, continues=cut is not None)
        unwritten = replace(_UNWRITTEN, id=new_id(), chat=chat, model=target.model.name, engine=target.load.engine)
        if target.model.is_builtin and cut is None and not attachments:
            unwritten = replace(unwritten, engine="")  # looked up: no engine writes it
        if cut is not None:
            unwritten = replace(
                unwritten, content=cut.content, reasoning=cut.reasoning, calls=cut.calls, documents=cut.documents
            )
        # Shielded: a question that was stored must get its answer, even if the one who asked leaves right now.
        return await asyncio.shield(self._background.spawn(self._begin(turn, about, target, LiveAnswer(unwritten))))

    async def _read_cut_answer(self, chat: str, turn: NewTurn) -> Message | None:
        """Return the answer that a turn goes on with. Raises NotFound, BadRequest or Conflict."""
        if turn.continues is None:
            return None
        if turn.content is not None or turn.parent is not None or turn.attachments:
            raise BadRequest("`continues` stands alone: nothing is asked.", code="invalid_value")
        cut = await self._load_stored(chat, turn.continues)
        if cut.status is MessageStatus.GENERATING:
            raise Conflict(
                "That answer is still being written.", hint="Wait for it or stop it.", code="answer_in_progress"
            )
        if not cut.content.strip():
            raise BadRequest(
                "There is no text to go on with.", hint="Regenerate the answer instead.", code="nothing_to_continue"
            )
        return cut

    async def _with_folder_files(self, about: Chat, turn: NewTurn) -> NewTurn:
        """Return the turn with the files of the chat's folder, if it asks the chat's first question without them."""
        if turn.has_folder_files or turn.content is None or about.head is not None or not about.folder:
            return turn
        files = [file.id for file in (await self._services.chats.read_folder(about.folder)).files]
        if len(files) + len(turn.attachments) > MOST_ATTACHMENTS:
            raise BadRequest(f"A question takes {MOST_ATTACHMENTS} files at most, those of the folder among them.")
        return replace(turn, attachments=[*files, *turn.attachments])

    async def _attachments_of(self, chat: str, turn: NewTurn) -> list[Attachment]:
        """Return the files of the question that a turn asks, or asks again."""
        if turn.attachments:
            return await self._services.chats.read_attachments(turn.attachments)
        if turn.content is None and turn.parent is not None:
            return (await self._services.chats.read_message(chat, turn.parent)).attachments
        return []

    async def count_text(self, model: str, text: str) -> TextTokens:
        """Return how many tokens a text is. Raises NotFound, or EngineFailed if nothing can run the model."""
        return await count_text(self._services, self._engines, await resolve_model(self._services, model), text)

    async def follow(self, chat: str, message: str, offset: int = 0) -> AsyncGenerator[AnswerEvent, None]:
        """Return the answer's events from `offset` characters on, ending with the finished message. Raises NotFound."""
        live = self._find(chat, message)
        if live is not None:
            return live.follow(offset)
        stored_message = await self._load_stored(chat, message)
        live = self._find(chat, message)  # begun since we looked
        return live.follow(offset) if live is not None else _replay_finished(stored_message, offset)

    async def stop(self, chat: str, message: str) -> Message:
        """End an answer with what is written and return it; one that has ended stays as it is. Raises NotFound."""
        live = self._find(chat, message)
        if live is None:
            return await self._load_stored(chat, message)
        live.end_early(MessageStatus.STOPPED)
        return await live.wait_until_final()

    def decide_call(self, chat: str, message: str, call: str, decision: ToolDecision) -> Message:
        """Answer a call that waits for a person, and return the answer as it is. Raises NotFound or Conflict."""
        live = self._find(chat, message)
        if live is None:
            raise NotFound("That answer is not being written.", code="answer_not_live")
        live.decide_call(call, decision)
        return live.message

    async def stop_all(self, chat: str) -> None:
        """End every answer being written in a chat."""
        for live in [live for live in self._live.values() if live.chat == chat]:
            live.end_early(MessageStatus.STOPPED)
            await live.wait_until_final()

    def overlay_live(self, chat: Chat) -> Chat:
        """Return the chat with what is being written as it is this moment, not as it was last saved."""
        if not any(live.chat == chat.id for live in self._live.values()):
            return chat
        return replace(chat, messages=[self._as_now(message) for message in chat.messages])

    async def close(self) -> None:
        """End every answer as interrupted and store it."""
        self._close_event.set()
        self._give_way()
        for live in self._live.values():
            live.end_early(MessageStatus.INTERRUPTED)
        await self._background.join()

    async def _begin(self, turn: NewTurn, about: Chat, target: ResolvedModel, live: LiveAnswer) -> Turn:
        if self._close_event.is_set():  # asked here and not before: from here on `close` knows of this answer
            raise Unavailable("Roundhouse is shutting down.", hint="Try again once it has started.")
        message = live.message.id
        self._live[message] = live  # before the store has it: nobody may see one without the other
        try:
            stored_turn = await self._services.chats.begin_turn(about.id, turn, live.message)
        except BaseException:
            del self._live[message]
            raise
        job = AnswerJob(chat=about, question=stored_turn.answer.parent or "", model=target.model, load=target.load)
        if turn.continues is not None:
            job = dataclasses.replace(job, continues=turn.continues)
        observation = Observation(Caller(), self._observers)
        observation.note_model(Route.CHAT, target.model.name)
        write_task = asyncio.create_task(self._writer.write(job, live, observation))
        live.begin_writing(stored_turn.answer, write_task)
        self._background.spawn(self._conduct(live, write_task, observation, target))
        return stored_turn

    async def _conduct(
        self, live: LiveAnswer, write_task: "asyncio.Task[None]", observation: Observation, target: ResolvedModel
    ) -> None:
        """See one answer through to its end, whatever that is."""
        services = self._services
        services.events.publish(ChatChanged(chat=live.chat))
        final = await self._wait_until_written(live, write_task)
        observation.outcome = _OUTCOMES.get(final.status, ExchangeOutcome.CLIENT_GONE)
        observation.end()
        try:
            await self._store_final(live, final)
        finally:
            live.publish_final(final)  # only counts if storing broke: whoever reads along must not wait for ever
            del self._live[final.id]
            services.events.publish(ChatChanged(chat=live.chat))
        if final.status is MessageStatus.COMPLETE and services.settings.get("chats.titles"):
            self._begin_title(live.chat, final.id, target)

    def _begin_title(self, chat: str, answer: str, target: ResolvedModel) -> None:
        task = self._background.spawn(self._write_title(chat, answer, target))
        self._titles.add(task)
        task.add_done_callback(self._titles.discard)

    async def _write_title(self, chat: str, answer: str, target: ResolvedModel) -> None:
        """Have a chat named by its model, if nobody else did; it is tried again after the next answer."""
        chats = self._services.chats
        try:
            if self._live or not await chats.wants_title(chat):
                return
            title = await self._requests.write_title(target, await chats.read_path(chat, answer))
            if title and await chats.set_model_title(chat, title):
                self._services.events.publish(ChatChanged(chat=chat))
        except RoundhouseError as error:
            log.info("A chat got no title from its model: %s", error)

    def _give_way(self) -> None:
        """End the writing of titles: somebody asks."""
        for task in self._titles:
            task.cancel()

    async def _store_final(self, live: LiveAnswer, final: Message) -> None:
        """Store how an answer ended and tell its readers; when the disk is full, tell them that and try again."""
        try:
            live.publish_final(await self._services.chats.finish_answer(final))
        except StorageFault as fault:
            log.error(str(fault), extra={"code": fault.code})  # noqa: TRY400 -- the disk's doing; no traceback helps
            live.publish_final(replace(final, status=MessageStatus.FAILED, error=final.error or _error_text(fault)))
            await self._store_later(live.message)

    async def _wait_until_written(self, live: LiveAnswer, write_task: "asyncio.Task[None]") -> Message:
        """Wait until nothing more is written and return the message as it is to be stored."""
        try:
            await self._save_while(live, write_task)
            await write_task
        except asyncio.CancelledError:
            return live.final_message(live.ending or MessageStatus.INTERRUPTED)
        except RoundhouseError as error:
            if error.code == "context_too_long":
                live.finish_reason = error.code
            return live.final_message(MessageStatus.FAILED, error=_error_text(error))
        except Exception:
            log.exception("An answer could not be written")
            return live.final_message(
                MessageStatus.FAILED, error=_error_text(Bug("There was an error in Roundhouse.", hint="See the log."))
            )
        finally:
            write_task.cancel()
        return live.final_message(MessageStatus.COMPLETE)

    async def _save_while(self, live: LiveAnswer, write_task: "asyncio.Task[None]") -> None:
        """Save what is written once a second. Raises StorageFault when that fails: writing on would be for nothing."""
        saved_message = live.message
        while not (await asyncio.wait({write_task}, timeout=SAVE_EVERY_S))[0]:
            now = live.message
            if now != saved_message:
                await self._services.chats.save_answer(now)
                saved_message = now

    async def _store_later(self, final: Message) -> None:
        """Keep trying to store how an answer ended; the disk may have space again."""
        while not self._close_event.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._close_event.wait(), SAVE_AGAIN_S)
            with suppress(StorageFault):
                await self._services.chats.finish_answer(final)
                return

    def _find(self, chat: str, message: str) -> LiveAnswer | None:
        live = self._live.get(message)
        return live if live is not None and live.chat == chat else None

    async def _load_stored(self, chat: str, message: str) -> Message:
        stored_message = await self._services.chats.read_message(chat, message)
        if stored_message.role is not Role.ASSISTANT:
            raise NotFound("That message is a question, not an answer.", code="message_not_found")
        return stored_message

    def _as_now(self, message: Message) -> Message:
        live = self._live.get(message.id)
        return message if live is None else live.message


async def _replay_finished(message: Message, offset: int) -> AsyncGenerator[AnswerEvent, None]:
    """Yield a finished answer as `LiveAnswer.follow` would."""
    reasoning = "" if offset else message.reasoning
    for call in message.calls:
        yield call_event(call, message)
    if message.content[offset:] or reasoning:
        yield AnswerDelta(
            content=message.content[offset:], reasoning=reasoning, offset=min(offset, len(message.content))
        )
    yield AnswerDone(message=message)


def _error_text(error: RoundhouseError) -> str:
    return f"{error} {error.hint}".strip()
