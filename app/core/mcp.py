"""Servers of the Model Context Protocol whose tools models may call: what a person set, what runs, and what is allowed.

A server's `mcpServers` entry has the form that Claude Desktop, LM Studio and Cursor share.
"""

import hashlib
import re
from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from app.core.errors import BadRequest

LONGEST_NAME = 64
MOST_SERVERS = 64
MOST_TOOLS = 256
"""Of one server; what it lists after them is left out."""
LONGEST_DESCRIPTION = 4000
LONGEST_RESULT = 100_000
"""Characters of a tool's result; the rest is left out, and the model is told."""
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME, pattern=r"^[A-Za-z0-9][A-Za-z0-9._ -]*$")]
_Text = Annotated[str, msgspec.Meta(max_length=4096)]
_Texts = Annotated[list[_Text], msgspec.Meta(max_length=256)]
_Variables = Annotated[dict[_Text, _Text], msgspec.Meta(max_length=256)]


class BuiltinServer(StrEnum):
    """Servers that come with Roundhouse.

    calculator  arithmetic and dates
    files       read the files of its folders, and search in them
    pictures    have an attached endpoint draw pictures; the gateway asks it, in chats
    python      run a program that the model writes; only where the system confines it
    web-search  search by the SearXNG at SEARXNG_URL, or by Brave with BRAVE_API_KEY, of its `env`
    """

    CALCULATOR = "calculator"
    FILES = "files"
    PICTURES = "pictures"
    PYTHON = "python"
    WEB_SEARCH = "web-search"


SEARXNG_URL, BRAVE_API_KEY = "SEARXNG_URL", "BRAVE_API_KEY"
"""Variables of the server that searches the web."""


class McpServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a server is started, or where it is. Exactly one of `command`, `url` and `builtin` is there."""

    builtin: BuiltinServer | None = None
    command: _Text = ""
    args: _Texts = []
    env: _Variables = {}
    url: _Text = ""
    headers: _Variables = {}
    folders: _Texts = []
    """Absolute paths it may read and change, beside those that its arguments name."""
    network: bool = False
    """Whether a program on this computer may connect to others: over HTTP and HTTPS, on their usual ports."""
    disabled: bool = False
    unconfirmed: bool = False
    """Whether a person has yet to confirm it in the window or the terminal: a program added it with a key."""

    @property
    def has_network(self) -> bool:
        """Whether a program on this computer may connect to others: it was let, or comes for that."""
        return self.network or self.builtin is BuiltinServer.WEB_SEARCH

    def check(self) -> None:
        """Return if it can be started. Raises BadRequest."""
        if [bool(self.command.strip()), bool(self.url.strip()), self.builtin is not None].count(True) != 1:
            raise BadRequest("An MCP server has a command or a URL, and not both.", code="invalid_value")
        self._check_builtin()
        if self.url and not self.url.startswith(("http://", "https://")):
            raise BadRequest("The URL of an MCP server begins with http:// or https://.", code="invalid_value")
        if any(not folder.startswith("/") and folder[1:2] != ":" for folder in self.folders):
            raise BadRequest("Folders are given as absolute paths.", code="invalid_value")

    def _check_builtin(self) -> None:
        if self.builtin is BuiltinServer.FILES and not self.folders:
            raise BadRequest("Choose the folders whose files may be read.", code="invalid_value")
        if self.builtin is BuiltinServer.WEB_SEARCH:
            url = self.env.get(SEARXNG_URL, "")
            if not url and not self.env.get(BRAVE_API_KEY):
                raise BadRequest(
                    f"Searching the web needs the address of a SearXNG ({SEARXNG_URL}), or a key of Brave's "
                    f"({BRAVE_API_KEY}).",
                    code="invalid_value",
                )
            if url and not url.startswith(("http://", "https://")):
                raise BadRequest("The address of a SearXNG begins with http:// or https://.", code="invalid_value")


class McpServerState(StrEnum):
    """What a server does.

    stopped    it is started when a chat first uses it
    starting   its tools are not known yet
    sign_in    it waits until a person has signed in at `sign_in_url`
    ready      its tools can be called
    failed     it did not start, or ended: `problem` says why; the next use tries again
    """

    STOPPED = "stopped"
    STARTING = "starting"
    SIGN_IN = "sign_in"
    READY = "ready"
    FAILED = "failed"


class McpPermission(StrEnum):
    """Whether a model may call a tool."""

    ASK = "ask"
    """A person is asked before each call."""
    ALLOW = "allow"
    BLOCK = "block"
    """It is not offered to models."""


class McpToolDescription(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says of one of its tools. `schema` is the JSON schema of its arguments."""

    name: str
    title: str = ""
    description: str = ""
    schema: dict[str, Any] = {}
    is_read_only: bool = False
    """What the server says; nobody checks it."""

    @property
    def fingerprint(self) -> str:
        """A hash of all that the model and the person are told of it: what was allowed was this."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()


class McpTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool, and whether models may call it."""

    server: str
    about: McpToolDescription
    permission: McpPermission = McpPermission.ASK
    has_changed: bool = False
    """Whether the server describes it otherwise than when it was allowed: that no longer counts."""


