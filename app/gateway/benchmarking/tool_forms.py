"""The tools of coding agents as a preflight offers them: recorded from the real programs, without their words."""

from functools import cache

import msgspec

from app.config.paths import RESOURCES
from app.gateway.canonical.request import ToolDefinition

FILE = RESOURCES / "tool-forms.json"


class ToolForm(msgspec.Struct, frozen=True, kw_only=True):
    """One tool; `parameters` is its JSON schema."""

    name: str
    parameters: msgspec.Raw


def list_tools(tool: str) -> tuple[ToolDefinition, ...]:
    """Return the tools that an agent offers, by its id; none for one that has none, or was not recorded. Reads a file.

    Their names and parameters have to say what they do.
    """
    return tuple(
        ToolDefinition(name=form.name, description=form.name.replace("_", " "), parameters=form.parameters)
        for form in _read_forms().get(tool, ())
    )


@cache
def _read_forms() -> dict[str, list[ToolForm]]:
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, list[ToolForm]])
