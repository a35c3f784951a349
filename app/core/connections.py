"""Connections to other computers: what is kept of each, so that a person can see who was called, when and why.

Never an address beyond the host and its port, and nothing that was said: no paths, no searches, no keys.

Addresses that are never called for a person: they answer any program on a rented machine with its secrets.

Link-local ones and those at which the clouds keep machines' credentials, in every form they can be written in. This
computer and the local network are allowed: that is where attached endpoints are.
"""

import ipaddress
from enum import StrEnum

import msgspec

from app.core.translation import LazyText


class ConnectionReason(StrEnum):
    """What a connection is for."""

    SEARCH = "search"
    MODEL = "model"
    DOWNLOAD = "download"
    MODEL_UPDATES = "model_updates"
    CATALOGUE = "catalogue"
    ENGINE = "engine"
    ATTACHED = "attached"
    MACHINES = "machines"
    APP_UPDATE = "app_update"
    TOOLS = "tools"
    TRACES = "traces"


class Program(StrEnum):
    """Which program of ours makes it."""

    GATEWAY = "gateway"
    DOWNLOADER = "downloader"
    INSTALLER = "installer"
    """uv and what it starts, through a relay of the gateway."""


class Purpose(msgspec.Struct, frozen=True, kw_only=True):
    """Why a connection is made: `about` names the model, repository or engine it is made for, if there is one."""

    why: ConnectionReason
    about: str = ""
    by: Program = Program.GATEWAY


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """Connections of one purpose to one host that followed each other closely, or what offline kept back of them."""

    id: str = ""
    host: str
    port: int
    why: ConnectionReason
    about: str = ""
    by: Program = Program.GATEWAY
    refused: bool = False
    """Kept back because `network.offline` is on: nothing was sent, and the name was not looked up."""
    count: int = 0
    """How many there were: a download makes one for each part it asks for."""
    failed: int = 0
    """How many of them were not answered."""
    received_bytes: int = 0
    """What came, where it is counted: of attached endpoints it is not."""
    first_at: float
    last_at: float
    """When the first and the last was begun, in Unix seconds."""

    @property
    def key(self) -> "tuple[str, int, ConnectionReason, str, Program, bool]":
        """What has to be the same for two to be shown as one."""
        return self.host, self.port, self.why, self.about, self.by, self.refused


class ConnectionList(msgspec.Struct, frozen=True, kw_only=True):
    """The connections kept, newest first, and whether new ones are made."""

    offline: bool
    connections: list[Connection]


def merge_connections(earlier: Connection, later: Connection) -> Connection:
    """Return two of one key as one, under the id of the earlier."""
    return msgspec.structs.replace(
        earlier,
        count=earlier.count + later.count,
        failed=earlier.failed + later.failed,
        received_bytes=earlier.received_bytes + later.received_bytes,
        first_at=min(earlier.first_at, later.first_at),
        last_at=max(earlier.last_at, later.last_at),
    )


REASON_TEXTS: dict[ConnectionReason, LazyText] = {
    ConnectionReason.SEARCH: LazyText("Search for models"),
    ConnectionReason.MODEL: LazyText("Show a model"),
    ConnectionReason.DOWNLOAD: LazyText("Download a model"),
    ConnectionReason.MODEL_UPDATES: LazyText("Check for newer files of your models"),
    ConnectionReason.CATALOGUE: LazyText("Download the list of recommended models"),
    ConnectionReason.ENGINE: LazyText("Install or update an engine"),
    ConnectionReason.ATTACHED: LazyText("Use an attached endpoint"),
    ConnectionReason.MACHINES: LazyText("Use another machine of yours"),
    ConnectionReason.APP_UPDATE: LazyText("Check for or download a newer Roundhouse"),
    ConnectionReason.TOOLS: LazyText("Use the tools of an MCP server"),
    ConnectionReason.TRACES: LazyText("Send traces of requests"),
}
"""Each purpose in words, the same in the window and on the command line."""


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_METADATA = tuple(
    map(
        ipaddress.ip_network,
        (
            "169.254.0.0/16",  # link-local; AWS, Azure, Google, DigitalOcean, ECS
            "fe80::/10",
            "fd00:ec2::/32",  # AWS
            "fd20:ce::/32",  # Google
            "100.100.100.200/32",  # Alibaba
            "168.63.129.16/32",  # Azure's host
            "192.0.0.192/32",  # Oracle
        ),
    )
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_V4_BITS = 0xFFFFFFFF


def is_forbidden(address: str) -> bool:
    """Tell whether an address in figures must not be called. False for a name: look it up first."""
    try:
        target = _unwrap_address(ipaddress.ip_address(address.partition("%")[0]))
    except ValueError:
        return False
    if target.is_multicast or target.is_unspecified:
        return True
    return any(target in network for network in _METADATA if network.version == target.version)


def _unwrap_address(address: _Address) -> _Address:
    """Return the IPv4 address that an IPv6 one stands for, if it does."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & _V4_BITS)
    return address.ipv4_mapped or address.sixtofour or address