_LONGEST_FUNCTION = 64
"""Characters of a function's name, in every dialect."""
_UNUSABLE = re.compile(r"[^A-Za-z0-9_-]")


def function_name(server: str, tool: str) -> str:
    """Return what a tool is called in a request: both names, as far as every dialect takes them."""
    return _UNUSABLE.sub("_", f"{server}__{tool}")[:_LONGEST_FUNCTION]


def tools_by_function(tools: Iterable[McpTool], taken_names: Collection[str] = ()) -> dict[str, McpTool]:
    """Return the tools by what each is called in a request. One whose name is `taken`, or another's, gets a number."""
    tool_by_name: dict[str, McpTool] = {}
    for tool in tools:
        name, number = function_name(tool.server, tool.about.name), 1
        while name in tool_by_name or name in taken_names:
            number += 1
            suffix = f"_{number}"
            name = function_name(tool.server, tool.about.name)[: _LONGEST_FUNCTION - len(suffix)] + suffix
        tool_by_name[name] = tool
    return tool_by_name


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server as every program sees it: values of `env` and `headers` are kept, and never told."""

    name: str
    builtin: BuiltinServer | None = None
    command: str = ""
    args: list[str] = []
    url: str = ""
    env: list[str] = []
    """The names of its variables."""
    headers: list[str] = []
    folders: list[str] = []
    network: bool = False
    is_enabled: bool = True
    is_confirmed: bool = True
    is_confined: bool = False
    """Whether the system holds it to its folders and the network it was given."""
    state: McpServerState = McpServerState.STOPPED
    sign_in_url: str = ""
    """The server's own page, while it waits for a person to sign in there."""
    problem: str = ""
    lack: str = ""
    """What is missing on this computer for its tools to do anything."""
    tools: list[McpTool] = []
    """Known once it has been started."""


class NewMcpServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for a server to be added, or for another one in the place of that name."""

    name: Name
    settings: McpServerSettings


class McpServerPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Change what a server may; what is None stays."""

    is_enabled: bool | None = None
    is_confirmed: bool | None = None
    """True only: a person saw its command."""
    folders: _Texts | None = None
    network: bool | None = None


class McpServersImport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Add the servers of another program's file: its text as it is."""

    text: Annotated[str, msgspec.Meta(max_length=1_000_000)]


class McpImportResult(msgspec.Struct, frozen=True, kw_only=True):
    """What an import added, and what it left as it is: a server of that name is there, or it cannot be started."""

    added: list[str]
    skipped: list[str]


class SetMcpPermission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Allow a tool, block it, or ask from now on."""

    permission: McpPermission


class McpCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Call a tool, as a person who typed the arguments."""

    arguments: dict[str, Any] = {}


class McpResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool returned. Pictures and other parts that are no text are named in it."""

    text: str
    is_error: bool = False
    seconds: float = 0.0
    was_cut: bool = False


class HostOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What the program that talks to one server, or is one that comes with Roundhouse, is told first.

    `command` is empty for a built-in server, and for one at a URL.
    """

    builtin: BuiltinServer | None = None
    folders: list[str] = []
    """What a built-in server may read."""
    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    sign_in: str = ""
    """What was last sent as a `HostSignInState`."""


class HostCall(msgspec.Struct, frozen=True, kw_only=True, tag="call"):
    """Call a tool; the answer has the same `id`."""

    id: int
    tool: str
    arguments: dict[str, Any]


class HostCancel(msgspec.Struct, frozen=True, kw_only=True, tag="cancel"):
    """Call off a call; nothing more is said of it."""

    id: int


class HostTools(msgspec.Struct, frozen=True, kw_only=True, tag="tools"):
    """The server is ready, or lists other tools than before."""

    tools: list[McpToolDescription]
    server: str = ""
    """Its own name and version."""


class HostResult(msgspec.Struct, frozen=True, kw_only=True, tag="result"):
    """What came of a call."""

    id: int
    result: McpResult


class HostSignIn(msgspec.Struct, frozen=True, kw_only=True, tag="sign_in"):
    """A person has to sign in at this page of the server's."""

    url: str


class HostSignInState(msgspec.Struct, frozen=True, kw_only=True, tag="sign_in_state"):
    """What the server trusts us with, to be kept and handed over at the next start. It is secret."""

    state: str


class HostFailure(msgspec.Struct, frozen=True, kw_only=True, tag="failure"):
    """The server did not start, or broke the protocol; the program ends."""

    sentence: str


HostRequest = HostCall | HostCancel
HostReply = HostTools | HostResult | HostFailure | HostSignIn | HostSignInState
