"""`mcp.json`: the servers a person set up, in the form that other programs share; what was allowed and signed in to.

Keys of other programs in an entry are kept as they are. The files hold secrets of servers: all are mode 0600.
"""

from pathlib import Path
from typing import Any

import msgspec

from app.config.private_files import save_private
from app.core.errors import BadRequest, StorageFault
from app.core.mcp import McpPermission, McpServerSettings

_Entry = dict[str, Any]
_OWN_NAMES = frozenset(McpServerSettings.__struct_fields__)


class _McpFile(msgspec.Struct):
    mcpServers: dict[str, _Entry] = {}  # noqa: N815 -- the name that programs share


class KeptPermission(msgspec.Struct, frozen=True):
    """What a person decided of a tool, and what it was described as then."""

    permission: McpPermission
    fingerprint: str


class KeptSignIn(msgspec.Struct, frozen=True):
    """What the server at an address trusts us with: opaque, and secret."""

    url: str
    state: str


class McpSettingsFile:
    """The servers by name. One owner: the gateway. A file with mistakes stops nothing: `problems` has them."""

    def __init__(self, file: Path, permissions: Path, sign_ins: Path) -> None:
        self._file, self._permissions_file, self._sign_ins_file = file, permissions, sign_ins
        self.problems: list[str] = []
        self._mistake = ""
        """Why the file of servers cannot be read."""
        self._entries = self._read_entries()
        self._permissions = self._read_permissions()
        self._sign_ins = self._read_sign_ins()

    def list_servers(self) -> dict[str, McpServerSettings]:
        """Return the servers whose entries can be used."""
        servers: dict[str, McpServerSettings] = {}
        for name, entry in self._entries.items():
            try:
                servers[name] = read_entry(entry)
            except BadRequest as error:
                self.problems.append(f"{name}: {error}")
        return servers

    def save_server(self, name: str, settings: McpServerSettings) -> None:
        """Keep a server. Raises StorageFault."""
        foreign = {key: value for key, value in self._entries.get(name, {}).items() if key not in _OWN_NAMES}
        self._write_entries({**self._entries, name: {**foreign, **msgspec.to_builtins(settings)}})

    def remove_server(self, name: str) -> None:
        """Forget a server and what was allowed of it. Raises StorageFault."""
        self._write_entries({key: entry for key, entry in self._entries.items() if key != name})
        if name in self._sign_ins:
            self._write_sign_ins({key: sign_in for key, sign_in in self._sign_ins.items() if key != name})
        if name in self._permissions:
            self._write_permissions({key: sign_in for key, sign_in in self._permissions.items() if key != name})

    def sign_in_of(self, server: str, url: str) -> str:
        """Return what a server trusts us with; nothing where it was given for another address."""
        sign_in = self._sign_ins.get(server)
        return sign_in.state if sign_in is not None and sign_in.url == url else ""

    def save_sign_in(self, server: str, sign_in: "KeptSignIn") -> None:
        """Keep what a server trusts us with. Raises StorageFault."""
        self._write_sign_ins({**self._sign_ins, server: sign_in})

    def permission_of(self, server: str, tool: str) -> KeptPermission | None:
        """Return what was decided of a tool."""
        return self._permissions.get(server, {}).get(tool)

    def save_permission(self, server: str, tool: str, permission: KeptPermission) -> None:
        """Keep what was decided of a tool. Raises StorageFault."""
        self._write_permissions({**self._permissions, server: {**self._permissions.get(server, {}), tool: permission}})

    def _read_entries(self) -> dict[str, _Entry]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=_McpFile).mcpServers
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError) as error:
            self._mistake = str(error)
            self.problems.append(f"{self._file.name} cannot be read and is ignored: {error}")
            return {}

    def check_readable(self) -> None:
        """Return if the file of servers was read, or is not there any more. Raises StorageFault."""
        if self._mistake and self._file.exists():
            raise StorageFault(
                f"{self._file.name} has a mistake, so no server of it is known: {self._mistake}.",
                hint=f"Correct or remove {self._file}, and start the service again.",
                code="mcp_file_unreadable",
            )

    def _read_permissions(self) -> dict[str, dict[str, KeptPermission]]:
        try:
            return msgspec.json.decode(self._permissions_file.read_bytes(), type=dict[str, dict[str, KeptPermission]])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError):  # then a person is asked again
            self.problems.append(f"{self._permissions_file.name} cannot be read: every tool asks again")
            return {}

    def _read_sign_ins(self) -> dict[str, "KeptSignIn"]:
        try:
            return msgspec.json.decode(self._sign_ins_file.read_bytes(), type=dict[str, KeptSignIn])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError):  # then a person signs in again
            self.problems.append(f"{self._sign_ins_file.name} cannot be read: servers ask to sign in again")
            return {}

    def _write_sign_ins(self, sign_ins: dict[str, "KeptSignIn"]) -> None:
        save_private(self._sign_ins_file, msgspec.json.encode(sign_ins), self._sign_ins_file.name)
        self._sign_ins = sign_ins

    def _write_entries(self, entries: dict[str, _Entry]) -> None:
        self.check_readable()
        content = msgspec.json.format(msgspec.json.encode(_McpFile(mcpServers=entries)), indent=2)
        save_private(self._file, content + b"\n", self._file.name)
        self._entries = entries

    def _write_permissions(self, permissions: dict[str, dict[str, KeptPermission]]) -> None:
        save_private(self._permissions_file, msgspec.json.encode(permissions), self._permissions_file.name)
        self._permissions = permissions


def read_servers(text: str) -> dict[str, McpServerSettings | str]:
    """Return the servers of another program's file, or for each that cannot be used why. Raises BadRequest."""
    try:
        entries = msgspec.json.decode(text, type=_McpFile).mcpServers
    except msgspec.MsgspecError as error:
        raise BadRequest(f"This is no file of MCP servers: {error}", code="invalid_value") from error
    if not entries:
        raise BadRequest("The file names no servers under mcpServers.", code="invalid_value")
    servers: dict[str, McpServerSettings | str] = {}
    for name, entry in entries.items():
        try:
            servers[name] = read_entry(entry)
        except BadRequest as error:
            servers[name] = str(error)
    return servers


def read_entry(entry: _Entry) -> McpServerSettings:
    """Return an entry as settings; keys that are not ours are ignored. Raises BadRequest."""
    try:
        settings = msgspec.convert({key: value for key, value in entry.items() if key in _OWN_NAMES}, McpServerSettings)
    except msgspec.ValidationError as error:
        raise BadRequest(f"This entry is not as expected: {error}", code="invalid_value") from error
    settings.check()
    return settings
