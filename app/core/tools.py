"""Programs of other people that can use the endpoint: whether they are here, and what wiring them changes.

A tool is wired by an edit of one file of its own, or, where no file holds its settings, by steps a person takes.
"""

import msgspec


class ToolValue(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to copy into a tool's settings."""

    name: str
    value: str


class ToolInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A tool and how it stands. `file` is what wiring edits; empty where a person has to take steps."""

    id: str
    name: str
    found: bool
    """Whether it, or its settings, were seen on this computer."""
    wired: bool = False
    """Whether its file names this endpoint."""
    model: str = ""
    """The model it was wired to from here, while the file is as it was left."""
    file: str = ""
    can_undo: bool = False
    problem: str = ""
    """Why the file is left alone."""
    tried: str = ""
    """The version that was run against the endpoint with these settings; empty where they follow its documentation."""
    launch: str = ""
    """The command that starts it wired for one run; empty where there is none."""


class WireTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for a tool to be wired, or for what that would change. Without `model` a usual one is taken."""

    model: str = ""


class ToolChange(msgspec.Struct, frozen=True, kw_only=True):
    """What wiring or unwiring changes, or has changed. Keys of other services are masked in `diff`."""

    id: str
    name: str
    file: str = ""
    diff: str = ""
    """Unified; empty when nothing needs to change."""
    is_written: bool = False
    model: str = ""
    afterwards: str = ""
    """What to do so that the tool notices."""
    steps: list[str] = []
    """For a tool without a file to edit: what to do by hand, with `values` to copy."""
    values: list[ToolValue] = []


class ToolProbe(msgspec.Struct, frozen=True, kw_only=True):
    """What the endpoint answered when asked the way a tool asks. `status` is HTTP's; 0 when nothing answered."""

    id: str
    ok: bool
    route: str
    model: str
    status: int
    sentence: str
    seconds: float


class ToolLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """How a tool is started wired for one run.

    With `file`, a file of that name saying `text` is made in a new folder first. In arguments and variables, `{file}`,
    `{folder}` and `{text}` stand for it, for the folder and for what it says.
    """

    id: str
    name: str
    model: str
    program: str
    install: str
    """The command that installs it."""
    arguments: list[str] = []
    environment: dict[str, str] = {}
    needs_key: bool = False
    """Whether the endpoint asks for keys: `{key}` in variables and in the text stands for one made for this run."""
    file: str = ""
    text: str = ""

    def fill_in(self, text: str, *, file: str, folder: str) -> str:
        """Return an argument or the value of a variable with what stands for the file, the folder and the text."""
        return self.text if text == "{text}" else text.replace("{file}", file).replace("{folder}", folder)
