"""What a screen reader gets of the window: AT-SPI, over its own bus.

Names, roles and places are what the rows look for, so a control that has no name cannot be used by them either. Only
what shows is walked: the tree of a page has about 200 nodes, and a walk takes a quarter of a second.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from jeepney import DBusAddress, HeaderFields, MatchRule, MessageType, message_bus, new_method_call
from jeepney.io.blocking import DBusConnection, Proxy, open_dbus_connection

_ACCESSIBLE = "org.a11y.atspi.Accessible"
_SHOWING, _CHECKED, _FOCUSED = 1 << 25, 1 << 4, 1 << 12
"""Of AT-SPI's states (`AtspiStateType`)."""
_ON_SCREEN = 0
_TIMEOUT_S = 30.0
_FOCUS_EVENT = "object:state-changed:focused"
_REGISTRY = DBusAddress(
    "/org/a11y/atspi/registry", bus_name="org.a11y.atspi.Registry", interface="org.a11y.atspi.Registry"
)


class Area(NamedTuple):
    """A place on the display, in pixels."""

    x: int
    y: int
    width: int
    height: int

    @property
    def middle(self) -> tuple[int, int]:
        """Where a click belongs."""
        return self.x + self.width // 2, self.y + self.height // 2


class Node(NamedTuple):
    """Something on the window, as it was when it was looked at."""

    program: str
    path: str
    role: str
    name: str
    states: int

    @property
    def is_checked(self) -> bool:
        """Whether a switch or a kept button is on."""
        return bool(self.states & _CHECKED)

    @property
    def has_focus(self) -> bool:
        """Whether the keyboard is here."""
        return bool(self.states & _FOCUSED)


class AccessibleTree:
    """A connection to the bus of accessibility."""

    def __init__(self, address: str) -> None:
        self._bus: DBusConnection = open_dbus_connection(address)
        rule = MatchRule(type="signal", interface="org.a11y.atspi.Event.Object", member="StateChanged")
        Proxy(message_bus, self._bus).AddMatch(rule)
        register = new_method_call(_REGISTRY, "RegisterEvent", "sass", (_FOCUS_EVENT, [], ""))
        self._bus.send_and_get_reply(register, timeout=_TIMEOUT_S)
        self._filter = self._bus.filter(rule, bufsize=None)
        self._events = self._filter.__enter__()

    def close(self) -> None:
        """Leave the bus."""
        self._filter.__exit__(None, None, None)
        self._bus.close()

    def forget_focus(self) -> None:
        """Begin anew with what is told about where the keyboard goes."""
        self.hear_focus(0.05)
        self._events.clear()

    def hear_focus(self, within_s: float) -> str:
        """Return the name of what the keyboard went to, in menus too, which no tree shows."""
        with suppress(TimeoutError):
            while True:
                event = self._bus.recv_until_filtered(self._events, timeout=within_s)
                detail, is_on = event.body[0], event.body[1]
                if detail == "focused" and is_on:
                    fields = event.header.fields
                    return self._node(fields[HeaderFields.sender], fields[HeaderFields.path]).name
        return ""

    def walk(self) -> Iterator[Node]:
        """Yield everything that shows, the outer before the inner."""
        root = self._node("org.a11y.atspi.Registry", "/org/a11y/atspi/accessible/root")
        for program in self._children(root):
            for window in self._children(program):
                yield from self._walk_node(window)

    def find(self, name: str, role: str = "") -> Node | None:
        """Return the first thing that shows and whose name matches a pattern as a whole."""
        pattern = re.compile(name, re.DOTALL)
        return next((node for node in self.walk() if role in {"", node.role} and pattern.fullmatch(node.name)), None)

    def area(self, node: Node) -> Area:
        """Return where a node is on the display."""
        return Area(*self._call(node, "org.a11y.atspi.Component", "GetExtents", "u", _ON_SCREEN))

    def text(self, node: Node) -> str:
        """Return the text in a field."""
        return str(self._call(node, "org.a11y.atspi.Text", "GetText", "ii", 0, -1))

    def description(self, node: Node) -> str:
        """Return what is told about a node beside its name."""
        return str(self._property(node, "Description"))

    def _walk_node(self, node: Node) -> Iterator[Node]:
        if not node.states & _SHOWING:
            return
        yield node
        for child in self._children(node):
            yield from self._walk_node(child)

    def _children(self, node: Node) -> list[Node]:
        try:
            return [self._node(program, path) for program, path in self._call(node, _ACCESSIBLE, "GetChildren")]
        except ProcessLookupError:  # gone since its parent was asked
            return []

    def _node(self, program: str, path: str) -> Node:
        node = Node(program, path, "", "", 0)
        try:
            states = self._call(node, _ACCESSIBLE, "GetState")[0]
            return Node(
                program, path, self._call(node, _ACCESSIBLE, "GetRoleName"), self._property(node, "Name"), states
            )
        except ProcessLookupError:
            return node

    def _property(self, node: Node, name: str) -> Any:  # noqa: ANN401 -- a value of D-Bus
        kind_and_value = self._call(node, "org.freedesktop.DBus.Properties", "Get", "ss", _ACCESSIBLE, name)
        return kind_and_value[1]

    def _call(self, node: Node, interface: str, method: str, signature: str = "", *arguments: object) -> Any:  # noqa: ANN401 -- as above
        address = DBusAddress(node.path, bus_name=node.program, interface=interface)
        call = new_method_call(address, method, signature or None, arguments)
        reply = self._bus.send_and_get_reply(call, timeout=_TIMEOUT_S)
        if reply.header.message_type is MessageType.error:
            raise ProcessLookupError(method, reply.body)
        return reply.body[0]
