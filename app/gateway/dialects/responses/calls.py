"""Tool calls while they are written, told as what their tool is to the client.

    function    item added, arguments delta*, arguments done, item done
    custom      item added, input delta, input done, item done
    shell       item added, item done

The input of a custom call and the command of a shell call arrive wrapped in JSON, so they are told once they are whole.
"""

import msgspec

from app.gateway.canonical.events import ToolCallDelta
from app.gateway.dialects.responses.output_items import Place, Sink, delta_head
from app.gateway.dialects.responses.tools import INPUT, Kind, Known
from app.gateway.dialects.responses.wire import (
    UNSET,
    CustomCallItem,
    FunctionCallItem,
    ItemStatus,
    OutputItem,
    ShellAction,
    ShellCallItem,
)

_NO_ARGUMENTS = "{}"


class Call:
    """A tool call, told as what its tool is to the client."""

    def __init__(self, place: Place, known: Known, call_id: str) -> None:
        self.place = place
        self._known = known
        self._call_id = call_id
        self._pieces: list[str] = []
        self._head = delta_head("response.function_call_arguments.delta", place)

    @property
    def arguments(self) -> str:
        """The arguments so far."""
        return "".join(self._pieces)

    @property
    def is_whole(self) -> bool:
        """Tell whether the arguments are an object already, to which nothing can be added."""
        try:
            msgspec.json.decode(self.arguments, type=dict[str, msgspec.Raw])
        except (msgspec.DecodeError, RecursionError):
            return False
        return True

    def add(self, sink: Sink, delta: ToolCallDelta) -> bytes:
        """Return what adds a piece of the arguments."""
        if not delta.arguments:
            return b""
        self._pieces.append(delta.arguments)
        return sink.delta(self._head, delta.arguments) if self._known.kind is Kind.FUNCTION else b""

    def open(self, sink: Sink) -> bytes:
        """Return what announces it; a shell call is nothing without its command, so that waits."""
        if self._known.kind is Kind.LOCAL_SHELL:
            return b""
        return self._told(sink, "added", self._empty())

    def close(self, sink: Sink, status: ItemStatus) -> bytes:
        """Return what ends it."""
        item, missing = self.item(status), b""
        if isinstance(item, ShellCallItem):
            return self._told(sink, "added", msgspec.structs.replace(item, status="in_progress")) + self._told(
                sink, "done", item
            )
        if isinstance(item, CustomCallItem):
            return self._whole(sink, item)
        if self._known.kind is not Kind.FUNCTION:
            missing = self._told(sink, "added", self._empty()) + sink.delta(self._head, self.arguments or _NO_ARGUMENTS)
        elif not self._pieces:
            missing = sink.delta(self._head, _NO_ARGUMENTS)
        done = sink.event(
            "response.function_call_arguments.done",
            **msgspec.structs.asdict(self.place),
            arguments=self.arguments or _NO_ARGUMENTS,
        )
        return missing + done + self._told(sink, "done", item)

    def item(self, status: ItemStatus) -> OutputItem:
        """Return the item as far as it is written."""
        if self._known.kind is Kind.CUSTOM:
            return self._custom(status, _input(self.arguments))
        action = _action(self.arguments) if self._known.kind is Kind.LOCAL_SHELL else None
        if action is None:
            return self._function(status, self.arguments or _NO_ARGUMENTS)
        return ShellCallItem(id=self.place.item_id, call_id=self._call_id, action=action, status=status)

    def _whole(self, sink: Sink, item: CustomCallItem) -> bytes:
        kind, place = "response.custom_tool_call_input", msgspec.structs.asdict(self.place)
        delta = sink.event(f"{kind}.delta", **place, delta=item.input)
        return delta + sink.event(f"{kind}.done", **place, input=item.input) + self._told(sink, "done", item)

    def _told(self, sink: Sink, step: str, item: OutputItem) -> bytes:
        return sink.event(f"response.output_item.{step}", output_index=self.place.output_index, item=item)

    def _empty(self) -> OutputItem:
        if self._known.kind is Kind.CUSTOM:
            return self._custom("in_progress", "")
        return self._function("in_progress", "")

    def _function(self, status: ItemStatus, arguments: str) -> FunctionCallItem:
        return FunctionCallItem(
            id=self.place.item_id,
            call_id=self._call_id,
            name=self._known.name,
            arguments=arguments,
            status=status,
            namespace=self._known.namespace or UNSET,
        )

    def _custom(self, status: ItemStatus, given: str) -> CustomCallItem:
        return CustomCallItem(
            id=self.place.item_id,
            call_id=self._call_id,
            name=self._known.name,
            input=given,
            status=status,
            namespace=self._known.namespace or UNSET,
        )


def _input(arguments: str) -> str:
    """Return the text a custom tool is given; what the model wrote, if that is not what it was asked for."""
    try:
        given = msgspec.json.decode(arguments, type=dict[str, msgspec.Raw])
        return msgspec.json.decode(given[INPUT], type=str)
    except (msgspec.MsgspecError, RecursionError, KeyError):
        return arguments


def _action(arguments: str) -> ShellAction | None:
    try:
        return msgspec.json.decode(arguments, type=ShellAction)
    except (msgspec.MsgspecError, RecursionError):
        return None
