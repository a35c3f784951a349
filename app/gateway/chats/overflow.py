"""A conversation that is longer than its model's context: stop and say so, leave out the oldest, or summarise it.

How long it is only the engine knows, so it is asked with everything first; what it refuses is made shorter as for
`truncation: auto` (`canonical.truncation`). A summary that an earlier answer was given is used again, and added to.
"""

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from app.core.chats import Chat, Message, OverflowRule
from app.gateway.canonical.request import ConversationMessage, ConversationRequest, MessageRole, Text
from app.gateway.chats.chat_request import turn_roles
from app.gateway.chats.model_requests import ModelRequests
from app.gateway.exchange.upstream import TrimOptions, UpstreamRequest
from app.gateway.loading.requested_model import ResolvedModel
from app.gateway.services import Services

_STANDS_FOR = "Summary of the conversation so far, of which the beginning is left out:\n"


class Omission(msgspec.Struct, frozen=True):
    """How many messages of the path, from the first on, an answer is made without, and what stands for them."""

    count: int = 0
    summary: str = ""


def overflow_rule(services: Services, chat: Chat) -> OverflowRule:
    """Return what a chat does when its model's context is full."""
    if chat.overflow is not OverflowRule.DEFAULT:
        return chat.overflow
    return OverflowRule(services.settings.get_text("chats.overflow"))


class OverflowTrimming(msgspec.Struct, frozen=True, kw_only=True):
    """Makes one conversation shorter, as often as the engine refuses it."""

    requests: ModelRequests
    target: ResolvedModel
    rule: OverflowRule
    path: Sequence[Message]
    note: Callable[[Omission], None]
    """Told what is left out."""
    report: Callable[[str], None]
    """Told what is being done, as a stage of the answer's progress."""
    prepare: Callable[[ConversationRequest], Awaitable[UpstreamRequest]]

    def options(self, work: ConversationRequest) -> TrimOptions | None:
        """Return how a request is made shorter; None where it is to fail."""
        if self.rule is OverflowRule.STOP:
            return None

        async def prepare_shorter(shorter: ConversationRequest) -> UpstreamRequest:
            return await self._prepare_shorter(work, shorter)

        return TrimOptions(work=work, prepare=prepare_shorter, dropped=lambda _count: None)

    async def _prepare_shorter(self, work: ConversationRequest, shorter: ConversationRequest) -> UpstreamRequest:
        count = messages_in_turns(self.path, len(work.messages) - len(shorter.messages))
        if self.rule is OverflowRule.SUMMARISE:
            omission = await self._summarise(count)
            shorter = with_summary(work, shorter, omission, self.path)
        else:
            omission = Omission(count)
        self.note(omission)
        return await self.prepare(shorter)

    async def _summarise(self, count: int) -> Omission:
        known_summary = find_summary(self.path)
        if known_summary.count >= count:
            return known_summary
        self.report("Summarising what does not fit")
        new = self.path[known_summary.count : count]
        return Omission(count, await self.requests.summarise(self.target, new, known_summary.summary))


def find_summary(path: Sequence[Message]) -> Omission:
    """Return what the last answer of a path was made without, if a summary stood for it."""
    last = next((message for message in reversed(path) if message.summary), None)
    return Omission() if last is None else Omission(last.left_out, last.summary)


def messages_in_turns(path: Sequence[Message], turns: int) -> int:
    """Return how many messages of a path its first turns are: those of one side in a row are one turn."""
    last, count = None, 0
    for at, message in enumerate(path):
        for role in turn_roles(message):
            if role is not last or role is MessageRole.TOOL:
                last, count = role, count + 1
        if count > turns:
            return at
    return len(path)


def with_summary(
    work: ConversationRequest, shorter: ConversationRequest, omission: Omission, path: Sequence[Message]
) -> ConversationRequest:
    """Return the request with what stands for its beginning said by the system."""
    if not omission.summary:
        return shorter
    systems = [message for message in shorter.messages if message.role is MessageRole.SYSTEM]
    turns = [message for message in work.messages if message.role is not MessageRole.SYSTEM]
    kept_from = next((at for at in range(len(turns) + 1) if messages_in_turns(path, at) >= omission.count), len(turns))
    summary = ConversationMessage(MessageRole.SYSTEM, (Text(_STANDS_FOR + omission.summary),))
    return msgspec.structs.replace(shorter, messages=(*systems, summary, *turns[kept_from:]))
