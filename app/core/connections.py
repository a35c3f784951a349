"""Connections to other computers: what is kept of each, so that a person can see who was called, when and why.

Never an address beyond the host and its port, and nothing that was said: no paths, no searches, no keys.
"""

from enum import StrEnum

import msgspec


class ConnectionReason(StrEnum):
    """What a connection is for."""

    SEARCH = "search"
    MODEL = "model"
    DOWNLOAD = "download"
    MODEL_UPDATES = "model_updates"
    CATALOGUE = "catalogue"
    ENGINE = "engine"
    ATTACHED = "attached"
    APP_UPDATE = "app_update"


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


REASON_TEXTS: dict[ConnectionReason, str] = {
    ConnectionReason.SEARCH: "Search for models",
    ConnectionReason.MODEL: "Show a model",
    ConnectionReason.DOWNLOAD: "Download a model",
    ConnectionReason.MODEL_UPDATES: "Check for newer files of your models",
    ConnectionReason.CATALOGUE: "Download the list of recommended models",
    ConnectionReason.ENGINE: "Install or update an engine",
    ConnectionReason.ATTACHED: "Use an attached endpoint",
    ConnectionReason.APP_UPDATE: "Check for or download a newer Roundhouse",
}
"""Each purpose in words, the same in the window and on the command line."""
