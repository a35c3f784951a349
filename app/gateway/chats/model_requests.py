"""What Roundhouse asks a chat's model for its own purposes: a title, and a summary of what no longer fits.

Such an answer is short, is made without thinking, and is no message of the chat.
"""

import logging
import re
from collections.abc import Sequence

from app.core.chats import Message, Role
from app.core.errors import RoundhouseError
from app.core.thinking import ThinkingLevel
from app.gateway.canonical import request as canonical
from app.gateway.canonical.events import AnswerFailed, ContextOverflow, TextDelta
from app.gateway.exchange.capability_fallback import with_plan
from app.gateway.exchange.observer import Caller, ExchangeOutcome, Observation, Observers
from app.gateway.exchange.translating import translate_whole
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest
from app.gateway.loading.requested_model import ResolvedModel
from app.gateway.services import Services
from app.store.rows import MAX_TITLE, title_from
from engines.api import Route

log = logging.getLogger(__name__)

_TITLE_TOKENS = 32
_TITLE_LETTERS = 2000
"""Of question and answer each: their beginnings say what they are about."""
SUMMARY_TOKENS = 300
_LETTERS_PER_TOKEN = 2
"""Fewer than any language written in an alphabet has, so that a part fits."""
_MOST_PARTS = 12
"""Of a conversation that is summarised: each is one more answer to wait for. What is before them is left out."""
_UNKNOWN_CONTEXT = 4096
_QUOTES = "\"'`“”„«»*#. "
_THOUGHTS = re.compile(r"<think>[^<]*</think>|</?think>")

_TITLE = (
    "Write a title for this conversation: at most six words, in its language, without quotation marks. "
    "Answer with the title only."
)
_SUMMARY = (
    "Summarise this part of a conversation in at most 150 words, in its language. Keep names, numbers, decisions and "
    "open questions. Answer with the summary only."
)


class ModelRequests:
    """Asks models on behalf of chats."""

    def __init__(self, services: Services, engines: EngineAccess, observers: Observers) -> None:
        self._services, self._engines, self._observers = services, engines, observers

    async def write_title(self, target: ResolvedModel, path: Sequence[Message]) -> str:
        """Return a title for a conversation; nothing where the model wrote none. Raises RoundhouseError."""
        text = "\n\n".join(_quote_message(message, _TITLE_LETTERS) for message in path[:2])
        return clean_title(await self._ask_model(target, f"{text}\n\n{_TITLE}", _TITLE_TOKENS))

    async def summarise(self, target: ResolvedModel, messages: Sequence[Message], before: str) -> str:
        """Return a summary of these messages, and of what `before` sums up; nothing if the model writes none."""
        summary = before
        for part in _split_text("\n\n".join(map(_quote_message, messages)), self.context_of(target)):
            known_text = f"Summary of what was before:\n{summary}\n\n" if summary else ""
            try:
                summary = await self._ask_model(target, f"{known_text}{part}\n\n{_SUMMARY}", SUMMARY_TOKENS) or summary
            except ContextOverflow:
                log.info("A part of a conversation could not be summarised: it is too long")
            except RoundhouseError as error:
                log.warning("A conversation could not be summarised: %s", error)
                return ""
        return summary

    def context_of(self, target: ResolvedModel) -> int:
        """Return how much a model keeps, in tokens; where it is not loaded what it would, if that is known."""
        statuses = self._services.supervisor.list_statuses()
        known_contexts = [status.context for status in statuses if status.model == target.load.source.name]
        return next(filter(None, known_contexts), None) or target.load.options.context or _UNKNOWN_CONTEXT

    async def _ask_model(self, target: ResolvedModel, question: str, most_tokens: int) -> str:
        request = canonical.ConversationRequest(
            messages=(canonical.ConversationMessage(canonical.MessageRole.USER, (canonical.Text(question),)),),
            thinking=ThinkingLevel.OFF,
            limits=canonical.GenerationLimits(max_tokens=most_tokens),
        )
        blank = UpstreamRequest(
            load=target.load,
            path=self._services.adapters[target.load.engine].descriptor.routes[Route.CHAT],
            body=b"",
            model=target.model.name,
        )
        observation = Observation(Caller(), self._observers)
        observation.note_model(Route.CHAT, target.model.name)
        try:
            upstream = await with_plan(self._services, blank, target, request)
            events = await translate_whole(self._engines, upstream, observation)
            observation.outcome = ExchangeOutcome.OK
        finally:
            observation.end()
        if isinstance(events[-1], AnswerFailed):
            return ""
        text = "".join(event.text for event in events if isinstance(event, TextDelta))
        return _THOUGHTS.sub("", text).strip()


def clean_title(text: str) -> str:
    """Return what a model wrote as a title: its first line, without marks around it; nothing for what is none."""
    line = next((line.strip(_QUOTES) for line in text.splitlines() if line.strip(_QUOTES)), "")
    line = line.removeprefix("Title:").strip(_QUOTES)
    return title_from(line) if 1 < len(line) <= 2 * MAX_TITLE else ""


def _quote_message(message: Message, most: int | None = None) -> str:
    return f"{'User' if message.role is Role.USER else 'Assistant'}: {message.content[:most]}"


def _split_text(text: str, context: int) -> list[str]:
    """Return a text in parts that fit into the context, the last ones of a very long one."""
    size = max(1, context - 2 * SUMMARY_TOKENS) * _LETTERS_PER_TOKEN
    parts = [text[at : at + size] for at in range(0, len(text), size)]
    return parts[-_MOST_PARTS:]
