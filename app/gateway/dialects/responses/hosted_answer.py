"""A response whose tools are run here: the model writes, its calls are made or wait for an approval, and it goes on.

What the model is told in a further round is what the response says: its items are read as those of a conversation are.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import TypeVar

import msgspec

from app.core.errors import BadRequest, Forbidden, NotFound, RoundhouseError
from app.core.mcp import McpResult, McpTool
from app.gateway.canonical.events import AnswerFailed, AnswerFinished, Event, FinishReason, TokenUsage
from app.gateway.canonical.request import ToolCall
from app.gateway.dialects.raw_fields import ABSENT
from app.gateway.dialects.responses.hosted_items import (
    FileSearchWriter,
    McpApprovalWriter,
    McpCallWriter,
    McpListWriter,
    McpWish,
    describe_tools,
)
from app.gateway.dialects.responses.hosted_specs import is_approval_of, new_approval_id
from app.gateway.dialects.responses.hosted_tools import SearchArguments, ToolRuns
from app.gateway.dialects.responses.input_items import ResponseItem, calls_to_make, search_results, tool_lists
from app.gateway.dialects.responses.jobs import ResponseJob, make_offer, read_work, trim_options, upstream_for
from app.gateway.dialects.responses.output_items import ItemPosition, OutputItemWriter
from app.gateway.dialects.responses.stream import ResponseOutput
from app.gateway.dialects.responses.tools import ClientToolKind, ToolOffer
from app.gateway.exchange.connections import ReadFlow
from app.gateway.exchange.event_receivers import End, RoundsReceiver
from app.gateway.exchange.observer import ExchangeOutcome, Observation
from app.gateway.exchange.tool_rounds import answer_in_rounds
from app.gateway.exchange.translating import translate_answer
from app.gateway.exchange.upstream import EngineAccess
from app.gateway.services import Services

log = logging.getLogger(__name__)
W = TypeVar("W", bound=OutputItemWriter)

_CUTS = frozenset({FinishReason.LENGTH, FinishReason.CONTENT_FILTER})


class ResponseItemReceiver:
    """Takes the events of an answer that is sent whole: they become the response's items, and no bytes."""

    def __init__(self, job: ResponseJob) -> None:
        self._job = job

    async def open(self) -> None:
        """Begin."""

    def take_events(self, events: Sequence[Event]) -> ReadFlow:
        """Take what a piece of the answer says."""
        self._job.feed(events)
        return ReadFlow.MORE

    async def drain(self) -> None:
        """Go on."""

    def write_between(self, data: bytes) -> ReadFlow:
        """Pass over what a stream would say."""
        del data
        return ReadFlow.MORE

    def keep_alive(self) -> AbstractAsyncContextManager[None]:
        """Wait: nobody is told."""
        return nullcontext()


class ResponseRounds:
    """One response. Belongs to the event loop."""

    def __init__(self, services: Services, job: ResponseJob, tools: ToolRuns) -> None:
        self._services, self._job, self._tools = services, job, tools
        self._offer = job.response_input.offer
        self._rounds = self._calls = 0
        self._later_choice = ABSENT
        """The tool choice of every round but the first."""
        self._end: End = AnswerFinished(usage=TokenUsage(prompt=0, completion=0))

    async def write_response(self, engines: EngineAccess, observation: Observation, receiver: RoundsReceiver) -> End:
        """Write the response through `receiver` up to its end, which is returned. Raises as `translate_answer` does."""
        job = self._job
        self._output.passages += search_results([*job.response_input.earlier, *job.response_input.new_items])
        await self._list_tools(receiver)
        if await self._make_approved_calls(receiver):
            await receiver.open()
            observation.outcome = ExchangeOutcome.OK
            return self._end
        write_round = partial(self._write_round, engines, observation, receiver)
        await answer_in_rounds(write_round, partial(self._answer_calls, receiver))
        return self._end

    @property
    def _output(self) -> ResponseOutput:
        return self._job.encoder.output

    @property
    def _may_call(self) -> bool:
        most = self._job.request.max_tool_calls
        return most is None or self._calls < most

    async def _list_tools(self, receiver: RoundsReceiver) -> None:
        """List the tools of each server, and tell of those that the conversation does not know, or otherwise."""
        earlier_lists = tool_lists([*self._job.response_input.earlier, *self._job.response_input.new_items])
        for label in self._tools.server_labels:
            async with receiver.keep_alive():
                await self._list_server(receiver, label, earlier_lists.get(label))

    async def _list_server(self, receiver: RoundsReceiver, label: str, earlier_list: object) -> None:
        list_writer: McpListWriter | None = None
        if earlier_list is None:
            list_writer = self._begin_item(receiver, "mcpl", partial(McpListWriter, server_label=label))
        tools: list[McpTool] = []
        error: str | None = None
        try:
            tools = await self._tools.list_server(label)
        except RoundhouseError as failure:
            error = failure.body.text
        if list_writer is None and (error is not None or msgspec.to_builtins(describe_tools(tools)) != earlier_list):
            list_writer = self._begin_item(receiver, "mcpl", partial(McpListWriter, server_label=label))
        if list_writer is not None:
            list_writer.tools, list_writer.error = tools, error
            self._end_item(receiver, list_writer)

    async def _make_approved_calls(self, receiver: RoundsReceiver) -> bool:
        """Make the calls that this request approves. Tell whether one of them has to be approved again."""
        has_to_wait = False
        for call in calls_to_make(self._job.response_input.earlier, self._job.response_input.new_items):
            wish = McpWish(
                server_label=call.server_label, name=call.name, arguments=call.arguments, approval_request_id=call.id
            )
            has_to_wait |= await self._answer_mcp_call(receiver, wish)
        return has_to_wait

    async def _write_round(
        self, engines: EngineAccess, observation: Observation, receiver: RoundsReceiver
    ) -> Sequence[ToolCall]:
        """Have the model write, and return the calls that are to be made here."""
        self._rounds += 1
        if self._rounds == 1:
            return await self._translate_round(engines, observation, receiver)
        with observation.observe_round(self._rounds) as further:
            return await self._translate_round(engines, further, receiver)

    async def _translate_round(
        self, engines: EngineAccess, observation: Observation, receiver: RoundsReceiver
    ) -> Sequence[ToolCall]:
        job, request = self._job, self._job.request
        self._offer = self._output.offer = self._make_offer()
        work = read_work(request, [*job.response_input.items, *self._items_so_far()], job.response_input, self._offer)
        upstream = await upstream_for(self._services, request, job.target, work)
        trimming_options = trim_options(self._services, job, upstream, work) if request.trims else None
        end = await translate_answer(engines, upstream, observation, receiver, trimming_options)
        observation.leave_engine()
        self._end = _add_usage(self._end, end)
        if isinstance(end, AnswerFailed) or end.reason in _CUTS:
            return ()
        return self._output.take_hosted_calls()

    def _make_offer(self) -> ToolOffer:
        """Return what the model is offered. A call that the request requires is that of the first round."""
        request, entries = self._job.request, self._tools.offer_entries() if self._may_call else []
        if self._rounds == 1:
            offer = make_offer(request, request.tool_choice, entries)
            self._later_choice = ABSENT if offer.choice.is_required else request.tool_choice
            return offer
        return make_offer(request, self._later_choice, entries)

    def _items_so_far(self) -> list[ResponseItem]:
        items = self._output.list_whole_items("completed")
        return [ResponseItem(item.type, msgspec.Raw(msgspec.json.encode(item)), item.id) for item in items]

    async def _answer_calls(self, receiver: RoundsReceiver, calls: Sequence[ToolCall]) -> bool:
        """Make the calls of a round. Tell whether the model is to go on: not before the client did its part."""
        waits_for_client = self._output.has_client_calls
        receiver.write_between(self._output.end_round())
        for call in calls:
            if not self._may_call:
                break
            tool = self._offer.find_tool(call.name)
            if tool.kind is ClientToolKind.FILE_SEARCH:
                await self._search_files(receiver, call.arguments)
            else:
                wish = McpWish(server_label=tool.namespace, name=tool.name, arguments=call.arguments or "{}")
                waits_for_client |= await self._answer_mcp_call(receiver, wish)
        return not waits_for_client

    async def _answer_mcp_call(self, receiver: RoundsReceiver, wish: McpWish) -> bool:
        """Make a call, or ask for its approval. Tell whether it waits for that."""
        try:
            call = self._tools.read_call(wish.server_label, wish.name, wish.arguments)
        except (BadRequest, Forbidden, NotFound) as error:
            writer = self._begin_call(receiver, wish)
            writer.result = McpResult(text=error.body.text, is_error=True)
            self._end_item(receiver, writer)
            return False
        approval, fingerprint = wish.approval_request_id, call.tool.about.fingerprint
        is_approved = approval is not None and is_approval_of(approval, wish.approval_content, fingerprint)
        if not is_approved and (approval is not None or self._tools.needs_approval(call.tool)):
            name = new_approval_id(wish.approval_content, fingerprint)
            place = msgspec.structs.replace(self._output.next_position("mcpr"), item_id=name)
            self._end_item(receiver, self._open_item(receiver, McpApprovalWriter(place, wish)))
            return True
        writer = self._begin_call(receiver, wish)
        async with receiver.keep_alive():
            writer.result = await self._tools.make_call(call)
        self._end_item(receiver, writer)
        return False

    async def _search_files(self, receiver: RoundsReceiver, arguments: str) -> None:
        self._calls += 1
        try:
            queries = msgspec.json.decode(arguments, type=SearchArguments).queries
        except (msgspec.MsgspecError, RecursionError):
            queries = []
        make = partial(FileSearchWriter, queries=queries, tells_results=self._job.request.wants_search_results)
        writer = self._begin_item(receiver, "fs", make)
        try:
            async with receiver.keep_alive():
                writer.results = await self._tools.search_stores(queries) if any(map(str.strip, queries)) else []
        except RoundhouseError as error:
            log.warning("A file search failed: %s", error, extra={"code": error.code})
            writer.has_failed, writer.results = True, []
        self._output.passages += writer.results or []
        self._end_item(receiver, writer)

    def _begin_call(self, receiver: RoundsReceiver, wish: McpWish) -> McpCallWriter:
        self._calls += 1
        return self._begin_item(receiver, "mcp", partial(McpCallWriter, wish=wish))

    def _begin_item(self, receiver: RoundsReceiver, prefix: str, make: Callable[[ItemPosition], W]) -> W:
        return self._open_item(receiver, make(self._output.next_position(prefix)))

    def _open_item(self, receiver: RoundsReceiver, writer: W) -> W:
        receiver.write_between(self._job.begin() + self._output.begin_item(writer))
        return writer

    def _end_item(self, receiver: RoundsReceiver, writer: OutputItemWriter) -> None:
        receiver.write_between(self._output.end_item(writer))


def _add_usage(before: End, end: End) -> End:
    """Return an end that counts the tokens of all rounds."""
    if isinstance(end, AnswerFailed) or isinstance(before, AnswerFailed):
        return end
    return msgspec.structs.replace(
        end,
        usage=TokenUsage(
            prompt=_sum(before.usage.prompt, end.usage.prompt),
            cached=_sum(before.usage.cached, end.usage.cached),
            completion=_sum(before.usage.completion, end.usage.completion),
            reasoning=_sum(before.usage.reasoning, end.usage.reasoning),
        ),
    )


def _sum(before: int | None, count: int | None) -> int | None:
    """Return both together; unknown if this one is."""
    return None if count is None else (before or 0) + count
